#!/bin/sh
# loads_test.sh FILE...: programs and libraries of ranks and clients load nothing that only servers need, and contain no code of servers.
set -eu

failed=0
fail() {
  echo "FAILED: $1"
  failed=1
}

for file in "$@"; do
  loaded=$(ldd "$file")
  echo "$file:"
  echo "$loaded"
  # Also what libraries load in turn.
  for library in rocksdb uring; do
    if echo "$loaded" | grep -q "lib$library"; then fail "$file loads lib$library"; fi
  done
  # An MPI may load UCX for itself.
  if readelf -d "$file" | grep NEEDED | grep -E 'xxhash|libucp|tomlplusplus'; then fail "$file needs what clients do not use"; fi
  if nm --defined-only "$file" | grep -q '4weir6server'; then fail "$file contains code of servers"; fi
done
exit $failed
