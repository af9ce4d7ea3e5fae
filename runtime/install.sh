#!/bin/sh
# install.sh PREFIX LIBS...: program, library, header, models, pkg-config.
# DESTDIR is put before every path.
set -eu
prefix=$1
shift
to=${DESTDIR-}$prefix
mkdir -p "$to/bin" "$to/lib/pkgconfig" "$to/include" "$to/share/stretto"
install -m 755 build/stretto "$to/bin/stretto"
install -m 644 build/libstretto.a "$to/lib/libstretto.a"
install -m 755 build/libstretto.so.0 "$to/lib/libstretto.so.0"
ln -sf libstretto.so.0 "$to/lib/libstretto.so"
install -m 644 runtime/stretto.h "$to/include/stretto.h"
for folder in families nets machines; do
	mkdir -p "$to/share/stretto/$folder"
	install -m 644 models/$folder/*.yaml "$to/share/stretto/$folder"
done
version=$(sed -n 's/^#define ST_VERSION "\(.*\)"/\1/p' build/config.h)
cat >"$to/lib/pkgconfig/stretto.pc" <<END
prefix=$(printf %s "$prefix" | sed 's/ /\\ /g')
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: stretto
Description: compiles model descriptions to task graphs and replays them
Version: $version
Libs: -L\${libdir} -lstretto
Libs.private: $* -pthread
Cflags: -I\${includedir}
END
echo "installed in $to"
