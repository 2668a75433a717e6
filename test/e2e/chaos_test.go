package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// trouble is something that happens to a node while pods come and go. begin makes it happen, and end,
// if it is not nil, makes it stop.
type trouble struct {
	name       string
	begin, end func(*testing.T, *node)
	// rejects is true if no pod can be admitted meanwhile.
	rejects bool
}

var troubles = []trouble{
	{name: "the clock jumps forward by an hour", begin: jump(time.Hour)},
	{name: "the clock jumps back by an hour", begin: jump(-time.Hour)},
	{name: "the disk is full", begin: fillDisk, end: emptyDisk, rejects: true},
	{name: "the agent runs out of memory", begin: outOfMemory},
	{name: "a container is frozen", begin: freeze("1"), end: freeze("0")},
	{name: "CPUs go offline and come back during a creation", begin: replug},
}

// TestTroubles checks that after each trouble, and during it, no container can run on the CPUs of
// another one, and that the agent is right again within a time, which it prints.
func TestTroubles(t *testing.T) {
	if !*everywhere {
		t.Skip("troubles of a node are tried with -everywhere: make e2e-everywhere")
	}
	m := open(t, "troubles", "2numa")
	for _, trouble := range troubles {
		m.run(t, strings.ReplaceAll(trouble.name, " ", "-"), trouble.play)
	}
}

func (c trouble) play(t *testing.T, n *node) {
	n.must(t, "agent topology=restricted scope=pod")
	n.must(t, "run best", "app a")
	n.must(t, "run own cpu=2 memory=64Mi", "app own cpu=2 memory=64Mi")
	n.must(t, "settle")
	if _, err := vm.Do[wire.Nothing](t.Context(), n.vm, wire.OpSample, wire.Sample{Own: []string{"default/own", "default/came"}}); err != nil {
		fail(t, "%v", err)
	}
	during := make(chan []string, 1)
	go func() {
		lines, err := n.cmdRun(context.WithoutCancel(t.Context()), command("run came cpu=1 memory=64Mi", "app came cpu=1 memory=64Mi"))
		if err != nil {
			lines = append(lines, "error: "+err.Error())
		}
		during <- lines
	}()
	c.begin(t, n)
	lines := <-during
	t.Logf("a pod that came meanwhile: %q", lines)
	if c.rejects {
		n.must(t, "remove came")
		if lines = n.answer(t.Context(), command("run full cpu=1 memory=64Mi", "app full cpu=1 memory=64Mi")); !strings.HasPrefix(lines[0], "rejected") {
			fail(t, "a pod is admitted meanwhile: %q", lines)
		}
		t.Logf("a pod meanwhile: %q", lines)
		n.must(t, "remove full")
	}
	if c.end != nil {
		c.end(t, n)
	}
	begin := time.Now()
	// A pod that came meanwhile is tried again as a kubelet does.
	if c.rejects {
		n.must(t, "run came cpu=1 memory=64Mi", "app came cpu=1 memory=64Mi")
	} else if strings.HasPrefix(lines[0], "rejected") || strings.HasPrefix(lines[0], "container") {
		n.must(t, "stop-pod came")
		n.must(t, "run came")
	}
	n.must(t, "settle")
	fmt.Fprintf(os.Stderr, "e2e: %s: right again after %.1f s\n", c.name, time.Since(begin).Seconds())
	seen, err := vm.Do[wire.Sampled](t.Context(), n.vm, wire.OpSampled, wire.Nothing{})
	if err != nil {
		fail(t, "%v", err)
	}
	if seen.Overlaps > 0 || seen.Looks < 10 {
		fail(t, "%d overlaps in %d looks: %+v", seen.Overlaps, seen.Looks, seen.Examples)
	}
	verified := strings.Join(n.must(t, "verify"), "\n")
	if !strings.Contains(verified, "\nexit 0") {
		fail(t, "paddock verify: %s", verified)
	}
	n.must(t, "remove came own best")
	n.must(t, "settle")
	n.nothingHeld(t)
}

// shell runs commands on the node that must succeed.
func (n *node) shell(t *testing.T, script string) string {
	t.Helper()
	out, err := n.exec(t.Context(), "/bin/sh", "-c", script)
	if err != nil {
		fail(t, "%v", err)
	}
	return out
}

// jump sets the clock of the node.
func jump(by time.Duration) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		t.Helper()
		n.shell(t, fmt.Sprintf("date -s @$(($(date +%%s) + %d)) > /dev/null", int(by.Seconds())))
	}
}

// fillDisk leaves no byte on the disk of the state.
func fillDisk(t *testing.T, n *node) {
	t.Helper()
	n.shell(t, "mkdir -p /var/lib/paddock; dd if=/dev/zero of=/var/filled bs=1M 2> /dev/null; dd if=/dev/zero of=/var/filled.rest bs=4096 2> /dev/null; df / | tail -n 1 | grep -q 100%")
}

func emptyDisk(t *testing.T, n *node) {
	t.Helper()
	n.shell(t, "rm -f /var/filled /var/filled.rest")
}

// outOfMemory lets the kernel kill the agent for want of memory, and starts it again.
func outOfMemory(t *testing.T, n *node) {
	t.Helper()
	n.collectHooks()
	n.running = false
	n.shell(t, `group=/sys/fs/cgroup/oom; mkdir $group && echo $(pidof paddock) > $group/cgroup.procs && echo 0 > $group/memory.swap.max 2> /dev/null
echo 1M > $group/memory.max
for i in $(seq 600); do pidof paddock > /dev/null || break; usleep 100000; done
grep -q 'oom_kill [1-9]' $group/memory.events && rmdir $group`)
	if _, err := n.stop(t.Context(), "agent", syscall.SIGKILL); err != nil {
		fail(t, "%v", err)
	}
	n.must(t, "agent-start")
}

// freeze freezes the container that shares CPUs, or lets it go on.
func freeze(state string) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		t.Helper()
		o, err := n.observe(t.Context())
		if err != nil {
			fail(t, "%v", err)
		}
		for _, c := range containersOf(o, "best-uid") {
			n.shell(t, "echo "+state+" > /sys/fs/cgroup"+c.Path+"/cgroup.freeze")
		}
	}
}

// replug takes half of a NUMA node offline and online again, several times.
func replug(t *testing.T, n *node) {
	t.Helper()
	for range 3 {
		for _, online := range []bool{false, true} {
			if _, err := vm.Do[wire.Nothing](t.Context(), n.vm, wire.OpPlug, wire.Plug{CPUs: []int{6, 7}, Online: online}); err != nil {
				fail(t, "%v", err)
			}
		}
	}
	if err := n.awaitCPUs(t.Context()); err != nil {
		fail(t, "%v", err)
	}
}
