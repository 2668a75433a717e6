fail() {
    printf 'collect: %s\n' "$*" >&2
    exit 1
}

# unknown notes what could not be read, and what is therefore not known. lacks does the same for a
# file without which nothing can be explained.
missing=
incomplete=
unknown() {
    missing="$missing
  $*"
}
lacks() {
    incomplete=yes
    rm -f -- "$folder/${1%%:*}"
    unknown "$@"
}

# Functions here have the names of programs, to add flags.
need() { (unset -f "$1" && command -v "$1") > /dev/null || fail "$1 is not in PATH: $2"; }

[ "$#" = 0 ] || [ "$*" = "$node" ] || fail "this script is for node $node: print one for another node, or without --node for any"
case $node in
"" | -* | *[!a-z0-9.-]*) fail "\"$node\" is not the name of a node: run sh $0 NODE" ;;
esac
need kubectl "install it, or run this script where it is"
need paddock "it removes from the objects what does not decide, such as environments: install it"
mkdir -- "$folder" || fail "the folder $folder cannot be made: remove it if it is there, or give another one with --folder"

# At the end, whatever happens: no debug pod, and no folder without the kubelet's files. Once they
# are read, a step that fails removes nothing, because the node can be different a minute later.
keep=
end() {
    status=$?
    trap - EXIT
    leave
    rm -rf -- "$folder/again"
    if [ "$status" != 0 ] && [ -z "$keep" ]; then
        rm -rf -- "$folder"
    elif [ "$status" != 0 ]; then
        printf 'collect: the folder %s is not complete; what was collected remains there\n' "$folder" >&2
    fi
    exit "$status"
}
trap end EXIT
trap 'exit 1' HUP INT TERM
printf 'collecting from node %s, context %s of kubectl\n' "$node" "$(kubectl config current-context 2> /dev/null || echo unknown)"
enter

# The Node, with only the fields that decide.
kubectl get node "$node" -o json | filter > "$folder/node.json" ||
    lacks "node.json: which kubelet decides, and what the node has for pods (see above); add it with kubectl get node $node -o json"

# The files of the kubelet.
present=$(on_node ls "$root$directory") || fail "the directory $directory of node $node was not read (see above): $elsewhere"
present="$present
$(on_node ls "$root$directory/device-plugins" 2> /dev/null | sed 's,^,device-plugins/,')"
has() { printf '%s\n' "$present" | grep -Fqx -- "$1"; }
has cpu_manager_state || has memory_manager_state ||
    fail "$directory on node $node has neither cpu_manager_state nor memory_manager_state: $elsewhere"
has cpu_manager_state || unknown "cpu_manager_state: which CPUs the pods have, if cpuManagerPolicy is static"
has memory_manager_state || unknown "memory_manager_state: which memory the pods have, if memoryManagerPolicy is Static"

