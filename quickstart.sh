#!/bin/sh
# Installs what the build needs, builds Weir (release), installs it to a folder, runs an MPI program through `weir run`, and takes you on a
# short tour.
set -eu
cd "$(dirname "$0")"
# shellcheck source=tools/setup.sh
. tools/setup.sh

usage() {
  cat <<'TEXT'
usage: ./quickstart.sh [--no-tour] [--prefix FOLDER]

Needs sh and apt-get (as root, or with sudo) on Debian 12 or later.  A second run only rebuilds what changed.

  --no-tour         build and install only
  --prefix FOLDER   where to install (build/prefix); the line for your PATH is printed at the end
  --help            this text

Environment: WEIR_JOBS=n parallel compilers; WEIR_VERBOSE=1 shows all output; WEIR_NO_INSTALL=1 installs no packages.
TEXT
}

tour=1
prefix=$PWD/build/prefix
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --no-tour) tour= ;;
    --prefix)
      [ -n "${2:-}" ] || fail "quickstart.sh: --prefix takes a folder"
      mkdir -p "$2" && prefix=$(cd "$2" && pwd)
      shift ;;
    *) usage >&2; fail "quickstart.sh: unknown argument '$1'" ;;
  esac
  shift
done

# shellcheck disable=SC2086  # the list is meant to be split
install_packages $build_packages
heading "Building (release)"
build release || fail "the build failed; see above"
logged install cmake --install build/release --prefix "$prefix" || fail "installing to $prefix failed; see above"
weir=$prefix/bin/weir

if [ -n "$tour" ]; then
  heading "An MPI program with checkpoints, through plain files and through weir run"
  mkdir -p build/heat
  mpicc.openmpi -O2 -o build/heat/heat examples/heat/heat.c -lm
  root=
  [ "$(id -u)" -ne 0 ] || root=--allow-run-as-root
  SIZE=128 ./examples/heat/run.sh "$weir" build/heat/heat mpirun.openmpi $root --oversubscribe
  heading "A tour"
  WEIR=$weir ./examples/tour.sh build/tour.svg
fi
times_table
printf '\nReady.  Put it on your PATH, then see `weir --help`:\n\n  export PATH="%s/bin:$PATH"\n' "$prefix"
