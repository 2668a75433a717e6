#!/bin/sh
# The first process of the root disk: mounts, cgroups, a network, then the guest program.
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm /dev/mqueue /dev/hugepages
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t mqueue mqueue /dev/mqueue
# Without favordynmods every container waits for the grace periods of an idle machine.
mount -t cgroup2 -o favordynmods cgroup2 /sys/fs/cgroup
mount -t hugetlbfs hugetlbfs /dev/hugepages
mount --make-rshared /

# Controllers can be handed down only where no process is.
mkdir /sys/fs/cgroup/init
for p in $(cat /sys/fs/cgroup/cgroup.procs); do echo "$p" > /sys/fs/cgroup/init/cgroup.procs; done 2>/dev/null
for c in $(cat /sys/fs/cgroup/cgroup.controllers); do echo "+$c" > /sys/fs/cgroup/cgroup.subtree_control; done 2>/dev/null

# The kernel changes the code of its scheduler when the first cgroup gets a CFS quota, and again when no
# cgroup has one any more. An emulated CPU can run an instruction while it is changed, and then the
# kernel panics ("Oops: int3" in dequeue_entities). Here one cgroup has a quota all the time.
mkdir /sys/fs/cgroup/quota
echo 100000 100000 > /sys/fs/cgroup/quota/cpu.max

# What belongs to no pod stays on CPU 0, as it should on any such node. And one CPU that is emulated is
# as fast as two that send each other interrupts.
echo 0 > /sys/fs/cgroup/init/cpuset.cpus

hostname e2enode
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
route add default gw 10.0.2.2

tar xf /dev/vdb -C /in
/in/guest
echo "the guest program ended with $?"
poweroff -f
