#!/bin/sh
# A job on two hosts, a server on each: what a rank sees of a file is stored on its own host, and its bytes do not cross the link.
#
# Servers are started as on nodes of Slurm, by an `srun` of our own
# that runs one task on each host.  The ranks are those of one MPICH job on both hosts; MPI itself talks through memory that both see, so that
# all that crosses the link is ours.
#
# usage: placement_test.sh WEIR VIEW_WRITER MPICH_LAUNCHER...
set -eu

weir=$1 writer=$2
shift 2
first=weir-a-$$ second=weir-b-$$
blocks_bytes=65536 # that each rank writes
patience_s=120

# shellcheck source=tests/hosts/two_hosts.sh
. "$(dirname "$0")/two_hosts.sh"
need ip nsenter unshare mount timeout

folder=$(mktemp -d)

clean_up() {
  remove_hosts
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Server 0 on host A, server 1 on host B; what comes in goes to both.
make_srun() {
  mkdir "$folder/bin" "$folder/jobs"
  cat >"$folder/bin/srun" <<END
#!/bin/sh
while case \$1 in --*) true ;; *) false ;; esac; do shift; done
mkfifo "$folder/to0" "$folder/to1"
SLURM_PROCID=0 SLURMD_NODENAME=$first_address "$folder/on_host" $first "\$@" <"$folder/to0" &
SLURM_PROCID=1 SLURMD_NODENAME=$second_address "$folder/on_host" $second "\$@" <"$folder/to1" &
tee "$folder/to0" "$folder/to1" >/dev/null
wait
END
  chmod +x "$folder/bin/srun"
}

# What the job does: files of four ranks, in two orders of hosts, and what became of them.
make_job() {
  cat >"$folder/job" <<END
#!/bin/sh
set -eu
on_a() { echo "$folder/on_host" $first "$writer" "\$1"; }
on_b() { echo "$folder/on_host" $second "$writer" "\$1"; }
crossed() { cat /sys/class/net/to-second/statistics/rx_bytes; }
crossed >"$folder/crossed.before"
"\$@" -n 2 \$(on_b weir:/bbaa) : -n 2 \$(on_a weir:/bbaa)
crossed >"$folder/crossed.after"
"\$@" -n 1 \$(on_a weir:/abba) : -n 2 \$(on_b weir:/abba) : -n 1 \$(on_a weir:/abba)
"$weir" stat /bbaa --json >"$folder/bbaa"
"$weir" stat /abba --json >"$folder/abba"
END
  chmod +x "$folder/job"
}

targets_of() { grep -oE '"target":[0-9]+' "$folder/$1" | cut -d: -f2 | tr '\n' ' '; }

expect_targets() {
  [ "$(targets_of "$1")" = "$2 " ] || fail "subfiles of /$1 are on targets $(targets_of "$1"), not $2"
  [ "$(grep -oE "\"length\":${blocks_bytes}[^0-9]" "$folder/$1" | wc -l)" -eq 4 ] || fail "/$1 is not stored as viewed"
  echo "/$1 on targets $2: ok"
}

{ make_hosts && wait_for_link && "$folder/on_host" "$first" true; } >"$folder/out" 2>&1 || skip "namespaces cannot be made: $(tail -n 1 "$folder/out")"
make_srun
make_job
mkdir "$folder/traces"
PATH=$folder/bin:$PATH WEIR_JOB_DIR=$folder/jobs SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=2 \
  WEIR_TRACE=$folder/traces WEIR_LOG=info ASAN_OPTIONS=detect_leaks=0 \
  timeout "$patience_s" "$folder/on_host" "$first" "$weir" run --mpi none --capacity 64M -- "$folder/job" "$@" \
  >"$folder/out" 2>&1 || fail "the job ended with code $?"

expect_targets bbaa "1 1 0 0"
expect_targets abba "0 1 1 0"
grep -q "\"address\":\"tcp:$second_address:" "$folder/bbaa" || fail "stat does not tell the address of the second server"
grep -q 'as the views of the ranks, 4 of 4 on the host of their rank' "$folder/out" || fail "the log does not tell why"
[ "$(cat "$folder"/traces/*.trace | grep -c '4 of 4 on the host of their rank')" -eq 2 ] || fail "the traces do not tell why"
bytes=$(($(cat "$folder/crossed.after") - $(cat "$folder/crossed.before")))
[ "$bytes" -lt "$blocks_bytes" ] || fail "$bytes bytes crossed the link; the ranks on one host wrote $((2 * blocks_bytes))"
echo "$bytes bytes crossed the link: ok"
