#!/bin/sh
# Every directive of the golden tests can fail.  usage: IRTEST STRETTO
irtest=$1 stretto=$2
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

# fails DIRECTIVE...: a file with these directives behind a good run fails,
# and the report names the line.
fails() {
	{
		echo "# run: opt --passes= %s"
		for line in "$@"; do
			echo "# $line"
		done
		cat <<'END'
stretto-ir 1
form logical

entry @main(%x : f32[4]) {
  %a = scale %x, factor=2.0 : f32[4]
  %b = scale %a, factor=3.0 : f32[4]
  ret %b as b
}
END
	} >"$dir/t.ir"
	if "$irtest" "$stretto" "$dir/t.ir" >"$dir/out"; then
		failed=$((failed + 1))
		echo "FAILED: passes: $*"
	elif grep -q "t.ir:[0-9]*: " "$dir/out"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: no place in the report: $*"
	fi
}

fails "check: %c ="
fails "check: %b =" "check: %a ="
fails "check: %a =" "next: ret"
fails "not: %a =" "check: %b ="
fails "check: %a =" "not: %b ="
fails "order: %b < %a"
fails "order: %a < %c"
fails "count: 3 scale"
fails "error: no such message"
fails "exit: 1"
fails "check: %[[X]] = scale %x" "next: %b = scale %[[X]], factor=2.0"
fails "check: %[[X]] = scale %x" "next: %[[X]] = scale"
fails "check: %[[FIRST]] = scale %x" "check: scale %[[FIRST]], factor=2.0"
fails "chek: %a ="
fails "golden: $dir/none"
echo "another text" >"$dir/golden"
fails "golden: $dir/golden"
{
	echo "# run: opt --passes= %s"
	echo "# equal:"
	echo "stretto-ir 1"
	echo "form  logical"
	echo "option seed = 0x"
} >"$dir/t.ir"
if "$irtest" "$stretto" "$dir/t.ir" >/dev/null; then
	failed=$((failed + 1))
	echo "FAILED: equal cannot fail"
else
	passed=$((passed + 1))
fi
# Accepting writes the output, after which the same test passes.
cat >"$dir/t.ir" <<END
# run: opt --passes= %s
# golden: $dir/golden
# check: %[[FIRST]] = scale %x
# next: %[[SECOND]] = scale %[[FIRST]], factor=3.0
# next: ret %[[SECOND]]
stretto-ir 1
form logical

entry @main(%x : f32[4]) {
  %a = scale %x, factor=2.0 : f32[4]
  %b = scale %a, factor=3.0 : f32[4]
  ret %b as b
}
END
if "$irtest" --accept "$stretto" "$dir/t.ir" >/dev/null &&
	"$irtest" "$stretto" "$dir/t.ir" >"$dir/out" &&
	sed 1,5d "$dir/t.ir" | cmp -s - "$dir/golden"; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAILED: accept"
	cat "$dir/out"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
