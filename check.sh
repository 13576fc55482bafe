#!/bin/sh
# Builds and tests Weir, and ends in a line `N passed, M failed`.
set -u
cd "$(dirname "$0")" || exit 1
# shellcheck source=tools/setup.sh
. tools/setup.sh

default_steps="format quickstart release asan"
full_steps="format quickstart release asan headers bench tsan fuzz"
all_steps="$full_steps dev"

usage() {
  cat <<'TEXT'
usage: ./check.sh [--full] [--fast] [--only STEP]...

Needs sh and apt-get (as root, or with sudo) on Debian 12 or later.  The last line counts what passed and failed.

Steps, in order:
  format      every source is formatted as .clang-format says, and includes only what its component declares
  quickstart  ./quickstart.sh
  release     what sanitizers cannot test: preloading, installing, packages, examples, I/O libraries
  asan        tests with assertions, under the address and undefined-behaviour sanitizers, warnings are errors
  headers     every header compiles alone                                                          (--full)
  bench       a short run of the benchmarks                                                        (--full)
  tsan        the tests of what uses threads, under the thread sanitizer                           (--full)
  fuzz        a short run of every fuzzer                                                          (--full)
  dev         all tests, with assertions, without sanitizers                                       (--only)

  --full        every step but dev; tests labelled `full` as well: more rank counts on both MPIs, Slurm, the algebra and copying
                without assertions, long cases
  --fast        format and dev, without tests labelled `full`: before each commit
  --only STEP   just this step; may be repeated; with --full, including its tests labelled `full`
  --help        this text

Environment: WEIR_FUZZ_SECONDS=n per fuzzer (15); WEIR_JOBS=n parallel compilers and tests; WEIR_VERBOSE=1 shows all
output; WEIR_NO_INSTALL=1 installs no packages.
TEXT
}

steps=
full=
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --full) full=1 ;;
    --fast) steps="$steps format dev" ;;
    --only)
      case " $all_steps " in
        *" ${2:-} "*) steps="$steps $2" ;;
        *) fail "check.sh: --only takes one of: $all_steps" ;;
      esac
      shift ;;
    *) usage >&2; fail "check.sh: unknown argument '$1'" ;;
  esac
  shift
done
if [ -z "$steps" ]; then
  if [ -n "$full" ]; then steps=$full_steps; else steps=$default_steps; fi
fi

passed=0
failed=0
failures=

# count WHAT PASSED FAILED
count() {
  passed=$((passed + $2))
  failed=$((failed + $3))
  if [ "$3" -ne 0 ]; then
    failures="$failures
  $1: $3"
    printf -- '-- %s: %s passed, %s FAILED\n' "$1" "$2" "$3"
  else
    printf -- '-- %s: %s passed\n' "$1" "$2"
  fi
}

# expect WHAT COMMAND...: the command counts as one test.
expect() {
  what=$1
  shift
  if "$@"; then count "$what" 1 0; else count "$what" 0 1; fi
}

# Sanitizers need their part of the address space, which newer kernels may hand out at random.
unrandomized=
if setarch "$(uname -m)" -R true 2>/dev/null; then unrandomized="setarch $(uname -m) -R"; fi

# Many tests wait for others, or for something to time out.
test_jobs=$((jobs * 2))

# Which tests: without --full, those labelled `full` are left out.
only_default() {
  [ -n "$full" ] || echo "--label-exclude ^full\$"
}

# run_tests PRESET: counts the cases of test programs, and other tests as one each.  No test gets a second chance.
run_tests() {
  heading "Running tests ($1)"
  report=$(binary_dir "$1")/Testing/Temporary/LastTest.log
  rm -f "$report"
  # shellcheck disable=SC2046,SC2086  # commands and their arguments
  logged "test-$1" $unrandomized ctest --preset "$1" -j "$test_jobs" $(only_default)
  code=$?
  # What failed tests printed, without the cases of them that passed.
  [ $code -eq 0 ] || awk '
    /^(Start|test) / || /Testing: / { if (bad) print text; text = ""; bad = 0 }
    /RUN +\]|  OK +\]|\[-+\]|^$/ { next }
    { text = text $0 "\n" }
    /FAILED|Test (Failed|timeout)|Test time limit|ERROR|\*\*\*/ { bad = 1 }
    END { if (bad) print text }' "$report" 2>/dev/null | tail -n 300
  # Cases that passed and failed; tests that are not GoogleTest programs count once.
  counts=$(awk '
    / Testing: / { cases = -1; bad = 0 }
    /^\[  PASSED  \] [0-9]+ test/ { cases = $4 }
    /^\[  FAILED  \] [0-9]+ tests?, listed below/ { bad = $4 }
    /^Test Passed\.|^Test Failed\.|^Test (timeout|time limit)|^Test Skipped|^Test Not Run/ {
      if ($2 == "Passed.") good += cases >= 0 ? cases : 1
      else if ($2 != "Skipped") { wrong += bad > 0 ? bad : 1; if (cases > 0) good += cases }
    }
    END { print good + 0, wrong + 0 }' "$report" 2>/dev/null)
  good=${counts% *} bad=${counts#* }
  good=${good:-0} bad=${bad:-0}
  # A test run that fails without naming a failed case, or that tests nothing, is itself a failure.
  if [ "$bad" -eq 0 ] && { [ "$code" -ne 0 ] || [ "$good" -eq 0 ]; }; then bad=1; fi
  count "tests ($1)" "$good" "$bad"
  echo "-- slowest:"
  sed -n 's/.*\[       OK \] \([^ ]*\).* (\([0-9]*\) ms)$/\2 ms \1/p' "$report" 2>/dev/null | sort -rn | sed -n '1,8 s/^/     /p'
}

# binary_dir PRESET
binary_dir() {
  case $1 in release-tests) echo build/release ;; *) echo "build/$1" ;; esac
}

