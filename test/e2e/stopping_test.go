package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

const (
	// stopGrace is the grace period of the container that ignores SIGTERM. The test ends the
	// container itself when it has seen enough.
	stopGrace = 90 * time.Second
	// promptly is the longest time of a creation while that container stops: a few seconds on
	// emulated CPUs, and far less than what is left of the grace period.
	promptly = 15 * time.Second
	// reported is how long the agent may take to see in the kubelet's list that a pod is being
	// deleted. It looks each 500 ms.
	reported = 6 * time.Second
)

// createdDuringAStop creates pods while a container ignores SIGTERM. CRI-O has the lock of such a
// container for the whole grace period, and creates nothing while it waits for that lock to
// synchronise a plugin or to update the container. Meanwhile CPUs become free and are taken again,
// so that the container and a neighbor have to be updated. No creation waits for the end of the
// container, and the agent keeps its connection.
func createdDuringAStop(t *testing.T, n *node) {
	n.must(t, "agent topology=restricted scope=pod")
	n.must(t, "run own cpu=2 memory=64Mi", "app own cpu=2 memory=64Mi")
	n.must(t, "run also cpu=1 memory=64Mi", "app also cpu=1 memory=64Mi")
	n.must(t, "run best", "app a")
	n.runStubborn(t, "stops")
	n.must(t, "settle")
	if _, err := vm.Do[wire.Nothing](t.Context(), n.vm, wire.OpSample, wire.Sample{Own: []string{"default/own", "default/also", "default/came", "default/last"}}); err != nil {
		fail(t, "%v", err)
	}
	before := n.connections(t)
	s := n.beginStop(t, "stops", "best")
	n.wait(t, reported)
	n.must(t, "remove own")
	s.creates(t, "run shares", "app a") // Its reply updates the neighbor.
	s.awaitCPUs(t, n.without(t, "also"))
	n.must(t, "remove also") // No reply takes the updates after this.
	s.awaitCPUs(t, "0-7")
	s.creates(t, "run came cpu=3 memory=64Mi", "app came cpu=3 memory=64Mi") // It needs CPUs of the stopping container.
	s.creates(t, "run last cpu=1 memory=64Mi", "app last cpu=1 memory=64Mi")
	s.awaitCPUs(t, n.without(t, "came", "last"))
	if now := n.connections(t); now != before {
		fail(t, "the agent connected again: %s, before: %s", now, before)
	}
	s.end(t)
	n.must(t, "settle")
	if now := n.connections(t); now != before {
		fail(t, "the agent connected again after the end: %s, before: %s", now, before)
	}
	seen, err := vm.Do[wire.Sampled](t.Context(), n.vm, wire.OpSampled, wire.Nothing{})
	if err != nil {
		fail(t, "%v", err)
	}
	t.Logf("%d looks, the longest gap %v", seen.Looks, seen.LongestGap)
	if seen.Overlaps > 0 || seen.Looks < 100 {
		fail(t, "%d overlaps in %d looks: %+v", seen.Overlaps, seen.Looks, seen.Examples)
	}
	n.must(t, "remove shares came last best")
	n.must(t, "settle")
	n.nothingHeld(t)
}

// runStubborn runs a pod without requests whose container ignores SIGTERM.
func (n *node) runStubborn(t *testing.T, name string) {
	t.Helper()
	pod, err := parsePod([]string{name}, []string{"app a"})
	if err != nil {
		fail(t, "%v", err)
	}
	pod.Spec.Containers[0].Args = []string{"stay"}
	n.pods[name] = pod
	n.must(t, "run "+name)
}

// connections returns the lines of the agent's metrics that change if a connection to the runtime
// ends or begins.
func (n *node) connections(t *testing.T) string {
	t.Helper()
	text, err := n.metrics(t.Context())
	if err != nil {
		fail(t, "%v", err)
	}
	lines := ofConnection.FindAllString(text, -1)
	if len(lines) != 3 {
		fail(t, "the agent's metrics have %q, want three lines", lines)
	}
	return strings.Join(lines, ", ")
}

