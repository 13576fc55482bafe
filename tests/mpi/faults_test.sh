#!/bin/sh
# MPI programs through `weir run`, of which one process is killed at some moment while ranks write: a server, a rank, the launcher, `weir run`
# itself.  Ranks that live on get an error that tells what happened; nothing hangs, and nothing is left.
#
# usage: faults_test.sh WEIR LIBRARY_DIR WRITER LAUNCHER...
set -eu

weir=$1
WEIR_LIBRARY_DIR=$2
writer=$3
shift 3
ranks=3
servers=3
longest=120 # seconds, for what must happen on a machine as slow as may be

work=$(mktemp -d)
case=setup
finish() {
  code=$?
  [ "$code" -eq 0 ] || {
    echo "faults_test.sh: failed in: $case" >&2
    cat "$work"/out "$work"/error.* >&2 2>/dev/null || :
  }
  end_marked
  rm -rf "$work"
}
trap finish EXIT
fail() {
  echo "faults_test.sh: $case: $*" >&2
  exit 1
}

# What MPI libraries themselves leave when they are killed goes with the folder.
TMPDIR=$work
OMPI_MCA_btl_vader_backing_directory=$work
WEIR_JOB_DIR=$work/jobs
export TMPDIR OMPI_MCA_btl_vader_backing_directory WEIR_JOB_DIR WEIR_LIBRARY_DIR
unset SLURM_JOB_ID || :

# Processes of this test's jobs, by their environment.
marked() {
  grep -lsz "^WEIR_JOB=$work/" /proc/[0-9]*/environ | cut -d / -f 3 || :
}
end_marked() {
  for one in $(marked); do kill -9 "$one" 2>/dev/null || :; done
}

parent_of() { sed 's/.*) . \([0-9]*\) .*/\1/' "/proc/$1/stat"; } # behind the name, which may hold anything

# wait_until CONDITION...: bounded
wait_until() {
  turns=$((longest * 20))
  until "$@"; do
    turns=$((turns - 1))
    [ "$turns" -gt 0 ] || return 1
    sleep 0.05
  done
}
all_write() { [ "$(find "$work" -maxdepth 1 -name 'rank.?' | wc -l)" -eq "$ranks" ]; }
is_clean() { [ -z "$(ls "$work/jobs")" ]; }
has_ended() { ! kill -0 "$1" 2>/dev/null; }
# All threads of a process have ended and its files are closed, whether or not its parent has noticed.
is_dead() {
  [ ! -e "/proc/$1" ] || { grep -qs '^State:.Z' "/proc/$1/status" && [ "$(find "/proc/$1/task" -maxdepth 1 2>/dev/null | wc -l)" -le 2 ]; }
}

# start LAUNCHER...: a job whose ranks write in the way $way; returns at some moment after all of them have begun to.
start() {
  rm -rf "$work"/rank.* "$work"/error.* "$work/jobs" "$work/go"
  mkdir "$work/jobs"
  "$weir" run --servers "$servers" --capacity 64M --layout "stripe(unit=64K, over=$servers)" -- \
    "$@" -n "$ranks" "$writer" weir:/out "$work" "$way" >"$work/out" 2>&1 &
  job=$!
  wait_until all_write || fail "ranks do not write"
  server_processes=$(awk '/^[0-9]+ [0-9]+$/ { print $1 }' "$work"/jobs/*/fs.toml.servers)
  [ "$(echo "$server_processes" | wc -l)" -eq "$servers" ] || fail "no $servers servers"
  sleep "0.$(od -An -N1 -tu1 /dev/urandom | tr -d ' ')"
}

# ended: the job; sets `code`.
ended() {
  wait_until has_ended "$job" || fail "the job did not end"
  code=0
  wait "$job" || code=$?
  nothing_is_left
}
nothing_is_left() {
  is_clean || fail "the job left its folder"
  [ -z "$(marked)" ] || fail "processes are left: $(marked)"
  for one in $server_processes; do has_ended "$one" || fail "server process $one is left"; done
}

# ---- a server

# server_killed LAUNCHER...: in the way $way; $case tells.
server_killed() {
  echo "$case"
  start "$@"
  killed=$(echo "$server_processes" | sed -n "$((victim + 1))p")
  kill -9 "$killed"
  wait_until is_dead "$killed" || fail "server $victim does not die"
  : >"$work/go"
  ended
  [ "$code" -eq 3 ] || fail "exit code $code instead of 3, which the ranks had"
  rank=0
  while [ "$rank" -lt "$ranks" ]; do
    [ -f "$work/error.$rank" ] || fail "rank $rank got no error"
    text=$(cat "$work/error.$rank")
    echo "  $text"
    case $text in
      MPI_ERR_IO:*"server $victim"*) ;;
      *) fail "rank $rank: no MPI_ERR_IO that names server $victim: $text" ;;
    esac
    case $text in
      */out*) ;;
      *) fail "rank $rank: the file is not named: $text" ;;
    esac
    rank=$((rank + 1))
  done
}

for way in independent pieces nonblocking collective atomic shared closing; do
  for WEIR_DIRECT in on off; do
    export WEIR_DIRECT
    victim=1
    [ "$way" = pieces ] && victim=0 # it has the names of files too
    case="server $victim killed, $way, direct $WEIR_DIRECT"
    server_killed "$@"
  done
done
way=collective
victim=1
export WEIR_COLLECTIVE=two-phase
case="server $victim killed, $way, in two phases"
server_killed "$@"
unset WEIR_COLLECTIVE
unset WEIR_DIRECT

# ---- a rank: the launcher ends the others, and its exit code is that of the job

way=independent
case="a rank killed without Weir"
rm -f "$work"/rank.*
"$@" -n "$ranks" "$writer" "$work/plain" "$work" "$way" >"$work/out" 2>&1 &
job=$!
wait_until all_write || fail "ranks do not write"
kill -9 "$(cat "$work/rank.1")"
expected=0
wait "$job" || expected=$?
[ "$expected" -ne 0 ] || fail "the launcher does not mind"
rm "$work/plain"

for way in independent atomic collective; do
  case="a rank killed, $way"
  echo "$case"
  start "$@"
  kill -9 "$(cat "$work/rank.1")"
  ended
  [ "$code" -eq "$expected" ] || fail "exit code $code instead of the launcher's $expected"
done

# ---- the launcher

way=independent
case="the launcher killed"
echo "$case"
start "$@"
launcher=$(cat "$work/rank.0")
while [ "$(parent_of "$launcher")" -ne "$job" ]; do launcher=$(parent_of "$launcher"); done
kill -9 "$launcher"
ended
[ "$code" -eq 137 ] || fail "exit code $code instead of 137"

# ---- weir run

case="weir run killed"
echo "$case"
start "$@"
kill -9 "$job"
wait "$job" || :
wait_until is_clean || fail "the job left its folder"
nothing_is_left
