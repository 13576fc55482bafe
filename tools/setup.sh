# shellcheck shell=sh disable=SC2034  # variables are for the scripts that source this file
#
# Shared by quickstart.sh and check.sh; to be sourced by a POSIX shell in the root of the repository.
# Knows which packages the project needs, installs those that are missing, and runs steps with headings and times.

LC_ALL=C
DEBIAN_FRONTEND=noninteractive
export LC_ALL DEBIAN_FRONTEND

# What the release build needs, what the default check needs on top, and what only ./check.sh --full needs.
build_packages="g++ cmake ninja-build libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev
libucx-dev libssl-dev librocksdb-dev liburing-dev libflatbuffers-dev flatbuffers-compiler libsodium-dev libxxhash-dev libtomlplusplus-dev
pkgconf libopenmpi-dev openmpi-bin libmpich-dev mpich"
test_packages="ccache libgtest-dev libgmock-dev librapidcheck-dev clang-format libscalapack-openmpi-dev iproute2 dpkg-dev file
gfortran libhdf5-openmpi-dev libhdf5-mpich-dev libpnetcdf-dev python3-h5py-mpi munge libmunge2"
full_packages="libbenchmark-dev clang libclang-rt-dev slurmctld slurmd slurm-client"

log_dir=build/logs
jobs=${WEIR_JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
start_time=$(date +%s)

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

seconds() {
  echo $(($(date +%s) - start_time))
}

# heading WORD...: a new part begins; times_table shows how long each took.
heading() {
  end_part
  part=$* part_start=$(seconds)
  printf '\n== %s  [%s s]\n' "$*" "$part_start"
}

part=
time_table=
end_part() {
  [ -z "$part" ] || time_table="$time_table$(printf '%6s s  %s' $(($(seconds) - part_start)) "$part")
"
  part=
}

# times_table: where the time went.
times_table() {
  end_part
  printf '\nWhere the time went:\n%s%6s s  in all\n' "$time_table" "$(seconds)"
}

# as_root COMMAND...
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo --preserve-env=DEBIAN_FRONTEND "$@"; fi
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# install_packages PACKAGE...: only what is missing, so that a second run needs neither network nor root.
install_packages() {
  [ -z "${WEIR_NO_INSTALL:-}" ] || return 0
  command -v apt-get >/dev/null 2>&1 ||
    fail "no apt-get here: install the equivalents of these Debian packages, then set WEIR_NO_INSTALL=1: $*"
  missing=
  for package in "$@"; do
    is_installed "$package" || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1 ||
    fail "these packages are missing; be root, or have sudo, or install them by hand:$missing"
  heading "Installing packages:$missing"
  # shellcheck disable=SC2086  # the list is meant to be split
  logged packages install_missing $missing || fail "installing packages failed; see above"
}

install_missing() {
  as_root apt-get -q update && as_root apt-get -q install -y --no-install-recommends "$@"
}

# logged NAME COMMAND...: output goes to a log file; if the command fails, the end of it is shown.
# WEIR_VERBOSE=1 shows everything as it comes.
logged() {
  log=$log_dir/$1.log
  shift
  if [ -n "${WEIR_VERBOSE:-}" ]; then
    "$@"
    return
  fi
  mkdir -p "$log_dir"
  "$@" >"$log" 2>&1 && return 0
  code=$?
  printf -- '-- failed with code %s; the end of %s:\n' "$code" "$log" >&2
  tail -n "${WEIR_LOG_LINES:-60}" "$log" >&2
  return $code
}

# build PRESET [TARGET...]
build() {
  preset=$1
  shift
  logged "configure-$preset" cmake --preset "$preset" &&
    logged "build-$preset" cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}
}
