#!/bin/sh
# Compiles tiny-gpt for four ranks (dp 2, tp 2, sequence parallel) and trains
# it on the King James Bible, bytes as tokens; then shows what overlap gains.
set -eu
stretto=${1:-build/stretto}
mkdir -p build/demo
text=build/demo/kjv.txt
if ! command -v bible >/dev/null; then
	echo "the text is missing: apt-get install bible-kjv," \
		"or ./configure --install" >&2
	exit 1
fi
# One verse a line; its number is dropped.
[ -s $text ] || {
	bible -f gen1:1-rev22:21 </dev/null |
		sed 's/^[1-3]*[A-Za-z]*[0-9]*:[0-9]* //' >$text.tmp
	mv $text.tmp $text
}
echo "text: $(wc -c <$text) bytes"
$stretto compile models/nets/tiny-gpt.yaml -o build/demo/plan.ir
$stretto train models/nets/tiny-gpt.yaml --data $text \
	--save build/demo/tiny-gpt.safetensors
exec runtime/cli/demo_overlap.sh "$stretto" $text
