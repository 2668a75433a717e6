# The node is read through a debug pod, which is deleted at the end. If this script is killed, the
# pod ends by itself after 15 minutes. Its admission makes the kubelet release what ended pods had,
# as the admission of any pod does, so that the files no longer show it. A script with --via ssh
# changes nothing.
root=/host # where the pod has the file system of the node
pod=
selector="spec.nodeName=$node"

enter() {
    created=$(kubectl debug "node/$node" --namespace "$namespace" --image "$image" --profile sysadmin -- sleep 900) ||
        fail "no debug pod was created on node $node (see above): give a namespace that admits privileged pods with --namespace, or print the script with --via ssh"
    pod=$(printf '%s\n' "$created" | sed -n 's/^Creating debugging pod \([^ ]*\) .*/\1/p')
    [ -n "$pod" ] || fail "kubectl debug did not print the name of its pod, only: $created"
    (timeout=130s && kubectl wait --namespace "$namespace" --for condition=Ready --timeout 120s "pod/$pod" > /dev/null) ||
        fail "the debug pod $pod does not run: give an image that the node can pull with --image (now $image)"
    selector="$selector,metadata.name!=$pod"
}

leave() {
    [ -z "$pod" ] || kubectl delete --namespace "$namespace" --wait=false "pod/$pod" > /dev/null ||
        printf 'collect: delete the debug pod: kubectl delete --namespace %s pod/%s\n' "$namespace" "$pod" >&2
}

# on_node runs a program of the image, on_host one of the node, and feed_host one that reads the
# standard input.
on_node() { kubectl exec --namespace "$namespace" "$pod" -- "$@"; }
on_host() { on_node chroot "$root" "$@"; }
feed_host() { kubectl exec --stdin --namespace "$namespace" "$pod" -- chroot "$root" "$@"; }
