#!/bin/sh
# The second compiler: every file must pass clang without a warning.  Says so
# where there is no clang.
command -v clang >/dev/null || {
	echo "clang: not here, not checked"
	exit 0
}
flags=$(sed -n 's/^blas_cflags = //p; s/^criterion_cflags = //p' config.ninja)
git ls-files '*.c' | xargs -P 2 -n 8 clang -std=gnu17 -Wall -Wextra -Wshadow \
	-Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror \
	-I. -Ibuild $flags -fsyntax-only && echo "clang: no warnings"