var ofConnection = regexp.MustCompile(`(?m)^paddock_runtime_(?:connected|away_seconds_total|hook_duration_seconds_count\{hook="Synchronize"\}) .*`)

// wait pauses the test.
func (n *node) wait(t *testing.T, d time.Duration) {
	t.Helper()
	if err := pause(t.Context(), d); err != nil {
		fail(t, "%v", err)
	}
}

// without returns the CPUs of the machine that pods do not have.
func (n *node) without(t *testing.T, pods ...string) string {
	t.Helper()
	o, err := n.observe(t.Context())
	if err != nil {
		fail(t, "%v", err)
	}
	rest, err := cpuset.Parse(o.Online)
	if err != nil {
		fail(t, "%v", err)
	}
	for _, name := range pods {
		for _, c := range containersOf(o, name+"-uid") {
			own, err := cpuset.Parse(c.Files["cpuset.cpus"])
			if err != nil {
				fail(t, "%v", err)
			}
			rest = rest.Difference(own)
		}
	}
	return rest.String()
}

// stop is a pod that is being deleted, and whose container does not end.
type stop struct {
	n   *node
	pod string
	// path and beside are the cgroups of its container and of the neighbor.
	path, beside string
	begun        time.Time
	done         chan error
}

// beginStop deletes a pod with one container, and returns while the runtime stops it.
func (n *node) beginStop(t *testing.T, pod, neighbor string) *stop {
	t.Helper()
	o, err := n.observe(t.Context())
	if err != nil {
		fail(t, "%v", err)
	}
	s := &stop{n: n, pod: pod, begun: time.Now(), done: make(chan error, 1)}
	for _, c := range o.Containers {
		switch c.UID {
		case pod + "-uid":
			s.path = "/sys/fs/cgroup" + c.Path
		case neighbor + "-uid":
			s.beside = "/sys/fs/cgroup" + c.Path
		}
	}
	delete(n.pods, pod)
	go func() {
		_, err := vm.Do[wire.Nothing](t.Context(), n.vm, wire.OpRemove, wire.Remove{UID: pod + "-uid", Grace: stopGrace})
		s.done <- err
	}()
	return s
}

// goesOn fails the test if the container has ended.
func (s *stop) goesOn(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.done:
		fail(t, "the container of %s ended after %v: %v", s.pod, time.Since(s.begun), err)
	default:
	}
}

// creates runs a pod promptly while the container stops.
func (s *stop) creates(t *testing.T, first string, input ...string) {
	t.Helper()
	begin := time.Now()
	lines := s.n.must(t, first, input...)
	took := time.Since(begin)
	t.Logf("%.1f s after the stop began, in %.1f s: %s: %q", begin.Sub(s.begun).Seconds(), took.Seconds(), first, lines)
	if strings.Contains(strings.Join(lines, "\n"), "not started") || took > promptly {
		fail(t, "%s: after %v, want at most %v: %q", first, took, promptly, lines)
	}
	s.goesOn(t)
}

// awaitCPUs waits until the stopping container and its neighbor have the CPUs in their cgroups.
func (s *stop) awaitCPUs(t *testing.T, want string) {
	t.Helper()
	script := "cat " + s.path + "/cpuset.cpus " + s.beside + "/cpuset.cpus"
	for begin := time.Now(); ; s.n.wait(t, 200*time.Millisecond) {
		s.goesOn(t)
		have := strings.Fields(s.n.shell(t, script))
		if strings.Join(have, " ") == want+" "+want {
			t.Logf("both have %s after %.1f s", want, time.Since(begin).Seconds())
			return
		}
		if time.Since(begin) > 2*promptly {
			fail(t, "the containers that stop and stay have %q, want %s for both", have, want)
		}
	}
}

// end ends the container, and waits until the pod is removed.
func (s *stop) end(t *testing.T) {
	t.Helper()
	s.goesOn(t)
	s.n.shell(t, "echo 1 > "+s.path+"/cgroup.kill")
	if err := <-s.done; err != nil {
		fail(t, "%v", err)
	}
	t.Logf("the container ended %.1f s after the stop began", time.Since(s.begun).Seconds())
}
