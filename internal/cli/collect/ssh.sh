# The node is read by ssh, as root or with sudo, which must not ask for a password: the kubelet's
# files can be read only by root.
root= # the file system of the node is not elsewhere
sudo=
ssh() { command ssh -o ConnectTimeout=10 -o ServerAliveInterval=10 "$@"; }
selector="spec.nodeName=$node"

enter() {
    need ssh "install it, or print the script with --via debug"
    user=$(ssh -n "$host" id -u) || fail "ssh $host does not work (see above): give USER@HOST with --host"
    [ "$user" = 0 ] || sudo="sudo -n "
}

leave() { :; }

# No word of a command has spaces or quotes, so the shell of the node reads the same words.
# feed_host runs a program that reads the standard input.
on_node() { ssh -n "$host" "$sudo$*"; }
on_host() { on_node "$@"; }
feed_host() { ssh "$host" "$sudo$*"; }