copy_states() {
    for name in $states; do
        has "$name" || continue
        on_node cat "$root$directory/$name" > "$1/${name##*/}" && continue
        rm -f -- "$1/${name##*/}"
        lacks "${name##*/}: it was not read (see above), so what it has is not known"
        present=$(printf '%s\n' "$present" | grep -Fvx -- "$name") || :
    done
}
same_states() {
    for name in $states; do
        has "$name" || continue
        [ "$(cat "$folder/${name##*/}")" = "$(cat "$folder/again/${name##*/}")" ] || return 1
    done
}

# The pods of the node, between two readings of the files. If the files have changed, a pod has come
# or gone in the meantime, and everything is read again.
mkdir -- "$folder/again"
tries=1
while :; do
    copy_states "$folder"
    keep=yes
    kubectl get pods --all-namespaces --field-selector "$selector" -o json | filter > "$folder/pods.json" || {
        lacks "pods.json: which pods run, and the pod to explain (see above)"
        break
    }
    copy_states "$folder/again"
    ! same_states || break
    if [ "$tries" = 3 ]; then
        unknown "whether pods.json and the files of the kubelet are of one moment: they changed each time they were read"
        break
    fi
    tries=$((tries + 1))
done

# What device plugins answered can have environment variables.
checkpoint=$folder/kubelet_internal_checkpoint
if [ "$anonymous" = yes ] && [ -e "$checkpoint" ]; then
    if filter < "$checkpoint" > "$folder/again/checkpoint"; then
        mv -- "$folder/again/checkpoint" "$checkpoint"
    else
        rm -f -- "$checkpoint"
        unknown "kubelet_internal_checkpoint: which devices the pods have; it is damaged, so what device plugins answered cannot be removed from it"
    fi
fi

# The devices of device plugins with their NUMA nodes. No file has those of devices that no pod has,
# so the kubelet is asked at its PodResources socket, with an empty message of gRPC.
devices_of_kubelet() {
    printf '\000\000\000\000\000' | feed_host curl --silent --fail --max-time 10 --http2-prior-knowledge \
        --unix-socket "$directory/pod-resources/kubelet.sock" --header te:trailers \
        --header content-type:application/grpc --data-binary @- \
        http://localhost/v1.PodResourcesLister/GetAllocatableResources
}
if grep -Eqs '"RegisteredDevices":\{"' "$checkpoint"; then
    allocatable=$folder/allocatable_resources
    devices_of_kubelet > "$allocatable" 2> /dev/null || : > "$allocatable"
    [ -s "$allocatable" ] || {
        rm -f -- "$allocatable"
        unknown "allocatable_resources: the NUMA nodes of devices that no pod has; the kubelet is asked for them with curl and HTTP/2, which the node lacks or which got no answer"
    }
fi

# The pods that have no node yet: one of them can be the one to explain.
kubectl get pods --all-namespaces --field-selector spec.nodeName=,status.phase=Pending -o json | filter > "$folder/pending.json" || {
    rm -f -- "$folder/pending.json"
    unknown "pending.json: the pods that have no node yet"
}

# The configuration with which the kubelet runs. The file has neither its flags nor its drop-ins.
if config=$(kubectl get --raw "/api/v1/nodes/$node/proxy/configz"); then
    printf '%s\n' "$config" | filter > "$folder/configz.json"
elif has config.yaml; then
    on_node cat "$root$directory/config.yaml" | filter > "$folder/config.yaml" ||
        lacks "config.yaml: with which configuration the kubelet decides (see above)"
    unknown "configz.json: the kubelet's flags and drop-in files, if it has any; config.yaml is its file only"
else
    unknown "configz.json and config.yaml: with which configuration the kubelet decides; put a KubeletConfiguration into $folder/config.yaml"
fi

# The function numbers of awk returns the numbers of a list of the kernel, such as 0-3,8.
numbers='function numbers(list,    parts, ends, text, i, n) {
    for (i = split(list, parts, ","); i > 0; i--) {
        if (split(parts[i], ends, "-") == 1) ends[2] = ends[1]
        for (n = ends[2] + 0; n >= ends[1] + 0; n--) text = " " n text
    }
    return text
}
'
system=$root/sys/devices/system
nodes=$(on_node ls "$system/node" 2> /dev/null | sed -n 's/^node\([0-9][0-9]*\)$/\1/p' | sort -n | tr '\n' ' ')

# of_each KIND NUMBERS FILE prints a file of each CPU or NUMA node, after a line with its name.
of_each() {
    kind=$1
    all=$2
    file=$3
    set --
    for number in $all; do
        set -- "$@" "$system/$kind/$kind$number/$file"
    done
    printf '# %s\n' "$file"
    [ $# = 0 ] || on_node cat "$@"
}

# The machine: CPUs, cores, sockets, caches and NUMA nodes. If neither the node nor the image has
# lscpu, the kernel's own files have the same, and are written in the form of lscpu -J.
columns=CPU,NODE,SOCKET,CORE,CACHE,ONLINE
cpus_of_kernel() {
    online=$(on_node cat "$system/cpu/online") && present=$(on_node cat "$system/cpu/present") || return 1
    online=$(awk -v list="$online" "$numbers"'BEGIN { print substr(numbers(list), 2) }')
    l3=
    case $(on_node ls "$system/cpu/cpu${online%% *}/cache" 2> /dev/null) in
    *index3*) l3=cache/index3/shared_cpu_list ;;
    esac
    {
        of_each cpu "$online" topology/physical_package_id && of_each cpu "$online" topology/thread_siblings_list &&
            { [ -z "$l3" ] || of_each cpu "$online" "$l3"; } && of_each node "$nodes" cpulist
    } | awk -v online="$online" -v present="$present" -v nodes="$nodes" -v l3="$l3" "$numbers"'
        BEGIN { count = split(online, cpu, " "); split(nodes, node, " ") }
        /^#/ { file = $2; next }
        { row = ++rows[file] }
        file ~ /package/ { socket[cpu[row]] = $1 }
        file ~ /siblings/ { if (!($1 in cores)) cores[$1] = known++; core[cpu[row]] = cores[$1] }
        file == l3 { if (!($1 in caches)) caches[$1] = cached++; cache[cpu[row]] = caches[$1] }
        file == "cpulist" { for (n = split(numbers($0), list, " "); n > 0; n--) at[list[n]] = node[row] }
        END {
            if (count == 0 || rows["topology/physical_package_id"] != count || rows["topology/thread_siblings_list"] != count) exit 1
            if (l3 != "" && rows[l3] != count) exit 1
            print "{\n   \"cpus\": ["
            n = split(numbers(present), list, " ")
            for (i = 1; i <= n; i++) {
                c = list[i]
                printf "      {\"cpu\": %d, \"node\": %s, \"socket\": %s, \"core\": %s, ", c, (c in at ? at[c] : "null"), (c in core ? socket[c] : "null"), (c in core ? core[c] : "null")
                printf "%s, \"online\": %s}%s\n", (l3 == "" ? "\"cache\": null" : "\"l3\": \"" (c in cache ? cache[c] : "-") "\""), (c in core ? "true" : "false"), (i < n ? "," : "")
            }
            print "   ]\n}"
        }'
}
on_host lscpu -J "-e=$columns" > "$folder/lscpu.json" 2> /dev/null ||
    on_node lscpu -J "-e=$columns" > "$folder/lscpu.json" 2> /dev/null ||
    cpus_of_kernel > "$folder/lscpu.json" ||
    lacks "lscpu.json: the CPUs of node $node (see above): lscpu does not run there, and $system/cpu was not read"

# The sizes of the NUMA nodes and their distances. If the node has no numactl, the kernel's own
# files have the same, and are written in the form of numactl -H.
numa_of_kernel() {
    [ -n "$nodes" ] || return 1
    { of_each node "$nodes" meminfo && of_each node "$nodes" cpulist && of_each node "$nodes" distance; } | awk -v nodes="$nodes" "$numbers"'
        BEGIN { count = split(nodes, id, " ") }
        /^#/ { file = $2; rows = 0; next }
        file == "meminfo" && $3 == "MemTotal:" { size[$2] = $4 }
        file == "meminfo" && $3 == "MemFree:" { free[$2] = $4 }
        file == "cpulist" { list[++rows] = $0 }
        file == "distance" { distance[++rows] = $0 }
        END {
            if (count == 0 || file != "distance" || rows != count) exit 1
            printf "available: %d nodes (", count
            for (i = 1; i <= count; i++) printf "%s%s", (i == 1 ? "" : ","), id[i]
            print ")"
            for (i = 1; i <= count; i++) {
                printf "node %d cpus:%s\n", id[i], numbers(list[i])
                printf "node %d size: %d MB\n", id[i], size[id[i]] / 1024
                printf "node %d free: %d MB\n", id[i], free[id[i]] / 1024
            }
            printf "node distances:\nnode"
            for (i = 1; i <= count; i++) printf " %4d", id[i]
            print ""
            for (i = 1; i <= count; i++) {
                printf "%4d:", id[i]
                columns = split(distance[i], value, " ")
                for (c = 1; c <= columns; c++) printf " %4d", value[c]
                print ""
            }
        }'
}
on_host numactl -H > "$folder/numactl.txt" 2> /dev/null ||
    numa_of_kernel > "$folder/numactl.txt" || {
    rm -f -- "$folder/numactl.txt"
    unknown "numactl.txt: the sizes and distances of the NUMA nodes"
}

# The CPUs from which the kernel keeps work away. Of its command line, only the parameters about
# them leave the node.
isolation_of_kernel() {
    isolated=$(on_node cat "$system/cpu/isolated") && words=$(on_node cat "$root/proc/cmdline") || return 1
    full=$(on_node cat "$system/cpu/nohz_full" 2> /dev/null) || full= # An older kernel has no such file.
    printf '/sys/devices/system/cpu/isolated:%s\n/sys/devices/system/cpu/nohz_full:%s\n' "$isolated" "$full"
    printf '%s\n' "$words" | tr ' ' '\n' | sed -n -e 's,^isolcpus=,/proc/cmdline:&,p' -e 's,^nohz_full=,/proc/cmdline:&,p'
}
isolation_of_kernel > "$folder/isolation.txt" 2> /dev/null || {
    rm -f -- "$folder/isolation.txt"
    unknown "isolation.txt: which CPUs are isolated; $system/cpu/isolated or $root/proc/cmdline was not read"
}

# How the kernel can divide the caches: what resctrl describes, without its groups. Most nodes do
# not have it mounted.
if on_node ls "$root/sys/fs/resctrl/info" > /dev/null 2>&1; then
    { on_node grep -rH . "$root/sys/fs/resctrl/info"; on_node grep -H . "$root/sys/fs/resctrl/schemata"; } 2> /dev/null |
        sed -n 's,^.*\(/sys/fs/resctrl/[^:]*:\),\1,p' > "$folder/resctrl.txt"
    [ -s "$folder/resctrl.txt" ] || {
        rm -f -- "$folder/resctrl.txt"
        unknown "resctrl.txt: how the L3 caches can be divided; $root/sys/fs/resctrl was not read"
    }
fi

[ -n "$incomplete" ] || printf 'collected: %s\n' "$folder"
[ -z "$missing" ] || printf 'not collected, and what is therefore not known:%s\n' "$missing" >&2
[ "$anonymous" = yes ] || [ ! -e "$checkpoint" ] ||
    printf 'kubelet_internal_checkpoint can have secrets: what device plugins answered has environment variables. If you give the folder away, delete it, or read it first.\n'
[ -z "$incomplete" ] || exit 1
printf 'Read what is in it before you give it to somebody. Then: paddock explain NAMESPACE/POD --state %s\n' "$folder"
