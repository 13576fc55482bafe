#!/bin/sh
# Fails if a source names a variable WEIR_... of the environment that the table in src/weir/base/environment.cpp lacks, or the table has
# one that no source names.
set -eu
cd "$(dirname "$0")/.."

table=src/weir/base/environment.cpp
names() { grep -hoE '"WEIR_[A-Z_]+"' "$@" | sort -u; }
listed=$(names "$table")
used=$(names $(find src/weir \( -name '*.cpp' -o -name '*.h' \) ! -name '*_test.cpp' ! -name '*_bench.cpp' ! -path '*/testing/*' \
  ! -path '*/programs/*' ! -path "$table"))
failed=0
for name in $used; do
  echo "$listed" | grep -qx "$name" && continue
  echo "$table does not list $name: $(grep -rl "$name" src/weir | tr '\n' ' ')"
  failed=1
done
for name in $listed; do
  echo "$used" | grep -qx "$name" && continue
  echo "$table lists $name, which no source reads"
  failed=1
done
exit $failed
