#!/bin/sh
# h5py with HDF5's MPI driver.  Debian has it for Open MPI only.
#
# usage: h5py_test.sh WEIR LAUNCHER...
set -eu
here=$(dirname "$0")
weir=$1
shift
# shellcheck source=tests/libraries/same_file.sh
. "$here/same_file.sh"
python=/usr/bin/python3 # Debian's, whatever else PATH has
need_program "$python" python3
# Debian's h5py is the serial one unless it is told, or started by mpirun.
H5PY_ALWAYS_USE_MPI=1 "$python" -c 'import sys, h5py; sys.exit(not h5py.get_config().mpi)' 2>/dev/null ||
  skip "no h5py with MPI here (package python3-h5py-mpi)"
same_file "$weir" "$@" -- "$python $here/h5py_program.py"
