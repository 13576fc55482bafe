# A cluster of two nodes with Slurm, on the two hosts of two_hosts.sh, to be read after it: node1 with munge and the controller, too, and node2.
# Each has its own name, which the other cannot look up, processes and shared memory; files are shared, as on a cluster.  `folder` is for what all of it
# leaves.
#
# shellcheck shell=sh disable=SC2154  # the folder and the names of hosts are of the scripts that read this file

need_slurm() {
  need ip unshare nsenter hostname mount timeout
  for tool in munged slurmctld slurmd srun; do
    command -v "$tool" >/dev/null || skip "no $tool here (packages munge, slurmctld, slurmd, slurm-client)"
  done
}

write_cluster_files() {
  mkdir "$folder/state"
  for node in node1 node2; do mkdir "$folder/spool-$node" "$folder/tmp-$node"; done
  head -c 1024 /dev/urandom >"$folder/munge.key"
  chmod 600 "$folder/munge.key"
  # Found beside slurm.conf; the other plugin wants systemd.  No control group is made.
  printf '%s\n' CgroupPlugin=cgroup/v1 CgroupAutomount=no >"$folder/cgroup.conf"
  cat >"$folder/slurm.conf" <<END
ClusterName=weir
SlurmctldHost=node1($first_address)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
KillWait=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
TmpFS=$folder/tmp-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmdParameters=config_overrides
NodeName=node1 NodeAddr=$first_address CPUs=4 RealMemory=1000
NodeName=node2 NodeAddr=$second_address CPUs=4 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES State=UP
END
  # The first process of a node, which waits for all that lose their parents.
  cat >"$folder/node" <<'END'
#!/bin/sh
set -eu
folder=$1 node=$2
cd "$folder"
hostname "$node"
# In a chroot, the root folder is no mount point, and cannot be told to keep these to itself; they can.
for place in /proc /sys /dev/shm; do mount --make-private "$place" 2>/dev/null || mount --make-private "$(dirname "$place")"; done
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /dev/shm
if [ "$node" = node1 ]; then
  munged --foreground --force --key-file "$folder/munge.key" --socket "$folder/munge.socket" --pid-file "$folder/munged.pid" \
    --log-file "$folder/munged.log" --seed-file "$folder/munge.seed" &
  until [ -S "$folder/munge.socket" ]; do sleep 0.1; done
  slurmctld -D -f "$folder/slurm.conf" &
fi
# A node that finds no controller tries again only seconds later.
until SLURM_CONF="$folder/slurm.conf" scontrol ping 2>/dev/null | grep -q UP; do sleep 0.1; done
slurmd -D -f "$folder/slurm.conf" -N "$node" &
wait
END
  chmod +x "$folder/node"
}

# start_node HOST NAME: `started` is a process of which the node's first one is the child.
start_node() {
  nsenter --net="/run/netns/$1" unshare --uts --mount --propagation unchanged --ipc --pid --fork --kill-child \
    "$folder/node" "$folder" "$2" >"$folder/$2.log" 2>&1 &
  started=$!
}

# on_node1 COMMAND...: as a user who has logged in there.
on_node1() {
  nsenter --target "$node1" --root --wd="$folder" --net --uts --mount --ipc --pid="/proc/$node1/ns/pid_for_children" \
    env SLURM_CONF="$folder/slurm.conf" HOME="$folder/home" TMPDIR="$folder/tmp" "$@"
}

# Both nodes are ready for jobs when it returns.
start_cluster() {
  mkdir "$folder/home" "$folder/tmp"
  write_cluster_files
  start_node "$first" node1
  node1=$started
  start_node "$second" node2
  wait_until 200 are_nodes_idle && return
  cat "$folder/node1.log" "$folder/node2.log"
  return 1
}

are_nodes_idle() { [ "$(on_node1 sinfo --noheader --states=idle --format=%D 2>/dev/null)" = 2 ]; }
