#!/bin/sh
# Fails if a component that is given a runtime takes time, random numbers, threads or the environment by itself, instead of from its
# runtime::Runtime.  Tests may.  The directory that memory files are made in belongs to the process, not to a store.
set -eu
cd "$(dirname "$0")/../src/weir"

taken='(steady_clock|system_clock|high_resolution_clock|Clock)::now\(|random_id\(|random_device|std::j?thread[^:]|std::async|[^a-z_]environment\(|getenv\(|MPI_Wtime'
# shellcheck disable=SC2046  # names of files have no spaces
if grep -nE "$taken" $(find net share storage server client pario group exchange mpi model redist scalapack \( -name '*.cpp' -o -name '*.h' \) \
  ! -name '*_test.cpp' ! -name '*_bench.cpp' ! -name '*_fuzz.cpp' ! -name '*testing.h' ! -path '*/testing/*' ! -name memory_files.cpp); then
  echo "These files in src/weir take what src/weir/runtime/runtime.h gives."
  exit 1
fi
