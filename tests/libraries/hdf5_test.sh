#!/bin/sh
# Parallel HDF5: datasets of all kinds, attributes, collective metadata, and other ranks that go on with the file.
#
# usage: hdf5_test.sh WEIR MPI LAUNCHER...     MPI: openmpi or mpich
set -eu
here=$(dirname "$0")
weir=$1 mpi=$2
shift 2
# shellcheck source=tests/libraries/same_file.sh
. "$here/same_file.sh"
need_program "mpicc.$mpi" "lib$mpi-dev"
need_program pkg-config pkgconf
pkg-config --exists "hdf5-$mpi" || skip "no parallel HDF5 for $mpi here (package libhdf5-$mpi-dev)"

# shellcheck disable=SC2046  # flags are words
"mpicc.$mpi" -O1 "$here/hdf5.c" $(pkg-config --cflags --libs "hdf5-$mpi") -o "$work/hdf5" || fail "hdf5.c does not compile"
for metadata in collective independent; do
  same_file "$weir" "$@" -- "$work/hdf5" $metadata
done
