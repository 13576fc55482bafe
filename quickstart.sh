#!/bin/sh
# Installs what the build needs, builds Weir (release), runs an MPI program through `weir run`, and takes you on a short tour.
set -eu
cd "$(dirname "$0")"
# shellcheck source=tools/setup.sh
. tools/setup.sh

usage() {
  cat <<'TEXT'
usage: ./quickstart.sh [--no-tour]

Needs sh and apt-get (as root, or with sudo) on Debian 12 or later.  A second run only rebuilds what changed.

  --no-tour   build only
  --help      this text

Environment: WEIR_JOBS=n parallel compilers; WEIR_VERBOSE=1 shows all output; WEIR_NO_INSTALL=1 installs no packages.
TEXT
}

tour=1
for argument in "$@"; do
  case $argument in
    --help | -h) usage; exit 0 ;;
    --no-tour) tour= ;;
    *) usage >&2; fail "quickstart.sh: unknown argument '$argument'" ;;
  esac
done

# shellcheck disable=SC2086  # the list is meant to be split
install_packages $build_packages
heading "Building (release)"
build release || fail "the build failed; see above"

if [ -n "$tour" ]; then
  heading "An MPI program with checkpoints, through plain files and through weir run"
  mkdir -p build/heat
  mpicc.openmpi -O2 -o build/heat/heat examples/heat/heat.c -lm
  root=
  [ "$(id -u)" -ne 0 ] || root=--allow-run-as-root
  SIZE=128 ./examples/heat/run.sh build/release/bin/weir build/heat/heat mpirun.openmpi $root --oversubscribe
  heading "A tour"
  WEIR=build/release/bin/weir ./examples/tour.sh build/tour.svg
fi
heading "Ready: build/release/bin/weir --help"
