#!/bin/sh
# Servers on one host, clients on another, and a link between them that is cut while bytes are on their way.
#
# The client has its own namespace of shared memory, too:
# nothing but the link is left for data, and its counters prove it.  The link is slow, so that there is time to cut it.
#
# usage: link_cut_test.sh WEIR COLUMNS_EXAMPLE
set -eu

weir=$1 columns=$2
first=weir-servers-$$ second=weir-client-$$
mib=1048576
file_mib=24
patience_s=60

# shellcheck source=tests/hosts/two_hosts.sh
. "$(dirname "$0")/two_hosts.sh"
need ip tc nsenter unshare mount timeout

folder=$(mktemp -d)
WEIR_FS=$folder/fs.toml
export WEIR_FS

clean_up() {
  on_servers "$weir" down --patience 5 >/dev/null 2>&1 || true
  remove_hosts
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

on_servers() { "$folder/on_host" "$first" "$@"; }
on_client() { "$folder/on_host" "$second" unshare --ipc --uts timeout "$patience_s" "$@"; }
# Bytes that came to the host of the servers, and those that left it.
received() { on_servers cat /sys/class/net/to-second/statistics/rx_bytes; }
sent() { on_servers cat /sys/class/net/to-second/statistics/tx_bytes; }

make_slow_hosts() {
  make_hosts &&
    nsenter --net="/run/netns/$first" tc qdisc add dev to-second root tbf rate 200mbit burst 256k latency 50ms &&
    nsenter --net="/run/netns/$second" tc qdisc add dev to-first root tbf rate 200mbit burst 256k latency 50ms &&
    wait_for_link && on_client true
}

# on_client_says WHAT COMMAND...
on_client_says() {
  what=$1
  shift
  on_client "$@" >"$folder/out" 2>&1 || fail "$what ended with code $?"
  echo "$what: ok"
}

# cut_while COUNTER COMMAND...: the command is started on the client, and the link cut once a quarter of the file went by.
cut_while() {
  counter=$1
  shift
  enough=$(($("$counter") + file_mib * mib / 4))
  on_client "$@" >"$folder/out" 2>&1 &
  command_pid=$!
  while [ "$("$counter")" -lt "$enough" ]; do
    kill -0 "$command_pid" 2>/dev/null || fail "$2 ended before the link was cut"
    sleep 0.02
  done
  ip_of "$first" link set to-second down
  code=0
  wait "$command_pid" || code=$?
  case $code in
    0) fail "$2 succeeded without a link" ;;
    124) fail "$2 did not end within $patience_s s of the cut" ;;
    2) ;;
    *) fail "$2 ended with code $code, not with an error of its own" ;;
  esac
  grep -q "^weir $2: .*$first_address" "$folder/out" || fail "$2 names no server that it lost"
  echo "$2 with the link cut: $(tail -n 1 "$folder/out")"
  ip_of "$first" link set to-second up
  wait_for_link || fail "the link does not come up again"
}

make_slow_hosts >"$folder/out" 2>&1 || skip "namespaces with a slow link cannot be made: $(tail -n 1 "$folder/out")"
head -c "$((file_mib * mib))" /dev/urandom >"$folder/data"
on_servers "$weir" up --servers 2 --capacity 256M --listen "$first_address" >"$folder/out" 2>&1 || fail "weir up"

# Over the link, whole.
before=$(received)
on_client_says "put" "$weir" put --verify "$folder/data" /data
[ "$(($(received) - before))" -ge "$((file_mib * mib))" ] || fail "the bytes of put did not go over the link"
before=$(sent)
on_client_says "get" "$weir" get --verify /data "$folder/copy"
[ "$(($(sent) - before))" -ge "$((file_mib * mib))" ] || fail "the bytes of get did not go over the link"
cmp "$folder/data" "$folder/copy" || fail "other bytes came back"
on_client_says "a program" "$columns"

# Cut, and joined again.
cut_while received "$weir" put --resume --timeout 3 "$folder/data" /cut
on_client "$weir" stat /cut >/dev/null 2>&1 && fail "half a file got its name"
on_client_says "put again" "$weir" put --resume --verify "$folder/data" /cut
rm -f "$folder/copy"
cut_while sent "$weir" get --timeout 3 /cut "$folder/copy"
[ ! -e "$folder/copy" ] || fail "half a copy got its name"
on_client_says "get again" "$weir" get --verify /cut "$folder/copy"
cmp "$folder/data" "$folder/copy" || fail "other bytes came back after the cut"

# Nothing is left: no temporary names, no subfiles of nobody, no clients that are gone, no processes.
on_client "$weir" ls / | sort | tr '\n' ' ' >"$folder/out"
[ "$(cat "$folder/out")" = "cut data " ] || fail "other names than cut and data"
[ -z "$(find "$folder" -name 'copy?*')" ] || fail "parts of a copy are left"
on_client_says "fsck" "$weir" fsck
# The one that asks is a client, too.
are_clients_gone() {
  on_servers "$weir" status --json >"$folder/out" 2>&1 || fail "weir status"
  [ "$(grep -oE '"clients":1[^0-9]' "$folder/out" | wc -l)" -eq 2 ]
}
wait_until $((10 * patience_s)) are_clients_gone || fail "servers still wait for clients that are gone"
on_servers "$weir" down >"$folder/out" 2>&1 || fail "weir down"
for host in "$first" "$second"; do
  [ -z "$(ip netns pids "$host")" ] || fail "processes are left on $host: $(ip netns pids "$host")"
done
echo "nothing left: ok"
