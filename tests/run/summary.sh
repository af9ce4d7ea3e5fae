#!/bin/sh
# Adds up the results of test.sh; prints the output of what failed and, last,
# "N passed, N failed, N skipped".
passed=0 failed=0 skipped=0
for result in "$@"; do
	read -r p f s name <"$result"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	[ "$s" -eq 0 ] || echo "$name: $s skipped"
	[ "$f" -eq 0 ] || {
		echo "FAILED $name"
		sed 1d "$result" | tail -n 60
		rm -f "$result" # so that the next run tries it again
	}
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
