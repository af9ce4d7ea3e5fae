#!/bin/sh
# Runs each fuzz target for FUZZ_SECONDS (600) on its corpus; what it finds is
# left in build/fuzz, for the corpus.  usage: fuzz.sh PROGRAM...
seconds=${FUZZ_SECONDS:-600}
status=0
for program in "$@"; do
	name=$(basename "$program")
	kind=${name#fuzz_}
	mkdir -p "build/fuzz/$kind"
	dict=
	[ ! -f "tests/fuzz/$kind.dict" ] || dict=-dict=tests/fuzz/$kind.dict
	echo "$name: $seconds s"
	"$program" -max_total_time="$seconds" -max_len=6000 -timeout=10 \
		$dict -artifact_prefix="build/fuzz/$name-" -verbosity=0 \
		-print_final_stats=1 "build/fuzz/$kind" \
		"tests/fuzz/corpus/$kind" "tests/bad/$kind" \
		>"build/fuzz/$name.log" 2>&1 || status=1
	grep -E 'stat::number_of_executed_units|ERROR|SUMMARY' \
		"build/fuzz/$name.log"
done
exit $status
