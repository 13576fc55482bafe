#!/bin/sh
# The report that `weir run` makes of the heat equation: it has to tell what the program did.
#
# usage: report.sh WEIR HEAT LAUNCHER [ARGUMENT...], as of run.sh
set -eu

weir=$1
heat=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

fail() {
  printf 'report.sh: %s\n' "$*" >&2
  exit 1
}
expect() {
  grep -qF -- "$2" "$1" || fail "$(basename "$1") does not say: $2"
}

options='--size 16 --steps 2 --every 1'

# Striped, as a file is of which nothing is said.
"$weir" run --servers 2 --report "$work/striped.html" -- "$@" -n 2 "$heat" weir:/heat.dat $options >"$work/out.txt" ||
  fail 'weir run --report: heat failed'
expect "$work/striped.html" 'weir:/heat.dat --size 16'
expect "$work/striped.html" 'no hint and no WEIR_LAYOUT'
expect "$work/striped.html" 'MPI_File_write_all'
expect "$work/striped.html" 'File offset against time'
expect "$work/striped.html" 'stripe(unit=64K, over=2)'
expect "$work/striped.html" '</html>'

# Traces that are kept.  New files have the layout that --layout names, and what was written is all there: at least 2 checkpoints, each of 8 bytes and
# 16^3 doubles.
mkdir "$work/traces"
WEIR_TRACE=$work/traces "$weir" run --servers 2 --layout 'stripe(unit=4K, over=2)' -- \
  "$@" -n 2 "$heat" weir:/heat.dat $options >"$work/out.txt" || fail 'weir run: heat failed'
[ "$(ls "$work/traces" | wc -l)" = 2 ] || fail "not one trace for each of 2 ranks: $(ls "$work/traces")"
"$weir" report "$work/traces" --json >"$work/report.json" || fail 'weir report --json failed'
expect "$work/report.json" '"layout":"stripe(unit=4K, over=2)"'
expect "$work/report.json" '"why":"WEIR_LAYOUT=stripe(unit=4K, over=2)"'
expect "$work/report.json" '"cut_off":0'
expect "$work/report.json" '"unread_lines":0'
written=$(sed -n 's/.*"write":{"bytes":\([0-9]*\).*/\1/p' "$work/report.json")
[ $((written % 32776)) = 0 ] && [ "$written" -ge 65552 ] || fail "$written bytes were written, not so many times 32776"

# With sums instead of single accesses nothing gets lost.
mkdir "$work/sums"
WEIR_TRACE=$work/sums WEIR_TRACE_LIMIT=1 "$weir" run -- "$@" -n 2 "$heat" weir:/heat.dat $options >"$work/out.txt" ||
  fail 'weir run: heat failed'
"$weir" report "$work/sums" --json >"$work/sums.json" || fail 'weir report --json failed'
expect "$work/sums.json" '"summed":2'
expect "$work/sums.json" "\"write\":{\"bytes\":$written,"

# A command that does no MPI-IO.
"$weir" run --report "$work/none.html" -- true || fail 'weir run --report: true failed'
expect "$work/none.html" 'No file of Weir was opened by MPI-IO'
