package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// listed prints what a node has that Paddock could leave behind: files and directories, mounts, and
// the CPUs, memory nodes and quotas of the cgroups of pods. It leaves out what belongs to the runtime
// and to the kubelet's own pods, logs, and the addresses of the pod network.
const listed = `
find / /run -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /in -o -path /var/log \
    -o -path /var/lib/containerd -o -path /run/containerd -o -path /run/runc -o -path /run/netns \
    -o -path /var/lib/cni -o -path /var/lib/kubelet/pods \) -prune -o -print | sed 's/^/file /'
awk '$5 !~ "^/run/(containerd|netns)|^/var/lib/kubelet/pods" {print "mount " $5}' /proc/self/mountinfo
cd /sys/fs/cgroup && find . -type d -path '*kubepods*' | while read -r dir; do
    echo "cgroup $dir cpus $(cat $dir/cpuset.cpus.effective) mems $(cat $dir/cpuset.mems.effective) quota $(cat $dir/cpu.max) partition $(cat $dir/cpuset.cpus.partition)"
done`

// kinds are the kinds of objects that Paddock makes outside of its namespace.
const kinds = "customresourcedefinitions,clusterroles,clusterrolebindings,namespaces,validatingadmissionpolicies,validatingadmissionpolicybindings," +
	"mutatingadmissionpolicies,mutatingadmissionpolicybindings,priorityclasses"

// before notes what the node and the cluster have.
func before(ctx context.Context, n *node, _ []string, _ []byte) (wire.Ended, error) {
	var err error
	n.had, err = n.has(ctx)
	return wire.Ended{}, err
}

// after prints what the node and the cluster have more (+) or less (-) than before.
func after(ctx context.Context, n *node, _ []string, _ []byte) (wire.Ended, error) {
	if n.had == nil {
		return wire.Ended{}, errors.New("the page has no command before")
	}
	has, err := n.has(ctx)
	if err != nil {
		return wire.Ended{}, err
	}
	var lines []string
	for _, part := range []struct {
		sign       string
		of, others []string
	}{{"+", has, n.had}, {"-", n.had, has}} {
		for _, line := range part.of {
			if !slices.Contains(part.others, line) {
				lines = append(lines, part.sign+" "+line+"\n")
			}
		}
	}
	say("%d files, mounts, cgroups, objects and labels were compared", len(has))
	return wire.Ended{Stdout: strings.Join(lines, "")}, nil
}

// has lists what the node and the cluster have.
func (n *node) has(ctx context.Context) ([]string, error) {
	ended, err := n.shell(ctx, listed, nil)
	if err == nil && ended.Code != 0 {
		err = fmt.Errorf("exit code %d: %s", ended.Code, ended.Stderr)
	}
	if err != nil {
		return nil, err
	}
	objects, err := n.kubectl(ctx, "", "get", kinds, "-o", "name")
	if err != nil {
		return nil, err
	}
	labels, err := n.kubectl(ctx, "", "get", "node", nodeName, "-o", `go-template={{range $k, $v := .metadata.labels}}label {{$k}}={{$v}}{{"\n"}}{{end}}`)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(ended.Stdout + string(labels)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	for line := range strings.Lines(string(objects)) {
		lines = append(lines, "object "+strings.TrimSpace(line))
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}
