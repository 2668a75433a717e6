package main

import (
	"flag"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

var (
	earlier = flag.String("earlier", "", "the program of an earlier version, from which and to which TestUpgrade changes; default: the program under test")
	later   = flag.String("later", "", "the program to which TestUpgrade changes; default: the program under test")
)

const (
	// upgradedPods is how many pods run at a time, every second with CPUs of its own.
	upgradedPods = 24
	// upgradePace is the time between two pods that are replaced, and upgradeChurn is how many are
	// replaced while each version runs.
	upgradePace, upgradeChurn = 50 * time.Millisecond, 10
)

// TestUpgrade upgrades a real agent and goes back while pods are replaced all the time. No pod that
// runs before and after is moved, no pod is rejected, and each version has the assignments that the
// other one wrote. With -earlier it does that between two versions: see make upgrades.
func TestUpgrade(t *testing.T) {
	h := newHome(t, machineText(2, 4, 32))
	u := &upgrade{home: h, churned: &churned{at: map[string]time.Time{}}, files: newCgroups(h.path("cgroups"), nil)}
	for i := range upgradedPods {
		u.add(i)
	}
	kubelet := httptest.NewServer(u.churned)
	t.Cleanup(kubelet.Close)
	h.args = []string{
		"agent", "--runtime", "nri", "--config", h.path("agent.yaml"), "--machine", h.path("machine.json"), "--state", h.path("state.json"),
		"--podresources-socket", h.path("s"), "--listen", "127.0.0.1:0", "--log-format", "json",
		"--nri-socket", h.path("nri.sock"), "--kubelet-url", kubelet.URL, "--cgroup-root", h.path("cgroups"),
	}
	if err := u.files.files("", "cgroup.controllers", "cpuset cpu"); err != nil {
		t.Fatal(err)
	}
	// Containers wait for the agent, so that none starts on CPUs of others.
	u.runtime, u.follow = h.serve(sim.Config{Now: time.Now, After: time.After, Required: []string{"paddock"}, Observe: u.files.keep, Fault: u.time})
	u.next = upgradedPods
	u.publishAll()
	p := u.run(*earlier)
	for _, program := range []string{*later, *earlier} {
		u.churn(upgradeChurn)
		p = u.change(p, program)
	}
	u.churn(upgradeChurn)
	u.settle()
	if err := p.end(t, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	u.judge()
}

// upgrade is a node whose agent changes its version.
type upgrade struct {
	*home
	*churned
	files   *cgroups
	runtime *sim.Runtime
	follow  func([]request.Pod)
	next    int
	// agents are all that ran.
	agents []*process
	// kept counts the pods that ran across a change, and own those of them with CPUs of their own.
	kept, own int
	away      []time.Duration
}

// run starts an agent and waits until every pod runs.
func (u *upgrade) run(program string) *process {
	u.home.t.Helper()
	u.home.t.Setenv("PADDOCK", program)
	p := u.start()
	u.agents = append(u.agents, p)
	u.settle()
	return p
}

// add appends pod i.
func (u *upgrade) add(i int) {
	u.home.t.Helper()
	const shares = 120 // The pods from here on have no CPUs of their own.
	pod, asked := listedPodAs(u.home.t, i, i%2*shares)
	u.pods, u.requests = append(u.pods, *pod), append(u.requests, asked)
	u.publish(u.home.t)
}

// publishAll makes the pods known to the runtime, too.
func (u *upgrade) publishAll() {
	u.files.learn(u.requests)
	u.follow(u.requests)
}

// churn replaces pods.
func (u *upgrade) churn(n int) {
	u.home.t.Helper()
	for range n {
		u.pods, u.requests = slices.Clone(u.pods[1:]), slices.Clone(u.requests[1:])
		u.add(u.next)
		u.next++
		u.publishAll()
		time.Sleep(upgradePace) //nolint:forbidigo // Another process answers.
	}
}

// settle waits until every container of every pod runs with what the state file has.
func (u *upgrade) settle() {
	u.home.t.Helper()
	why := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(upgradePace) { //nolint:forbidigo // Another process answers.
		if why = u.unsettled(); why == "" {
			return
		}
	}
	u.home.t.Fatalf("%s; the log of the agent:\n%s", why, u.agents[len(u.agents)-1].log.text())
}

// unsettled returns what does not run as it should.
func (u *upgrade) unsettled() string {
	wanted := map[string]int{}
	for _, pod := range u.requests {
		wanted[pod.UID] = len(pod.Containers)
	}
	grants := u.grants()
	for _, c := range u.runtime.Running() {
		wanted[c.Pod]--
		g := grants[c.Pod]
		if g == nil {
			continue
		}
		for i, has := range g.Containers {
			if g.Pod.Containers[i].Name == c.Container && !has.CPUs.IsEmpty() && !c.Setting.CPUs.Equal(has.CPUs) {
				return fmt.Sprintf("%s of %s runs on %s, and has %s", c.Container, c.Who, c.Setting.CPUs, has.CPUs)
			}
		}
	}
	for uid, n := range wanted {
		if n != 0 {
			return fmt.Sprintf("pod %s: %d containers do not run, or should not", uid, n)
		}
	}
	return ""
}

// grants reads the state file.
func (u *upgrade) grants() map[string]*node.Grant {
	u.home.t.Helper()
	data, err := os.ReadFile(u.path("state.json"))
	if err != nil {
		return nil
	}
	file, err := statefile.Decode("state.json", data)
	if err != nil {
		u.home.t.Fatal(err)
	}
	all := map[string]*node.Grant{}
	for _, g := range file.Grants {
		all[g.Pod.UID] = g
	}
	return all
}

// change replaces the agent by one of another version, while pods are replaced.
func (u *upgrade) change(p *process, program string) *process {
	u.home.t.Helper()
	u.settle()
	before := u.grants()
	begin := time.Now()
	if err := p.end(u.home.t, syscall.SIGTERM); err != nil {
		u.home.t.Error(err)
	}
	u.churn(2) // These start when an agent is back.
	p = u.run(program)
	u.away = append(u.away, time.Since(begin).Round(time.Millisecond))
	after := u.grants()
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		was, is := before[uid], after[uid]
		if is == nil {
			continue
		}
		u.kept++
		if !was.CPUs().IsEmpty() {
			u.own++
		}
		if !was.SameAssignments(is) || was.Sequence != is.Sequence {
			u.home.t.Errorf("pod %s had %s, and has %s", uid, was.CPUs(), is.CPUs())
		}
	}
	return p
}

// judge checks what the agents did.
func (u *upgrade) judge() {
	u.home.t.Helper()
	admitted, rejected := 0, 0
	for _, p := range u.agents {
		events, _ := p.events(u.home.t)
		for _, e := range events {
			switch {
			case e.Msg == "pod admitted":
				admitted++
			case strings.HasPrefix(e.Msg, "pod rejected"):
				rejected++
			}
		}
	}
	u.home.t.Logf("%d admissions, %d rejections; %d pods ran across the %d changes, %d of them with CPUs of their own, 0 moved; until every pod ran: %v",
		admitted, rejected, u.kept, len(u.away), u.own, u.away)
	if rejected > 0 || u.own == 0 || admitted < u.next {
		u.home.t.Errorf("%d rejections, %d pods with CPUs of their own ran across a change, %d of %d pods were admitted", rejected, u.own, admitted, u.next)
	}
}
