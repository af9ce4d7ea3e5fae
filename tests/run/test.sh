#!/bin/sh
# test.sh KIND RESULT PROGRAM [ARG...]: runs one test and writes RESULT, whose
# first line is "PASSED FAILED SKIPPED NAME"; its output follows.  Succeeds
# always: summary.sh reads the results and fails.
#
# criterion  a Criterion program; counts come from its TAP file, skipped tests
#            from the difference to its list (Criterion does not print them)
# plain      exit 0 passed, 77 skipped; a last line "N passed, N failed,
#            N skipped" is taken as its counts
kind=$1 result=$2 program=$3
shift 3
reports=$result.asan
rm -f "$reports".*
# Criterion swallows the exit status of a leak, so reports go to files.
ASAN_OPTIONS=log_path=$reports:detect_leaks=1
UBSAN_OPTIONS=print_stacktrace=1:log_path=$reports
TSAN_OPTIONS=halt_on_error=1
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS
limit=600

count() {
	passed=0 failed=0 skipped=0
	case "$kind" in
	criterion)
		rm -f "$result.tap"
		timeout $limit "$program" --tap="$result.tap" "$@" \
			>"$result.out" 2>&1 </dev/null
		status=$?
		total=$("$program" --list 2>/dev/null |
			grep -c '^[^ ].*[-|]─* \|── ')
		passed=$(grep -c '^ok ' "$result.tap" 2>/dev/null)
		failed=$(grep -c '^not ok ' "$result.tap" 2>/dev/null)
		skipped=$(grep -c '^ok .*# SKIP' "$result.tap" 2>/dev/null)
		passed=$((passed - skipped))
		[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
		[ $((passed + failed)) -gt 0 ] || failed=1
		rest=$((${total:-0} - passed - failed - skipped))
		[ "$rest" -le 0 ] || skipped=$((skipped + rest))
		rm -f "$result.tap"
		;;
	*)
		case "$program" in
		*.sh) set -- sh "$program" "$@" ;;
		*.py) set -- python3 "$program" "$@" ;;
		*) set -- "$program" "$@" ;;
		esac
		if command -v "$1" >/dev/null; then
			timeout $limit "$@" >"$result.out" 2>&1 </dev/null
			status=$?
		else
			echo "$1 is not here" >"$result.out"
			status=77
		fi
		line=$(tail -n 1 "$result.out" |
			sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
		if [ -n "$line" ]; then
			passed=${line%% *} skipped=${line##* }
			failed=${line#* } failed=${failed% *}
			[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
		elif [ "$status" -eq 0 ]; then
			passed=1
		elif [ "$status" -eq 77 ]; then
			skipped=1
		else
			failed=1
		fi
		;;
	esac
	for report in "$reports".*; do
		[ -e "$report" ] || continue
		cat "$report" >>"$result.out"
		failed=$((failed + 1))
	done
}

count "$@"
{
	echo "$passed $failed $skipped $program"
	cat "$result.out"
} >"$result"
rm -f "$result.out" "$reports".*
exit 0
