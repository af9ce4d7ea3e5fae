#!/bin/sh
# The header as other compilers see it: strict C11, and the whole API test as
# C++.  usage: test_cxx.sh CC LIBRARY FLAGS...; skipped without the C++
# compiler that belongs to CC, for its sanitizers.
cc=$1 library=$2
shift 2
case "$cc" in
*clang*) cxx=clang++ ;;
*) cxx=g++ ;;
esac
command -v $cxx >/dev/null || {
	echo "skipped: no $cxx"
	exit 77
}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
warn="-Wall -Wextra -Wpedantic -Werror"
set -e
echo '#include "runtime/stretto.h"' >"$dir/header.c"
# shellcheck disable=SC2086
{
	$cc -std=c11 $warn -Wstrict-prototypes -Wshadow -I. -fsyntax-only \
		"$dir/header.c"
	$cxx -x c++ -std=c++11 $warn -I. -fsyntax-only "$dir/header.c"
	$cxx -x c++ -std=c++11 $warn -g -I. -c tests/api/test_api.c \
		-o "$dir/api.o"
}
$cxx "$dir/api.o" "$library" "$@" -pthread -o "$dir/api"
"$dir/api"
