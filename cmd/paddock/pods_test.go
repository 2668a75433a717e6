package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestPodsScripts runs testdata/pods. The variables are the sockets of servers. $SOCKET has the
// pods of testdata/pods/node.yaml. $EMPTY has no pods. $BUSY answers once. $OFFLINE is the first
// with CPUs 3-5 and 197 offline. $DEVICES has pods with devices that others chose. $MOVES has one
// pod that is being moved and another that was moved. $CACHES has pods with parts of the caches.
func TestPodsScripts(t *testing.T) {
	golden.Scripts(t)
	empty := podsNode(t)
	full := podsAdmit(t, empty, "testdata/pods/node.yaml")
	sockets := map[string]string{
		"SOCKET":  servePods(t, full, podres.Options{}),
		"EMPTY":   servePods(t, empty, podres.Options{}),
		"OFFLINE": servePods(t, withoutCPUs(t, full, cpuset.Of(3, 4, 5, 197)), podres.Options{}),
		"DEVICES": withGiven(t),
		"MOVES":   withMoves(t, full),
		"CACHES":  servePods(t, withClasses(t), podres.Options{}),
		"BUSY":    servePods(t, full, podres.Options{Limit: podres.Limit{PerSecond: 1e-6, Burst: 1}}),
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/pods",
		UpdateScripts: golden.Rewriting(),
		Setup: func(env *testscript.Env) error {
			for name, path := range sockets {
				env.Setenv(name, path)
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// withoutCPUs returns the node after some of its CPUs went offline.
func withoutCPUs(t *testing.T, s *node.State, cpus cpuset.Set) *node.State {
	t.Helper()
	m, err := s.Machine().Without(cpus)
	if err == nil {
		s, err = s.OnMachine(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// withGiven serves a pod with devices of a claim and of a device plugin: one is near, one is
// remote, and one has an unknown place.
func withGiven(t *testing.T) string {
	t.Helper()
	empty := podsNode(t)
	policy := empty.Policy()
	policy.Topology, policy.Scope = node.TopologyBestEffort, node.ContainerScope
	s, err := node.New(empty.Machine(), policy)
	if err != nil {
		t.Fatal(err)
	}
	pod := request.Pod{Identity: request.Identity{UID: "u", Namespace: "default", Name: "train"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
		Name: "main", Type: request.App, CPUs: 2, CPURequest: 2000, CPULimit: 2000, Equivalent: true,
		Given: []request.Given{
			{Driver: "gpu.example.com", Pool: "node7", Claim: "train-gpu", Name: "gpu-0", Nodes: mask.Of(1)},
			{Resource: "example.com/nic", Name: "nic-0", Nodes: mask.Of(6)},
			{Resource: "example.com/nic", Name: "nic-1"},
		},
	}}}}
	pod.ResourceClaims = []request.Claim{{
		Name: "train-gpu", Uses: []request.ClaimUse{{Container: "main"}},
		Devices: []request.ClaimDevice{{Driver: "gpu.example.com", Pool: "node7", Name: "gpu-0"}},
	}}
	if s, err = s.Apply(s.Plan(pod)); err != nil {
		t.Fatal(err)
	}
	return servePods(t, s, podres.Options{})
}

// withMoves serves a node on which default/web is being moved and default/database was moved twice.
func withMoves(t *testing.T, s *node.State) string {
	t.Helper()
	for _, g := range s.Grants() {
		if g.Pod.Name != "web" {
			continue
		}
		to := scenario.Elsewhere(s, g)
		if to.Rejection != nil {
			t.Fatal(to.Rejection)
		}
		next, err := s.BeginMove(to.Grant)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	return servePods(t, s, podres.Options{Moved: func(uid string) (int, time.Time) {
		if g, there := s.Grant(uid); !there || g.Pod.Name != "database" {
			return 0, time.Time{}
		}
		return 2, time.Date(2026, 11, 22, 16, 30, 0, 0, time.UTC)
	}})
}

// withClasses returns a node with a container and a pool that have classes of the caches.
func withClasses(t *testing.T) *node.State {
	t.Helper()
	n := scenario.New(nil)
	for _, line := range []string{
		"machine cores=16 uncore=8 memory=16Gi caches=ways:12,classes:8,mb:10",
		"config topology=single-numa-node scope=pod cpu=static memory=Static reserved-cpus=0 options=cache-allocation=true",
		"pod database shared-pool-cache=l3=3ways cpu=4 memory=2Gi\napp server cache=l3=2ways,mb=20% cpu=2 memory=1Gi\napp log\napp metrics",
		"pod web\napp app cpu=2 memory=1Gi", "admit database", "admit web",
	} {
		command, input, _ := strings.Cut(line, "\n")
		words := strings.Fields(command)
		c := scenario.Command{Name: words[0], Args: words[1:]}
		if input != "" {
			c.Input = strings.Split(input, "\n")
		}
		if answer := n.Run(c); strings.HasPrefix(answer, "error") || strings.HasPrefix(answer, "rejected") {
			t.Fatalf("%s: %s", line, answer)
		}
	}
	return n.State()
}

type still struct{ state *node.State }

func (s still) State() *node.State { return s.state }

// servePods serves the pods until the test ends, and returns the path of the socket.
func servePods(t *testing.T, state *node.State, o podres.Options) string {
	t.Helper()
	server, err := podres.NewServer(still{state}, o)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "socket")
	l, err := podres.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // The scripts outlive t's context.
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return path
}

// podsNode returns an example machine with devices and without pods.
func podsNode(t *testing.T) *node.State {
	t.Helper()
	data, err := os.ReadFile("../../examples/machines/epyc-2s-nps4.json")
	if err != nil {
		t.Fatal(err)
	}
	found, err := discover.Read("epyc", data)
	if err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile("../../examples/kubelet/pod-scope.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config, err := kubeletcfg.Read("pod-scope", data)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := config.Resolve(found.Machine)
	if err != nil {
		t.Fatal(err)
	}
	state, err := node.New(found.Machine, policy)
	if err != nil {
		t.Fatal(err)
	}
	inventory, err := device.NewInventory(found.Machine, map[string][]device.Device{
		"example.com/nic": {
			{ID: "nic-0", Healthy: true, Nodes: mask.Of(0)},
			{ID: "nic-1", Healthy: true, Nodes: mask.Of(0)},
			{ID: "nic-2", Healthy: true, Nodes: mask.Of(0, 1)},
		},
		"example.com/fuse": {{ID: "fuse", Healthy: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	state, err = state.WithDevices(inventory)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func podsAdmit(t *testing.T, state *node.State, path string) *node.State {
	t.Helper()
	sources, _, err := podspec.ReadFiles([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	gates := podspec.Gates{PodLevelResources: true, PodLevelManagers: true}
	for _, s := range sources {
		asked, err := podspec.Request(podspec.Default(s.Pod, gates), gates)
		if err != nil {
			t.Fatal(err)
		}
		plan := state.Plan(asked)
		if plan.Rejection != nil {
			t.Fatalf("%s: %v", asked.ID(), plan.Rejection)
		}
		if state, err = state.Apply(plan); err != nil {
			t.Fatal(err)
		}
	}
	return state
}
