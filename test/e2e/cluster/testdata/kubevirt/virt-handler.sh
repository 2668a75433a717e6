# What virt-handler and virt-launcher do on the node when a machine with dedicated CPUs starts (cgroup v2): the threads
# that are no virtual CPUs go to a threaded child cgroup, housekeeping, which has the last of the container's CPUs, and
# the virtual CPUs are pinned to the others, by what cpuset.cpus.effective has at this moment.
set -e
running() {
    for process in /proc/[0-9]*; do
        [ "$(tr '\0' ' ' < "$process/cmdline" 2> /dev/null)" = "sleep $1 " ] && echo "${process#/proc/}"
    done
}
machine=$(running 2000000) || true
group=/sys/fs/cgroup$(cut -d: -f3 "/proc/$machine/cgroup")
cpus=$(cat "$group/cpuset.cpus.effective")
last=${cpus##*[,-]}
mkdir "$group/housekeeping"
echo threaded > "$group/housekeeping/cgroup.type"
echo +cpuset > "$group/cgroup.subtree_control"
echo "$last" > "$group/housekeeping/cpuset.cpus"
for thread in $(running 2000001) $(running 2000002); do
    echo "$thread" > "$group/housekeeping/cgroup.threads"
done
taskset -pc "${cpus%%[,-]*}" "$machine" > /dev/null
echo "cpus $cpus, housekeeping $(cat "$group/housekeeping/cpuset.cpus.effective")"
