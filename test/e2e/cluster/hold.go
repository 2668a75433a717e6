package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// hold lets runc change the cgroup of a container, NAMESPACE/POD/CONTAINER, COUNT more times. It
// makes the next change wait until hold allows more or release is called. So an agent can be killed
// at a known step: when it has decided and the node has not followed. The result depends neither on
// time nor on chance.
func hold(ctx context.Context, n *node, words []string, _ []byte) (wire.Ended, error) {
	if len(words) != 2 {
		return wire.Ended{}, fmt.Errorf("usage: hold NAMESPACE/POD/CONTAINER COUNT")
	}
	more, err := strconv.Atoi(words[1])
	if err != nil || more < 0 {
		return wire.Ended{}, fmt.Errorf("COUNT is %q; expected the number of changes that may be made", words[1])
	}
	id, err := n.containerID(ctx, words[0])
	if err != nil {
		return wire.Ended{}, err
	}
	script, err := files.ReadFile("files/runc.sh")
	if err != nil {
		return wire.Ended{}, err
	}
	// PATH of containerd has /usr/bin before /usr/sbin, where runc is.
	return wire.Ended{}, n.mustWith(ctx, fmt.Sprintf(`set -e; if [ ! -e /usr/bin/runc ]; then cat > /run/runc.sh; chmod 755 /run/runc.sh; mv /run/runc.sh /usr/bin/runc; fi
mkdir -p /run/updates; cd /run/updates; before=0; if [ -e %[1]s ]; then before=$(cat %[1]s); fi; echo $((before + %[2]d)) > %[1]s.new; mv %[1]s.new %[1]s`, id, more), script)
}

// held prints whether a change of the cgroup of a container waits, its number since hold, and the
// values in the cgroup.
func held(ctx context.Context, n *node, words []string, _ []byte) (wire.Ended, error) {
	if len(words) != 1 {
		return wire.Ended{}, fmt.Errorf("usage: held NAMESPACE/POD/CONTAINER")
	}
	id, err := n.containerID(ctx, words[0])
	if err != nil {
		return wire.Ended{}, err
	}
	ended, err := n.shell(ctx, fmt.Sprintf(`cd $(find /sys/fs/cgroup/kubepods -name %[1]s) && cat cpuset.cpus.effective cpuset.mems.effective && \
cd /run/updates && cat %[1]s && cat %[1]s.came 2> /dev/null | wc -l`, id), nil)
	if err != nil || ended.Code != 0 {
		return ended, err
	}
	var cpus, mems string
	var allowed, came int
	if _, err := fmt.Sscan(ended.Stdout, &cpus, &mems, &allowed, &came); err != nil {
		return wire.Ended{}, fmt.Errorf("%q: %w", ended.Stdout, err)
	}
	state := fmt.Sprintf("change %d waits", came)
	if came <= allowed {
		state = fmt.Sprintf("%d of %d changes came", came, allowed)
	}
	return wire.Ended{Stdout: fmt.Sprintf("%s: cpus %s  mems %s\n", state, cpus, mems)}, nil
}

// release lets runc make all changes again.
func release(ctx context.Context, n *node, _ []string, _ []byte) (wire.Ended, error) {
	clear(n.ids)
	return n.shell(ctx, "rm -rf /run/updates", nil)
}

// containerID returns the ID of a running container. While a change of the container waits,
// containerd lists no containers, so the ID is cached.
func (n *node) containerID(ctx context.Context, container string) (string, error) {
	if id := n.ids[container]; id != "" {
		return id, nil
	}
	o, err := vm.Do[wire.Observation](ctx, n.vm, wire.OpObserve, wire.Nothing{})
	if err != nil {
		return "", err
	}
	var running []string
	for _, c := range o.Containers {
		name := c.Pod + "/" + c.Name
		if name == container {
			n.ids[container] = c.ID
			return c.ID, nil
		}
		running = append(running, name)
	}
	return "", fmt.Errorf("container %s does not run; these do: %s", container, strings.Join(running, ", "))
}
