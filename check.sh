#!/bin/sh
# Builds and tests everything, and ends in a line `N passed, M failed`.
set -u
cd "$(dirname "$0")" || exit 1
# shellcheck source=tools/setup.sh
. tools/setup.sh

all_steps="format dev headers asan tsan quickstart release fuzz"
# Sanitizers run all tests with assertions, and the release build what they cannot: a third build would find nothing more.
default_steps="format asan tsan quickstart release headers fuzz"

usage() {
  cat <<'TEXT'
usage: ./check.sh [--fast] [--only STEP]...

Needs sh and apt-get (as root, or with sudo) on Debian 12 or later.  The last line counts what passed and failed.

Steps, in order; all of them but dev unless told otherwise:
  format      every source is formatted as .clang-format says
  dev         all tests, with assertions, warnings are errors
  asan        all tests with assertions, under the address and undefined-behaviour sanitizers, warnings are errors
  tsan        the tests of what uses threads, under the thread sanitizer
  quickstart  ./quickstart.sh
  release     what sanitizers cannot test: more than 3 ranks, preloading, installing, examples; the tests of the algebra and of copying
              without assertions; a short run of the benchmarks
  headers     every header compiles alone
  fuzz        a short run of every fuzzer

  --fast        format, dev and headers only
  --only STEP   just this step; may be repeated
  --help        this text

Environment: WEIR_FUZZ_SECONDS=n per fuzzer (15); WEIR_JOBS=n parallel compilers and tests; WEIR_VERBOSE=1 shows all
output; WEIR_NO_INSTALL=1 installs no packages.
TEXT
}

steps=
headers_build=release-tests
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --fast) steps="$steps format dev headers" headers_build=ci ;;
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
steps=${steps:-$default_steps}

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

# run_tests PRESET: counts every case that ctest knows of.
run_tests() {
  report=$log_dir/test-$1.xml
  mkdir -p "$log_dir"
  rm -f "$report"
  # shellcheck disable=SC2086  # a command and its arguments
  logged "test-$1" $unrandomized ctest --preset "$1" -j "$test_jobs" --repeat until-pass:2 --output-junit "$PWD/$report"
  code=$?
  # Processes are killed and links cut by some tests: one that fails gets a second chance, but is named.
  sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*\(Failed\|Timeout\|Exception\).*/-- failed at least once: \1/p' "$log_dir/test-$1.log" | sort -u
  # The end of the log only counts them: what those that failed have printed, without the cases of them that passed.
  awk '/\*\*\*(Failed|Timeout|Exception)/ { left = 60 } /(RUN|OK) +\]|\[-+\]|^$/ { next } left-- > 0' "$log_dir/test-$1.log" 2>/dev/null
  # The first line of the report that has them: tests="53" failures="0" disabled="0" skipped="0"
  total=$(sed -n 's/.*[[:space:]]tests="\([0-9]*\)".*/\1/p' "$report" 2>/dev/null | head -n 1)
  bad=$(sed -n 's/.*[[:space:]]failures="\([0-9]*\)".*/\1/p' "$report" 2>/dev/null | head -n 1)
  skipped=$(sed -n 's/.*[[:space:]]skipped="\([0-9]*\)".*/\1/p' "$report" 2>/dev/null | head -n 1)
  total=${total:-0} bad=${bad:-0} skipped=${skipped:-0}
  # A test run that fails without naming a failed case, or that tests nothing, is itself a failure.
  if [ "$bad" -eq 0 ] && { [ "$code" -ne 0 ] || [ "$total" -eq 0 ]; }; then bad=1 total=$((total + 1)); fi
  count "tests ($1)" $((total - bad - skipped)) "$bad"
}

# build_and_test PRESET [TARGET...]
build_and_test() {
  if build "$@"; then run_tests "$1"; else count "build ($1)" 0 1; fi
}

step_format() {
  heading "Format"
  expect format logged format check_format
}

check_format() {
  find src apps cmake \( -name '*.h' -o -name '*.cpp' \) -exec clang-format --dry-run --Werror {} +
}

step_dev() {
  heading "Tests with assertions"
  build_and_test ci
}

step_headers() {
  heading "Headers compile alone"
  expect headers build "$headers_build" check_headers
}

step_asan() {
  heading "Tests under address and undefined-behaviour sanitizers"
  build_and_test asan
}

step_tsan() {
  heading "Tests of what uses threads, under the thread sanitizer"
  targets=
  for component in base log transfer net storage server client; do targets="$targets src/weir/$component/all"; done
  # shellcheck disable=SC2086  # the list is meant to be split
  build_and_test tsan $targets
}

step_release() {
  heading "Tests of the release build, and a short run of the benchmarks"
  targets="examples/all tests/all bench/all cli_bench"
  for component in layout transfer redist scalapack mpiio; do targets="$targets src/weir/$component/all"; done
  # Installing takes all that the release build makes.
  # shellcheck disable=SC2086  # the list is meant to be split
  if ! build release || ! build release-tests $targets; then
    count "build (release)" 0 1
    return
  fi
  run_tests release-tests
  bin=build/release/bin
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

step_quickstart() {
  heading "Quickstart"
  expect quickstart ./quickstart.sh
}

# shellcheck disable=SC2086  # the lists are meant to be split
install_packages $build_packages $test_packages
for step in $steps; do
  "step_$step"
done

heading "Sum"
[ "$failed" -eq 0 ] || printf 'Failed:%s\n' "$failures"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
