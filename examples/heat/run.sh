#!/bin/sh
# The heat equation with checkpoints, against plain files and, the same program unchanged, through `weir run`: ranks write checkpoints, one rank less
# starts again from the last and goes on.  Compares checkpoints byte for byte and shows the times.
#
# usage: run.sh WEIR HEAT LAUNCHER [ARGUMENT...]
#   WEIR, HEAT   the two programs
#   LAUNCHER     of the MPI that HEAT was built with, and what it has to be told: mpirun --oversubscribe
# environment: SIZE (cells along an edge of the cube, 64), STEPS (before and after the restart, 20), EVERY (a checkpoint, 10 steps),
#   RANKS (one for each processor, but 2 to 8), FOLDER (where plain files go; a temporary one)
set -eu

weir=$1
heat=$2
shift 2
size=${SIZE:-64}
steps=${STEPS:-20}
every=${EVERY:-10}
processors=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
[ "$processors" -ge 2 ] || processors=2
[ "$processors" -le 8 ] || processors=8
ranks=${RANKS:-$processors}
fewer=$((ranks - 1))
work=$(mktemp -d)
plain=${FOLDER:-$work}
trap 'rm -rf "$work"; rm -f "$plain/heat-$$.dat"' EXIT
trap 'exit 130' INT TERM

fail() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 1
}

# Numbers without blanks, which are meant to be split.
options="--size $size --steps $steps --every $every"
file=$plain/heat-$$.dat
kept=$work/kept.dat

"$@" -n "$ranks" "$heat" "$file" $options >"$work/plain.txt" || fail "plain files: heat failed"
"$@" -n "$fewer" "$heat" "$file" $options --restart >>"$work/plain.txt" || fail "plain files: heat failed to restart"

# Two jobs; the checkpoint of the first is copied out, and into the file system of the second.
"$weir" run --stage-out "/heat.dat:$kept" -- \
  "$@" -n "$ranks" "$heat" weir:/heat.dat $options >"$work/weir.txt" || fail "weir run: heat failed"
"$weir" run --stage-in "$kept:/heat.dat" --stage-out "/heat.dat:$kept" -- \
  "$@" -n "$fewer" "$heat" weir:/heat.dat $options --restart >>"$work/weir.txt" || fail "weir run: heat failed to restart"

cmp "$file" "$kept" || fail "the checkpoints differ"
sum() { sed -n "s/.*checksum \([0-9a-f]*\) .*/\1/p" "$1"; }
[ -n "$(sum "$work/plain.txt")" ] || fail "heat printed no checksum"
[ "$(sum "$work/plain.txt")" = "$(sum "$work/weir.txt")" ] || fail "the checksums differ"

cell() { sed -n "$2 s/.* $3 \([0-9.]*\) s.*/\1/p" "$1"; }
printf '\n%-22s %-22s %12s %12s\n' "$size^3 doubles" '' 'plain files' 'weir run'
for line in 1 2; do
  [ "$line" = 1 ] && what="ranks: $ranks, write" || what="ranks: $fewer, restart"
  for kind in io compute; do
    printf '%-22s %-22s %10s s %10s s\n' "$what" "$kind" "$(cell "$work/plain.txt" $line $kind)" "$(cell "$work/weir.txt" $line $kind)"
  done
done
printf '\ncheckpoints are the same, byte for byte; checksum %s\n' "$(sum "$work/weir.txt" | tail -1)"