# build_and_test PRESET [TARGET...]
build_and_test() {
  if build "$@"; then run_tests "$1"; else count "build ($1)" 0 1; fi
}

step_format() {
  heading "Format"
  expect format logged format check_format
  expect includes logged includes tools/check_includes.sh
}

check_format() {
  find src apps cmake \( -name '*.h' -o -name '*.cpp' \) -exec clang-format --dry-run --Werror {} +
}

step_dev() {
  heading "Building with assertions"
  build_and_test ci
}

step_quickstart() {
  heading "Quickstart"
  expect quickstart ./quickstart.sh
}

step_release() {
  heading "Building release tests"
  # In full, the algebra, copying and everything that uses MPI are also tested without assertions.
  targets="examples/all tests/all mpiio_programs scalapack_programs"
  if [ -n "$full" ]; then
    for component in layout transfer redist scalapack mpiio; do targets="$targets src/weir/$component/all"; done
  fi
  # Installing takes all that the release build makes.
  # shellcheck disable=SC2086  # the list is meant to be split
  if build release && build release-tests $targets; then run_tests release-tests; else count "build (release)" 0 1; fi
}

step_asan() {
  heading "Building with address and undefined-behaviour sanitizers"
  build_and_test asan
}

step_headers() {
  heading "Headers compile alone"
  expect headers build release-tests check_headers
}

step_bench() {
  heading "A short run of the benchmarks"
  bin=build/release/bin
  if ! build release || ! build bench-tools all; then
    count "build (benchmarks)" 0 1
    return
  fi
  for benchmark in layout cli; do
    expect "${benchmark}_bench" logged "${benchmark}_bench" "$bin/${benchmark}_bench" --benchmark_min_time=0.01
  done
  expect "bench scale" logged bench-scale $bin/weir bench scale --quick
  expect "bench copy" logged bench-copy $bin/weir bench copy --quick
  for mpi in openmpi mpich; do
    expect "bench pack ($mpi)" logged "bench-pack-$mpi" $bin/weir bench pack --mpi $mpi --ranks 1 --quick
    expect "bench redist ($mpi)" logged "bench-redist-$mpi" $bin/weir bench redist --mpi $mpi --mb 4 --repeats 2
    expect "bench mpiio ($mpi)" logged "bench-mpiio-$mpi" $bin/weir bench mpiio --mpi $mpi --mb 1 --repeats 1
    expect "bench mpiio --tables ($mpi)" logged "bench-mpiio-tables-$mpi" $bin/weir bench mpiio --tables --mpi $mpi \
      --file-mb 1 --repeats 1
  done
  expect "bench net" logged bench-net $bin/net_bench --repeats 1 --most-mb 1
  if [ "$(id -u)" -eq 0 ]; then
    expect "bench mpiio --transport tcp" logged bench-mpiio-tcp $bin/weir bench mpiio --transport tcp --mpi mpich --quick
  fi
}

step_tsan() {
  heading "Building with the thread sanitizer"
  targets=
  for component in base log transfer share net storage server client; do targets="$targets src/weir/$component/all"; done
  # shellcheck disable=SC2086  # the list is meant to be split
  build_and_test tsan $targets
}

step_fuzz() {
  heading "Fuzzers, ${WEIR_FUZZ_SECONDS:-15} s each"
  if ! build fuzz fuzzers; then
    count "build (fuzz)" 0 1
    return
  fi
  # As many at a time as there are cores; background processes can count nothing, so each leaves a file if it passed.
  running=0
  while read -r fuzzer seeds; do
    start_fuzzer "$fuzzer" "$seeds" &
    running=$((running + 1))
    [ $((running % jobs)) -ne 0 ] || wait
  done <build/fuzz/fuzzers.txt
  wait
  while read -r fuzzer seeds; do
    expect "$fuzzer" [ -e "build/fuzz/passed/$fuzzer" ]
  done <build/fuzz/fuzzers.txt
}

# start_fuzzer NAME SEED_FOLDER: build/fuzz/passed/NAME is there if it found nothing.
start_fuzzer() {
  mkdir -p build/fuzz/passed
  rm -f "build/fuzz/passed/$1"
  logged "$1" run_fuzzer "$1" "$2" && touch "build/fuzz/passed/$1"
}

# run_fuzzer NAME SEED_FOLDER: what it finds interesting is kept and tried first by the next run.
run_fuzzer() {
  mkdir -p "build/fuzz/corpus/$1" build/fuzz/crashes
  # shellcheck disable=SC2086  # a command and its arguments
  $unrandomized "build/fuzz/bin/$1" -max_total_time="${WEIR_FUZZ_SECONDS:-15}" -timeout=10 -rss_limit_mb=2048 \
    -max_len=4096 -print_final_stats=1 -artifact_prefix="build/fuzz/crashes/$1-" "build/fuzz/corpus/$1" "$2" </dev/null
}

packages="$build_packages $test_packages"
case "$full $steps" in
  *1* | *bench* | *fuzz* | *headers*) packages="$packages $full_packages" ;;
esac
# shellcheck disable=SC2086  # the lists are meant to be split
install_packages $packages
for step in $steps; do
  "step_$step"
done

times_table
echo
[ "$failed" -eq 0 ] || printf 'Failed:%s\n' "$failures"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
