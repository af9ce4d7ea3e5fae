#!/bin/sh
# What `ninja install` leaves works on its own: the program finds its models,
# a trainer builds against the header and the library.
# usage: test_install.sh CC
cc=${1:-cc}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
root=$(pwd)
prefix=$(sed -n 's/^prefix = //p' config.ninja)
passed=0 failed=0

try() {
	if "$@" >"$dir/log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $*"
		tail -n 5 "$dir/log"
	fi
}

try env DESTDIR="$dir" sh runtime/install.sh "$prefix" -lyaml -lm
to=$dir$prefix
try "$to/bin/stretto" check "$to/share/stretto/nets/tiny-gpt.yaml"
try "$cc" -I"$to/include" "-DHAVE_INSTALLED" -x c \
	-include stretto.h /dev/null -c -o "$dir/empty.o"
sed 's,"runtime/stretto.h",<stretto.h>,' tests/api/test_api.c >"$dir/api.c"
try "$cc" -I"$to/include" "$dir/api.c" -o "$dir/api" -L"$to/lib" -lstretto \
	-Wl,-rpath,"$to/lib" -lm -pthread
try sh -c "cd '$root' && '$dir/api'"
# A prefix may have a space in it: in the command of ninja, in what it puts
# there and in what pkg-config says of it.
mkdir "$dir/a b"
{
	sed -n 's/^libs = .*/&/p' config.ninja
	echo "prefix = $dir/a b"
	sed -n '/^rule install/,/^$/p' build.ninja
	echo "build install: install"
} >"$dir/build.ninja"
try sh -c "$(ninja -f "$dir/build.ninja" -t commands install)"
try test -x "$dir/a b/bin/stretto"
if command -v pkg-config >/dev/null; then
	flags=$(PKG_CONFIG_PATH="$dir/a b/lib/pkgconfig" \
		pkg-config --cflags --libs stretto)
	try sh -c "'$cc' '$dir/api.c' -o '$dir/spaced' $flags -lm -pthread"
fi

# Only the public names leave the library.
names=$(nm -D --defined-only "$to/lib/libstretto.so.0" |
	grep -v ' stretto_' | grep -cv ' A ')
try test "$names" -eq 0
try grep -q "Libs: -L" "$to/lib/pkgconfig/stretto.pc"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
