package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/discover"
	"github.com/paddock-project/paddock/internal/kubeletcfg"
	"github.com/paddock-project/paddock/internal/podres"
	"github.com/paddock-project/paddock/internal/podspec"
)

// TestPodsScripts runs testdata/pods. $SOCKET is of a server with the pods of
// testdata/pods/node.yaml, $EMPTY of one without pods, $BUSY of one that answers once, $OFFLINE of the
// first with CPUs 3-5 and 197 offline.
func TestPodsScripts(t *testing.T) {
	empty := podsNode(t)
	full := podsAdmit(t, empty, "testdata/pods/node.yaml")
	sockets := map[string]string{
		"SOCKET":  servePods(t, full, podres.Limit{}),
		"EMPTY":   servePods(t, empty, podres.Limit{}),
		"OFFLINE": servePods(t, withoutCPUs(t, full, cpuset.Of(3, 4, 5, 197)), podres.Limit{}),
		"BUSY":    servePods(t, full, podres.Limit{PerSecond: 1e-6, Burst: 1}),
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/pods",
		UpdateScripts: *rewrite,
		Setup: func(env *testscript.Env) error {
			for name, path := range sockets {
				env.Setenv(name, path)
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// withoutCPUs is a node of which CPUs went offline.
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

type still struct{ state *node.State }

func (s still) State() *node.State { return s.state }

// servePods serves until the test ends, and returns the path of the socket.
func servePods(t *testing.T, state *node.State, limit podres.Limit) string {
	t.Helper()
	server, err := podres.NewServer(still{state}, podres.Options{Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "socket")
	l, err := podres.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // The scripts outlive t's.
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

// podsNode is an example machine with devices and without pods.
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
		if plan.Refusal != nil {
			t.Fatalf("%s: %v", asked.ID(), plan.Refusal)
		}
		if state, err = state.Apply(plan); err != nil {
			t.Fatal(err)
		}
	}
	return state
}
