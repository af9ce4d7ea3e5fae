#!/bin/sh
cat <<'END'
all          the program and its library (default)
demo         compiles and trains a small language model on four ranks
check        the tests; ends with "N passed, N failed, N skipped"
check-asan   the same under the address sanitizer
check-ubsan  the same under the undefined-behaviour sanitizer
check-tsan   the threaded tests under the thread sanitizer
accept       writes tests/golden anew; read the difference before you commit
accept       write the golden outputs of tests/ir/whole.ir anew
lint         house rules: include arrows, long lines, banned functions
bench        speed of kernels and steps beside the library's own
fuzz         fuzz targets, FUZZ_SECONDS (600) each; needs clang
format       clang-format over all C files
install      program, library, header, models (PREFIX by ./configure, DESTDIR)
END
