#!/bin/sh
# Makes the Debian packages and looks at what is in them.
# usage: packages_test.sh BUILD_FOLDER
set -eu

build=$1
for tool in cpack dpkg-deb dpkg-shlibdeps; do
  command -v "$tool" >/dev/null && continue
  echo "skipped: no $tool here"
  exit 77
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

# gzip: this is about the lists, not about the sizes.
if ! cpack --config "$build/CPackConfig.cmake" -B "$folder" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip >"$folder/log" 2>&1; then
  cat "$folder/log"
  echo "FAILED: cpack"
  exit 1
fi

failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}

# holds PACKAGE FILE...: patterns of names below /usr.
holds() {
  package=$1
  shift
  deb=$(echo "$folder/${package}"_*.deb)
  [ -f "$deb" ] || { fail "no package $package"; return; }
  dpkg-deb --contents "$deb" | awk '{ print $6 }' >"$folder/list"
  for file in "$@" "share/doc/$package/copyright"; do
    grep -qxE "\./usr/$file" "$folder/list" || fail "$package: no $file"
  done
  dpkg-deb --field "$deb" Maintainer | grep -q @ || fail "$package: no maintainer"
  [ -n "$(dpkg-deb --field "$deb" Description Section)" ] || fail "$package: no description or section"
}

# lacks PACKAGE PATTERN
lacks() {
  dpkg-deb --contents "$folder/$1"_*.deb | awk '{ print $6 }' | grep -E "$2" >"$folder/found" || return 0
  fail "$1 should not have: $(head -n 3 "$folder/found")"
}

# depends PACKAGE NAME
depends() {
  dpkg-deb --field "$folder/$1"_*.deb Depends | grep -qE "(^|, )$2([ ,]|\$)" || fail "$1 does not depend on $2"
}

holds weir bin/weir 'lib/libweir\.so\.[0-9]+' 'lib/libweir\.so\.[0-9.]+' share/man/man1/weir.1 \
  share/bash-completion/completions/weir
lacks weir '\.(h|a|cmake|pc)$|/libweir\.so$'
depends weir libc6
depends weir 'librocksdb[0-9.]+'

holds libweir-dev include/clf.h include/weir.h include/weir/client/file_system.h include/weir/layout/partition.h lib/libweir.so \
  lib/libweir_client.a lib/cmake/weir/weir-config.cmake lib/pkgconfig/weir.pc lib/pkgconfig/weir-client.pc
lacks libweir-dev '/bin/|/internal/|testing\.h|\.so\.'
depends libweir-dev weir
depends libweir-dev librocksdb-dev

recommended=$(dpkg-deb --field "$folder"/weir_*.deb Recommends)
for mpi in openmpi mpich; do
  [ ! -f "$(echo "$folder/weir-$mpi"_*.deb)" ] || echo "$recommended" | grep -qE "(^|[|] )weir-$mpi( [|]|\$)" ||
    fail "weir does not recommend weir-$mpi: '$recommended'"
done

if grep -q -- '-openmpi' "$folder/log"; then
  holds weir lib/libweir_preload.so
  holds weir-openmpi lib/libweir_scalapack.so
  depends weir-openmpi 'libopenmpi[0-9]+'
fi

# Everything is in some package that we know.
for deb in "$folder"/*.deb; do
  case ${deb##*/} in
    weir_* | libweir-dev_* | weir-openmpi_* | weir-mpich_*) ;;
    *) fail "an unexpected package: ${deb##*/}" ;;
  esac
done
[ $failed = 0 ] && echo "packages: ok"
exit $failed
