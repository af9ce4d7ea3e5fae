#!/bin/sh
# House rules that a machine can check; prints each breach and fails.
bad=0

# arrows FOLDER PATTERN: includes of FOLDER that do not match PATTERN.
arrows() {
	git ls-files "$1" | grep '\.[ch]$' | xargs grep -Hn '#include "' |
		grep -Ev "#include \"($2)" && bad=1
}
arrows ir 'ir/|kernels/kernels\.h'
arrows passes 'ir/|passes/'
arrows models 'ir/|models/'
arrows kernels 'kernels/|ref\.h|level\.h'
arrows runtime 'ir/|passes/|models/|kernels/|runtime/|config\.h'

git ls-files '*.c' | grep -E '^(ir|models|passes|kernels|runtime)/' |
	while read -r file; do
		grep -q "cc $file\$" tests/edges.ninja ||
			echo "$file is missing in tests/edges.ninja"
	done | grep . && bad=1

git ls-files '*.[ch]' | while read -r file; do
	expand -t 8 "$file" | awk -v f="$file" 'length($0) > 80 {
		print f ":" NR ": " length($0) " columns" }'
done | grep . && bad=1

git ls-files ir models passes runtime kernels | grep '\.[ch]$' |
	grep -v '^runtime/cli/' | xargs grep -HnE \
	'(^|[^_a-z])(strcpy|strcat|sprintf|atoi|gets|exit|abort|printf) *\(' &&
	bad=1
[ $bad -eq 0 ] && echo "lint: clean"
exit $bad
