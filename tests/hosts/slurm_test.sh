#!/bin/sh
# `weir run` in allocations of a real Slurm with two nodes: servers on both, programs of both MPIs by all their launchers, and nothing left of
# jobs that end, fail, take too long, are cancelled or killed.
#
# usage: slurm_test.sh WEIR [LIBRARY_FOLDER WRITER_OPENMPI WRITER_MPICH]
#
# shellcheck disable=SC2016  # shells in the job expand what is quoted
set -eu

weir=$(readlink -f "$1") openmpi=${3:-} mpich=${4:-}
first=weir-node1-$$ second=weir-node2-$$
patience_s=60
here=$(dirname "$0")

# shellcheck source=tests/hosts/two_hosts.sh
. "$here/two_hosts.sh"
# shellcheck source=tests/hosts/slurm_cluster.sh
. "$here/slurm_cluster.sh"
need_slurm

folder=$(mktemp -d)
clean_up() {
  remove_hosts
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

WEIR_LIBRARY_DIR=${2:-} ASAN_OPTIONS=detect_leaks=0
HYDRA_IFACE=to-second # MPICH's launcher goes by an address, not by a name
export HYDRA_IFACE
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export WEIR_LIBRARY_DIR ASAN_OPTIONS OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM

# in_job OPTION... -- COMMAND...: in an allocation of two nodes; `code` is how it ended.
in_job() {
  code=0
  on_node1 timeout "$patience_s" salloc --quiet --nodes=2 "$@" >"$folder/out" 2>&1 || code=$?
}

expect_code() { [ "$code" -eq "$1" ] || fail "$2: exit code $code instead of $1"; }
expect_text() { grep -q -e "$1" "$folder/out" || fail "$2: no '$1' in the output"; }

# What runs on the nodes of us and of the command.
left_processes() {
  for host in "$first" "$second"; do
    for pid in $(ip netns pids "$host"); do
      if grep -qs -z -e '^WEIR_JOB=' "/proc/$pid/environ" || [ "$(readlink "/proc/$pid/exe")" = "$weir" ]; then
        tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" || true
      fi
    done
  done
}

is_nothing_left() { [ -z "$(ls "$folder/home/.weir")" ] && [ -z "$(left_processes)" ]; }

# expect_nothing_left WHAT [TENTHS]: at once, or soon.
expect_nothing_left() {
  wait_until "${2:-5}" is_nothing_left || fail "$1 left: $(ls "$folder/home/.weir") $(left_processes)"
  echo "$1: ok"
}

wait_for_file() { wait_until 200 [ -e "$1" ] || fail "$1 did not appear"; }

has_no_jobs() { [ -z "$(on_node1 squeue --noheader)" ]; }
wait_for_jobs_to_end() { wait_until 200 has_no_jobs || fail "the job does not end: $(on_node1 squeue --noheader)"; }

# make_expected RANKS LETTER...: what so many ranks write: blocks of each in turn.
make_expected() {
  ranks=$1
  shift
  for rank; do head -c 4096 /dev/zero | tr '\0' "$rank"; done >"$folder/round"
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cat "$folder/round"; done >"$folder/expected-$ranks"
}

# writes RANKS LAUNCHER...: on two nodes; a server of its own node has what a rank writes.
writes() {
  ranks=$1
  shift
  rm -f "$folder/copy"
  in_job --ntasks-per-node=$((ranks / 2)) env WEIR_LOG=info \
    "$weir" run --capacity 64M --stage-out "/x:$folder/copy" -- "$@" weir:/x
  expect_code 0 "$*"
  cmp "$folder/expected-$ranks" "$folder/copy" || fail "$*: other bytes than expected"
  expect_text "as the views of the ranks, $ranks of $ranks on the host of their rank" "$*"
  expect_nothing_left "$*"
}

{ make_hosts && wait_for_link; } >"$folder/out" 2>&1 || skip "namespaces cannot be made: $(tail -n 1 "$folder/out")"
start_cluster >"$folder/out" 2>&1 || fail "Slurm does not start"
make_expected 4 a b c d
make_expected 2 a b

# Programs of both MPIs, started by their own launchers and by Slurm's.
if [ -n "$mpich" ]; then
  writes 4 mpirun.openmpi -n 4 "$openmpi"
  writes 4 srun --mpi=pmix -n 4 "$openmpi"
  writes 4 mpiexec.mpich -ppn 2 -n 4 "$mpich"
  writes 4 srun --mpi=pmi2 -n 4 "$mpich"
  writes 2 sh -c 'srun --mpi=pmi2 -n 2 "$@"' sh "$mpich"
fi

# One server on each node, at addresses that the other node reaches; or as many as there should be.
in_job "$weir" run --mpi none --capacity 64M -- sh -c '"$1" status && exit 5' sh "$weir"
expect_code 5 "a command that fails"
[ "$(grep -c ' up ' "$folder/out")" -eq 2 ] || fail "not one server for each of two nodes"
expect_text "tcp:$first_address:" "status"
expect_text "tcp:$second_address:" "status"
expect_nothing_left "a command that fails"
in_job "$weir" run --mpi none --servers 5 -- "$weir" status
expect_code 0 "five servers"
[ "$(grep -c ' up ' "$folder/out")" -eq 5 ] || fail "not five servers"
expect_nothing_left "five servers"

# Settings that are meant for the steps of the command, and one that makes UCX warn on standard output.
in_job --ntasks-per-node=2 --mem-per-cpu=100 env SLURM_LABELIO=1 SLURM_STDOUTMODE=none SLURM_EXPORT_ENV=NONE SLURM_NTASKS_PER_NODE=2 \
  UCX_NET_DEVICES=to-first,to-second "$weir" run --mpi none -- "$weir" status
expect_code 0 "settings for steps"
[ "$(grep -c ' up ' "$folder/out")" -eq 2 ] || fail "settings for steps: not two servers"
expect_nothing_left "settings for steps"

# What goes wrong is told.
in_job "$weir" run --mpi none --store "disk:$folder/expected-2" -- true
expect_code 2 "a store in a file"
expect_text '^weir run: store disk:.*/expected-2: Not a directory' "a store in a file"
in_job env SLURM_JOB_ID=4242 "$weir" run --mpi none -- true
expect_code 2 "a job that is not there"
expect_text '^weir run: start servers by srun: srun ended; it said: srun: .*4242' "a job that is not there"
expect_nothing_left "errors"

# Too late.
in_job "$weir" run --timeout 1 --mpi none --capacity 64M -- srun --overlap sleep 1000
expect_code 124 "--timeout"
expect_nothing_left "--timeout"

# Cancelled: a batch job; one whose script is killed, and all that it started on its node with it; an allocation.
cat >"$folder/batch" <<END
#!/bin/sh
"$weir" run --capacity 64M --mpi none -- srun --overlap sh -c 'touch "$folder/runs"; sleep 1000'
END
for how in "" "--batch --signal=KILL"; do
  rm -f "$folder/runs"
  on_node1 sbatch --nodes=2 --ntasks-per-node=1 --output="$folder/batch.out" "$folder/batch" >"$folder/out"
  wait_for_file "$folder/runs"
  # shellcheck disable=SC2086  # options are words
  on_node1 scancel $how --name=batch
  wait_for_jobs_to_end
  expect_nothing_left "scancel $how" 50
done
rm "$folder/runs"
in_job --job-name=cancelled "$weir" run --capacity 64M --mpi none -- srun --overlap sh -c "touch '$folder/runs'; sleep 1000" &
wait_for_file "$folder/runs"
on_node1 scancel --name=cancelled
wait "$!"
expect_nothing_left "an allocation that is cancelled" 50

# Killed, and kept.
in_job sh -c '"$1" run --mpi none --capacity 64M -- sh -c "kill -9 \$PPID; sleep 1000"' sh "$weir"
expect_code 137 "weir run that is killed"
expect_nothing_left "weir run that is killed" 50
# With its keeper, as by control groups of Slurm; it is the first child.
in_job "$weir" run --mpi none --capacity 64M -- sh -c 'read -r keeper _ </proc/$PPID/task/$PPID/children; kill -9 $PPID $keeper'
expect_nothing_left "weir run that is killed with its keeper" 50
in_job sh -c '"$1" run --mpi none --capacity 64M --keep -- true && "$1" status --fs ~/.weir/*/fs.toml &&
  "$1" down --connection ~/.weir/*/fs.toml' sh "$weir"
expect_code 0 "--keep"
[ "$(grep -c ' up ' "$folder/out")" -eq 2 ] || fail "--keep: not two servers"
expect_nothing_left "--keep"
