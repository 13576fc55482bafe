#!/bin/sh
# Servers on one host, a command on another: two network namespaces, joined by a pair of virtual interfaces.  `weir bench mpiio --transport tcp`
# starts this; root only.  Everything is gone when it ends.
#
# usage: bench_network.sh [--rate RATE] mpiio WEIR SERVERS STORE BENCHMARK COMMAND...
#        bench_network.sh [--rate RATE] net NET_BENCH [ARGUMENT...]
#
#   --rate RATE   what the link carries in each direction, as tc(8) says it: 1gbit, 10gbit [all it can]
#   mpiio         starts servers, exports what MPI programs need to use them, and runs COMMAND, with --wire HOST:PORT after it, where the
#                 other end of plain connections is; the program BENCHMARK serves those
#   net           runs net_bench with its servers on the other host
#
# WEIR_ENCRYPTION is `never` unless it is set.
set -eu

rate=
if [ "$1" = --rate ]; then
  rate=$2
  shift 2
fi
kind=$1
shift
first=weir-servers-$$ second=weir-clients-$$

# shellcheck source=tests/hosts/two_hosts.sh disable=SC1091
. "$(dirname "$0")/two_hosts.sh"
skip() {
  echo "bench_network: $*" >&2
  exit 2
}
need ip tc nsenter unshare mount

folder=$(mktemp -d)
WEIR_FS=$folder/fs.toml WEIR_ENCRYPTION=${WEIR_ENCRYPTION-never}
export WEIR_FS WEIR_ENCRYPTION

clean_up() {
  [ "$kind" != mpiio ] || "$folder/on_host" "$first" "$weir" down --patience 5 >/dev/null 2>&1 || true
  remove_hosts
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# limit HOST INTERFACE: the bucket is small beside what is measured, and filled often enough for 10 Gbit/s.
limit() { [ -z "$rate" ] || nsenter --net="/run/netns/$1" tc qdisc add dev "$2" root tbf rate "$rate" burst 512k latency 20ms; }

{ make_hosts && limit "$first" to-second && limit "$second" to-first && wait_for_link &&
  "$folder/on_host" "$first" true; } >"$folder/out" 2>&1 || skip "two hosts cannot be made: $(tail -n 1 "$folder/out")"

case $kind in
  net)
    "$folder/on_host" "$second" "$@" --address "$first_address" --server-namespace "/run/netns/$first"
    ;;
  mpiio)
    weir=$1 servers=$2 store=$3 benchmark=$4
    shift 4
    "$folder/on_host" "$first" "$weir" up --servers "$servers" --store "$store" --listen "$first_address" >"$folder/out" 2>&1 ||
      skip "weir up: $(tail -n 1 "$folder/out")"
    "$folder/on_host" "$first" "$benchmark" --serve-wire "$first_address" "$folder/port" &
    wait_until 100 test -s "$folder/port" || skip "the other end of plain connections does not start"
    # shellcheck disable=SC2016  # for the other shell
    "$folder/on_host" "$second" unshare --ipc sh -c 'eval "$("$0" env)" && exec "$@"' "$weir" "$@" --wire "$first_address:$(cat "$folder/port")"
    ;;
  *) skip "unknown: $kind (mpiio, net)" ;;
esac
