#!/bin/sh
# `weir run` with programs of whichever MPI libraries are here, linked in several ways and started in several ways: each process gets the library for
# its own MPI, or none.  And what is said in the end: how much was written, which calls failed, what is gone.
#
# usage: run_test.sh WEIR [MPI LAUNCHER [ARGUMENT...] --]...     MPI: openmpi or mpich
set -eu

weir=$(realpath "$1")
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
case=setup
fail() {
  echo "FAILED: $case: $*"
  cat "$work/err" "$work/out" 2>/dev/null || :
  exit 1
}
WEIR_JOB_DIR=$work/jobs
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # of programs without a launcher
export WEIR_JOB_DIR OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
mkdir "$WEIR_JOB_DIR"
unset SLURM_JOB_ID LD_PRELOAD WEIR_TRACE || :

# job CASE CODE OPTION... -- COMMAND...: standard error is in $work/err.
job() {
  case=$1 wanted=$2 code=0
  shift 2
  rm -rf "$work/all"
  "$weir" run --capacity 64M --timeout 100 "$@" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" -eq "$wanted" ] || fail "exit code $code instead of $wanted"
  [ -z "$(ls "$WEIR_JOB_DIR")" ] || fail "the job left its folder"
  echo "$case: ok"
}
says() { grep -qF -- "$1" "$work/err" || fail "standard error does not say: $1"; }
has() { [ "$(wc -c <"$1")" -eq "$2" ] || fail "$1 has not $2 bytes"; }

