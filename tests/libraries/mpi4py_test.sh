#!/bin/sh
# mpi4py: views, non-blocking, split, ordered and shared accesses.  Debian has it for Open MPI only.
#
# usage: mpi4py_test.sh WEIR LAUNCHER...
set -eu
here=$(dirname "$0")
weir=$1
shift
# shellcheck source=tests/libraries/same_file.sh
. "$here/same_file.sh"
openmpi_io=ompio # its ROMIO has no non-blocking collective functions; all bytes are written here
python=/usr/bin/python3 # Debian's, whatever else PATH has
need_program "$python" python3
"$python" -c 'import mpi4py, numpy' 2>/dev/null || skip "no mpi4py here (packages python3-mpi4py, python3-numpy)"
same_file "$weir" "$@" -- "$python $here/mpi4py_program.py"
