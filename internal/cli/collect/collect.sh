fail() {
    printf 'collect: %s\n' "$*" >&2
    exit 1
}

# unknown notes what could not be read, and what is therefore not known.
missing=
unknown() {
    missing="$missing
  $*"
}

need() { command -v "$1" > /dev/null || fail "$1 is not in PATH: $2"; }

case $node in
"" | -* | *[!a-z0-9.-]*) fail "\"$node\" is not the name of a node: run sh $0 NODE" ;;
esac
need kubectl "install it, or run this script where it is"
need paddock "it removes from the objects what does not decide, such as environments: install it"
mkdir -- "$folder" || fail "the folder $folder cannot be made: remove it if it is there, or give another one with --folder"

# At the end, whatever happens: no debug pod, and no folder that is not complete.
end() {
    status=$?
    trap - EXIT
    leave
    rm -rf -- "$folder/again"
    [ "$status" = 0 ] || rm -rf -- "$folder"
    exit "$status"
}
trap end EXIT
trap 'exit 1' HUP INT TERM
enter

# The Node, with only the fields that decide.
kubectl get node "$node" -o json | filter > "$folder/node.json" || fail "node $node was not read (see above)"

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
        on_node cat "$root$directory/$name" > "$1/${name##*/}" || fail "$directory/$name was not read (see above)"
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
    kubectl get pods --all-namespaces --field-selector "$selector" -o json | filter > "$folder/pods.json" ||
        fail "the pods of node $node were not read (see above)"
    copy_states "$folder/again"
    ! same_states || break
    if [ "$tries" = 3 ]; then
        unknown "whether pods.json and the files of the kubelet are of one moment: they changed each time they were read"
        break
    fi
    tries=$((tries + 1))
done

# The configuration with which the kubelet runs. The file has neither its flags nor its drop-ins.
if config=$(kubectl get --raw "/api/v1/nodes/$node/proxy/configz"); then
    printf '%s\n' "$config" | filter > "$folder/configz.json"
elif has config.yaml; then
    on_node cat "$root$directory/config.yaml" | filter > "$folder/config.yaml" || fail "$directory/config.yaml was not read (see above)"
    unknown "configz.json: the kubelet's flags and drop-in files, if it has any; config.yaml is its file only"
else
    unknown "configz.json and config.yaml: with which configuration the kubelet decides; put a KubeletConfiguration into $folder/config.yaml"
fi

# The machine: CPUs, cores, sockets, caches and NUMA nodes. If the node has no lscpu, the image may.
columns=CPU,NODE,SOCKET,CORE,CACHE,ONLINE
on_host lscpu -J "-e=$columns" > "$folder/lscpu.json" 2> /dev/null ||
    on_node lscpu -J "-e=$columns" > "$folder/lscpu.json" ||
    fail "lscpu does not run on node $node (see above): with --via debug, give an image that has it with --image, such as debian:stable"

# The sizes of the NUMA nodes and their distances. If the node has no numactl, the kernel's own
# files have the same, and are written in the form of numactl -H.
of_nodes() {
    file=$1
    set --
    for number in $numbers; do
        set -- "$@" "$root/sys/devices/system/node/node$number/$file"
    done
    printf '# %s\n' "$file"
    on_node cat "$@"
}
numa_of_kernel() {
    numbers=$(on_node ls "$root/sys/devices/system/node" | sed -n 's/^node\([0-9][0-9]*\)$/\1/p' | sort -n | tr '\n' ' ')
    [ -n "$numbers" ] || return 1
    { of_nodes meminfo && of_nodes cpulist && of_nodes distance; } | awk -v numbers="$numbers" '
        function cpus(list,    ranges, ends, text, i, c) {
            for (i = split(list, ranges, ","); i > 0; i--) {
                if (split(ranges[i], ends, "-") == 1) ends[2] = ends[1]
                for (c = ends[2] + 0; c >= ends[1] + 0; c--) text = " " c text
            }
            return text
        }
        BEGIN { count = split(numbers, id, " ") }
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
                printf "node %d cpus:%s\n", id[i], cpus(list[i])
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

printf 'collected: %s\n' "$folder"
[ -z "$missing" ] || printf 'not collected, and what is therefore not known:%s\n' "$missing" >&2
printf 'Read what is in it before you give it to somebody. Then: paddock explain NAMESPACE/POD --state %s\n' "$folder"
