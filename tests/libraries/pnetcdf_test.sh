#!/bin/sh
# PnetCDF: fixed and record variables, non-blocking and buffered calls, and other ranks that add a variable and records.
# Debian has it for Open MPI only.
#
# usage: pnetcdf_test.sh WEIR LAUNCHER...
set -eu
here=$(dirname "$0")
weir=$1
shift
# shellcheck source=tests/libraries/same_file.sh
. "$here/same_file.sh"
need_program mpicc.openmpi libopenmpi-dev
[ -f /usr/include/pnetcdf.h ] || skip "no PnetCDF here (package libpnetcdf-dev)"
mpicc.openmpi -O1 "$here/pnetcdf.c" -lpnetcdf -o "$work/pnetcdf" || fail "pnetcdf.c does not compile"
same_file "$weir" "$@" -- "$work/pnetcdf"