mpis=
while [ $# -gt 0 ]; do
  mpi=$1
  shift
  launcher=
  while [ "$1" != -- ]; do
    launcher="$launcher $1"
    shift
  done
  shift
  command -v "mpicc.$mpi" >/dev/null || continue
  "mpicc.$mpi" -O1 "$here/careless.c" -o "$work/$mpi" || fail "careless.c does not compile"
  # All symbols bound when the program starts, and none of them from a library that it names itself.
  "mpicc.$mpi" -O1 -Wl,-z,now "$here/careless.c" -o "$work/$mpi-now" || fail "careless.c does not compile"
  mpis="$mpis $mpi"
  printf '#!/bin/sh\nexec%s "$@"\n' "$launcher" >"$work/launch-$mpi"
done
chmod +x "$work"/launch-*
[ -n "$mpis" ] || { echo "skipped: no mpicc.openmpi or mpicc.mpich here"; exit 77; }

# ---- always the right library

for mpi in $mpis; do
  case=$mpi
  # Programs behind a shell, its launcher in a script, through other programs, and all of these again.
  job "$mpi in a script" 0 --stage-out "all:$work/all" -- sh -c "'$work/launch-$mpi' -n 2 '$work/$mpi' weir:/a 100000 &&
    env nice sh -c '$work/launch-$mpi -n 2 $work/$mpi-now weir:/b 5' && exec '$work/$mpi' weir:/c 7"
  has "$work/all/a" 200000
  has "$work/all/b" 10
  has "$work/all/c" 7
  says "of 3 files"
  says "no failed calls"
  job "$mpi forced" 0 --mpi "$mpi" --stage-out "all:$work/all" -- "$work/launch-$mpi" -n 2 "$work/$mpi" weir:/a 100
  has "$work/all/a" 200
done

# A script that preloads the library of its MPI itself (weir env --mpi), before ours.
mpi=${mpis##* }
library=$("$weir" env --fs tcp:127.0.0.1:1 --mpi "$mpi" | sed -n "s/.*LD_PRELOAD='\(.*\)';/\1/p")
job "$mpi, preloaded twice" 0 --stage-out "all:$work/all" -- \
  sh -c "LD_PRELOAD=$library:\$LD_PRELOAD; '$work/$mpi' weir:/a 1000 && '$work/$mpi' '$work/twice' 1000"
has "$work/all/a" 1000
has "$work/twice" 1000

# Programs of both in one job, one after the other and side by side.
case $mpis in
  *openmpi*mpich* | *mpich*openmpi*)
    job "both MPIs" 0 --stage-out "all:$work/all" -- sh -c "'$work/launch-openmpi' -n 2 '$work/openmpi' weir:/o 100000 &
      '$work/launch-mpich' -n 2 '$work/mpich' weir:/m 50000 && wait \$! && '$work/openmpi' weir:/p 3"
    has "$work/all/o" 200000
    has "$work/all/m" 100000
    has "$work/all/p" 3
    says "wrote 293 KiB and read 0 B of 3 files"
    ;;
esac

# An interpreter that loads MPI late, and functions of other modules.
python=/usr/bin/python3 # Debian's, whatever else PATH has
if [ -x "$work/launch-openmpi" ] && "$python" -c 'import mpi4py' 2>/dev/null; then
  cat >"$work/late.py" <<'PYTHON'
from mpi4py import MPI
file = MPI.File.Open(MPI.COMM_WORLD, "weir:/py", MPI.MODE_CREATE | MPI.MODE_WRONLY)
file.Iwrite_at(MPI.COMM_WORLD.rank * 4, b"late").Wait()
file.Close()
PYTHON
  job "python3, mpi4py" 0 --stage-out "all:$work/all" -- sh -c "'$work/launch-openmpi' -n 2 '$python' '$work/late.py'"
  [ "$(cat "$work/all/py")" = latelate ] || fail "other bytes"
fi

# Processes without MPI stay as they are; programs that nothing can be preloaded into, too.
job "no MPI" 0 -- sh -c "! grep -q libweir_mpiio /proc/self/maps && grep -q libweir_preload /proc/self/maps"
if echo 'int main(void) { return 5; }' >"$work/static.c" && cc -static "$work/static.c" -o "$work/static" 2>/dev/null; then
  job "static program" 5 -- "$work/static"
fi

# No library for the MPI that a process has: files of its own work, and names of Weir's are pointed out.
mpi=${mpis##* }
mkdir "$work/lib"
preload=$(WEIR_FS=tcp:127.0.0.1:1 "$weir" env --fs tcp:127.0.0.1:1 | sed -n "s/.*LD_PRELOAD='\(.*\)';/\1/p")
cp "$preload" "$work/lib"
WEIR_LIBRARY_DIR=$work/lib
export WEIR_LIBRARY_DIR
job "no library for $mpi, local file" 0 -- sh -c "'$work/launch-$mpi' -n 1 '$work/$mpi' '$work/plain' 1000"
has "$work/plain" 1000
# What becomes of such a name is the MPI's business; some make a local file of it.
case="no library for $mpi"
(cd "$work" && "$weir" run -- sh -c "'$work/launch-$mpi' -n 1 '$work/$mpi' weir:/x 10") >"$work/out" 2>"$work/err" || :
says "MPI_File_open weir:/x: $work/lib/libweir_mpiio_$mpi.so"
unset WEIR_LIBRARY_DIR

# ---- what is said

for mpi in $mpis; do
  # 96 MiB do not fit into 64.
  job "$mpi, full store" 0 -- "$work/launch-$mpi" -n 2 "$work/$mpi" weir:/full 50331648
  says "I/O calls failed."
  says "/full: MPI_File_write_at"
  says "of 67108864; raise --capacity"
  says "existed in memory only and is gone; --stage-out keeps it"
  job "$mpi, full store, --fail-on-io-error" 2 --fail-on-io-error --quiet -- \
    "$work/launch-$mpi" -n 2 "$work/$mpi" weir:/full 50331648
  says "I/O calls failed."
  job "$mpi, write after close" 0 -- "$work/$mpi" weir:/late 10 late
  says "a closed file: MPI_File_write_at, 1 time on rank 0"
  rm -f "$work/drained"
  job "$mpi, --drain" 0 --drain --stage-out "/big:$work/drained" -- \
    "$work/launch-$mpi" -n 2 "$work/$mpi" weir:/big 3000000 "$work/drained"
  has "$work/drained" 6000000
  "mpicc.$mpi" -O1 "$here/wild.c" -o "$work/wild" || fail "wild.c does not compile"
  printf '#!/bin/sh\n[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" = 0 ] && export WEIR_DIRECT=off\nexec "%s" "$@"\n' "$work/wild" >"$work/wild-0"
  chmod +x "$work/wild-0"
  for program in wild wild-0; do # rank 0 reads mapped memory, or by message
    job "$mpi, $program pointer" 0 --verify-memory --layout 'stripe(unit=64K, over=1)' -- "$work/launch-$mpi" -n 2 "$work/$program" weir:/wild
    says "/wild: MPI_File_read_at"
    says "bytes 65536 to 131072"
  done
done
