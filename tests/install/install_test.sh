#!/bin/sh
# Installs into a temporary folder, then builds and runs programs that know of nothing but that folder.
# usage: install_test.sh BUILD_FOLDER CC CXX
set -eu

build=$1 cc=$2 cxx=$3
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../examples
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
prefix=$folder/prefix

# step WHAT COMMAND...: says what failed, with its output.
step() {
  what=$1
  shift
  if ! "$@" >"$folder/log" 2>&1; then
    cat "$folder/log"
    echo "FAILED: $what"
    exit 1
  fi
  echo "$what: ok"
}

# expect_output TEXT: of the last step.
expect_output() {
  grep -qF -- "$1" "$folder/log" && return 0
  cat "$folder/log"
  echo "FAILED: '$1' is not in the output"
  exit 1
}

step "cmake --install" cmake --install "$build" --prefix "$prefix"
pkgconfig=$(dirname "$(find "$prefix" -name weir.pc)")
lib=$(dirname "$pkgconfig")

step "weir --version" "$prefix/bin/weir" --version
step "manual page" grep -q 'SS weir up' "$prefix/share/man/man1/weir.1"
step "completion" grep -q 'complete .* weir$' "$prefix/share/bash-completion/completions/weir"
test "$(find "$prefix/include" -path '*internal*' -o -path '*testing*')" = "" || { echo "FAILED: private headers installed"; exit 1; }
step "soname" sh -c "objdump -p '$lib/libweir.so' | grep -E 'SONAME +libweir\.so\.[0-9]+$'"
# One library finds out which MPI a process has; it needs nothing but the C library, and is found where it was installed.
if ls "$lib"/libweir_mpiio_*.so >/dev/null 2>&1; then
  step "weir env" env -u WEIR_LIBRARY_DIR "$prefix/bin/weir" env --fs tcp:127.0.0.1:1
  expect_output "$lib/libweir_preload.so"
  step "preloaded into everything" sh -c "! objdump -p '$lib/libweir_preload.so' | grep NEEDED | grep -v libc.so"
fi
# Nothing points back to where it was built.
step "libraries needed" sh -c "! objdump -p '$prefix/bin/weir' '$lib/libweir.so' | grep -E 'R(UN)?PATH'"

PKG_CONFIG_PATH=$pkgconfig
export PKG_CONFIG_PATH
if ! command -v pkg-config >/dev/null; then
  echo "skipped what needs pkg-config"
else
  # shellcheck disable=SC2046  # flags are meant to be split
  step "C by pkg-config" "$cc" -Wall -Werror "$examples/columns.c" -o "$folder/columns" $(pkg-config --cflags --libs weir)
  step "the C program" env LD_LIBRARY_PATH="$lib" "$examples/with_servers.sh" "$prefix/bin/weir" "$folder/columns"
  expect_output "256 rows read back"
  # The same, with our part of it inside the program.
  # shellcheck disable=SC2046
  step "C by pkg-config --static" "$cc" "$examples/columns.c" -o "$folder/columns_static" \
    $(pkg-config --cflags weir) $(pkg-config --static --libs weir | sed 's/-lweir //')
  step "no libweir.so needed" sh -c "! objdump -p '$folder/columns_static' | grep -q libweir.so"
  step "the static C program" "$examples/with_servers.sh" "$prefix/bin/weir" "$folder/columns_static"
  # shellcheck disable=SC2046
  step "C++ by pkg-config" "$cxx" -std=c++20 "$examples/embedded.cpp" -o "$folder/embedded" \
    $(pkg-config --cflags --libs weir-client)
  step "the C++ program" "$folder/embedded"
fi

cp "$examples/embedded.cpp" "$examples/columns.c" "$here/consumer/CMakeLists.txt" "$folder"
step "find_package(weir)" cmake -S "$folder" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_CXX_COMPILER="$cxx"
step "building against it" cmake --build "$folder/build"
step "weir::client" "$folder/build/embedded"
step "weir::c" "$examples/with_servers.sh" "$prefix/bin/weir" "$folder/build/columns"
expect_output "256 rows read back"
