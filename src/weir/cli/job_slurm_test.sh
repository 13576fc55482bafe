#!/bin/sh
# `weir run` in a Slurm allocation, with an `srun` of our own that runs the tasks on this machine and hands its input to all of them, as the real
# one does.
# usage: job_slurm_test.sh WEIR
set -eu

weir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  printf 'job_slurm_test.sh: %s\n' "$*" >&2
  exit 1
}

mkdir "$work/bin" "$work/jobs"
cat >"$work/bin/srun" <<'END'
#!/bin/sh
echo "$*" >>"$SRUN_LOG"
tasks=1
while :; do
  case $1 in
    --ntasks=*) tasks=${1#*=} ;;
    --*) ;;
    *) break ;;
  esac
  shift
done
folder=$(mktemp -d)
pipes=
i=0
while [ "$i" -lt "$tasks" ]; do
  mkfifo "$folder/$i"
  SLURM_PROCID=$i SLURMD_NODENAME=127.0.0.1 "$@" <"$folder/$i" &
  pipes="$pipes $folder/$i"
  i=$((i + 1))
done
tee $pipes >/dev/null # not quoted: several names
wait
rm -r "$folder"
END
chmod +x "$work/bin/srun"
PATH=$work/bin:$PATH
SRUN_LOG=$work/srun.log
WEIR_JOB_DIR=$work/jobs
SLURM_JOB_ID=1
SLURM_JOB_NUM_NODES=2
export PATH SRUN_LOG WEIR_JOB_DIR SLURM_JOB_ID SLURM_JOB_NUM_NODES

head -c 5000000 /dev/urandom >"$work/in"
code=0
"$weir" run --mpi none --capacity 64M --layout 'stripe(unit=64K, over=2)' --stage-in "$work/in:/x" --stage-out "/x:$work/out" -- \
  sh -c '"$1" status && exit 5' sh "$weir" >"$work/status" || code=$?
cat "$work/status"
[ "$code" -eq 5 ] || fail "exit code $code instead of 5"
[ "$(grep -c ' up ' "$work/status")" -eq 2 ] || fail "not one server for each of two nodes"
cmp "$work/in" "$work/out" || fail "the copy differs"
grep -q -e '--nodes=2 --ntasks-per-node=1' "$SRUN_LOG" || fail "srun was not asked for one task on each node"
[ -z "$(ls "$work/jobs")" ] || fail "the job left its folder"

# A server that cannot start ends the job, with its message.
"$weir" run --mpi none --store "disk:$work/in" -- true 2>"$work/err" && fail "a store in a file was not refused"
cat "$work/err"
grep -q '^weir run: server [01]: ' "$work/err" || fail "the message of the server is missing"
[ -z "$(ls "$work/jobs")" ] || fail "the failed job left its folder"
