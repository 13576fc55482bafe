# Two hosts, emulated: network namespaces joined by a pair of virtual interfaces.  To be read by scripts of tests, which have set `first` and
# `second`, the names of the hosts; their interfaces are named to-second and to-first.  $folder/on_host HOST COMMAND... runs a command on one of them.
#
# shellcheck shell=sh disable=SC2154  # the folder and the names of hosts are of the scripts that read this file

first_address=192.0.2.1 # of a range for documentation, which no network has
second_address=192.0.2.2

skip() {
  echo "skipped: $*"
  exit 77
}

fail() {
  echo "FAILED: $*"
  [ ! -f "$folder/out" ] || cat "$folder/out"
  exit 1
}

# need TOOL...
need() {
  [ "$(id -u)" -eq 0 ] || skip "only root can make network namespaces"
  for tool; do
    command -v "$tool" >/dev/null || skip "no $tool here (packages iproute2, util-linux, coreutils)"
  done
}

# ip_of HOST ARGUMENT...: as `ip -n`, but also in a chroot.
ip_of() {
  host=$1
  shift
  nsenter --net="/run/netns/$host" ip "$@"
}

# With all that runs there.
remove_hosts() {
  for host in "$first" "$second"; do
    ip netns pids "$host" 2>/dev/null | while read -r pid; do kill -9 "$pid" 2>/dev/null || true; done
    ip netns del "$host" 2>/dev/null || true
  done
}

# wait_until TENTHS COMMAND...: until the command succeeds; fails if it does not in so many tenths of a second.
wait_until() {
  tenths_left=$1
  shift
  until "$@"; do
    [ "$tenths_left" -gt 0 ] || return 1
    tenths_left=$((tenths_left - 1))
    sleep 0.1
  done
}

is_link_up() {
  ip_of "$first" link show to-second | grep -q 'state UP' && ip_of "$second" link show to-first | grep -q 'state UP'
}

# The kernel tells some time later that a link is up.
wait_for_link() { wait_until 100 is_link_up; }

# As `ip netns exec`, but also in a chroot, whose root folder is no mount point.  /sys is refused if it is that of the host already.
make_on_host() {
  cat >"$folder/on_host" <<'END'
#!/bin/sh
host=$1
shift
exec nsenter --net="/run/netns/$host" unshare --mount --propagation unchanged \
  sh -c 'mount --make-private /sys && mount -t sysfs sysfs /sys 2>/dev/null; exec "$@"' sh "$@"
END
  chmod +x "$folder/on_host"
}

make_hosts() {
  make_on_host && ip netns add "$first" && ip netns add "$second" &&
    ip link add to-second netns "$first" type veth peer name to-first netns "$second" &&
    ip_of "$first" address add "$first_address/24" dev to-second &&
    ip_of "$second" address add "$second_address/24" dev to-first &&
    ip_of "$first" link set lo up && ip_of "$second" link set lo up &&
    ip_of "$first" link set to-second up && ip_of "$second" link set to-first up
}
