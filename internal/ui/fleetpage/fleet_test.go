package fleetpage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
	"github.com/paddock-project/paddock/internal/ui/view"
)

const gib = 1 << 30

// fleetOf returns a fleet of n nodes. Each has two NUMA nodes with 8 CPUs each, one of them
// reserved. Every third node has a pod of 2 to 8 CPUs.
func fleetOf(t *testing.T, n int) *fleetpage.Fleet {
	t.Helper()
	m := scenario.Machine("sockets=2 cores=8 uncore=8 memory=32Gi")
	s, err := node.New(m, node.Policy{Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), PodLevelResources: true, PodLevelManagers: true})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []fleet.Node
	for i := range n {
		nodes = append(nodes, fleet.Node{Name: fmt.Sprintf("node-%04d", i+1), Kind: "node", State: s, Allocatable: fleet.Amounts{Milli: 15000, Memory: 64 * gib, Pods: 110}})
	}
	f, err := fleet.New(fleet.NewRanking(fleet.LeastStranded, nil), nodes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n / 3 {
		if _, err := f.Place(nodes[3*i].Name, pod(fmt.Sprint("team-a/p-", i), 2+2*(i%4))); err != nil {
			t.Fatal(err)
		}
	}
	return &fleetpage.Fleet{
		Title: "Fleet test", Views: f.Views(), Zones: map[string]string{"node": "zone-1"}, Rejected: []fleetpage.Rejected{{Pod: "team-a/too-large", Reason: "TopologyAffinityError (cpu)"}},
		Answer: view.Fleet{Question: "fit", Nodes: n, Kinds: []view.FleetKind{{Kind: "node", Nodes: n, Policy: "single-numa-node"}}, Causes: []view.FleetCause{{
			Reason: "TopologyAffinityError (cpu)", Pods: view.FleetCausePods{Rejected: 1}, Nodes: n, Example: "team-a/too-large", Node: "node-0001", Detail: "9 CPUs wanted", Remedy: "ask for 8",
		}}},
		Read: func(_ context.Context, text []byte) ([]fleet.Pod, []string, error) {
			cpus, err := strconv.Atoi(string(text))
			if err != nil {
				return nil, nil, errors.New(string(text) + " is no number")
			}
			return []fleet.Pod{pod("team-b/asked", cpus)}, nil, nil
		},
	}
}

// pod returns a pod of one container with that many exclusive CPUs.
func pod(id string, cpus int) fleet.Pod {
	namespace, name, _ := strings.Cut(id, "/")
	milli := int64(cpus) * 1000
	return fleet.Pod{Pod: request.Pod{Identity: request.Identity{UID: id, Namespace: namespace, Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
		Name: "c", Type: request.App, CPUs: cpus, Memory: request.Amounts{{Resource: request.Memory, Value: gib}}, Equivalent: true, CPURequest: milli, CPULimit: milli,
	}}}}, Asks: fleet.Amounts{Milli: milli, Memory: gib, Pods: 1}}
}

// ask sends a request to the page and returns the status code and the JSON answer.
func ask(t *testing.T, f *fleetpage.Fleet, method, path, body string) (code int, answer map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	fleetpage.New(fleetpage.Static{Fleet: f}, clock).Handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	if w.Header().Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
		}
	}
	return w.Code, answer
}

// TestPlaceChangesNothing checks that several pods are placed one after the other and that the
// fleet stays as it was.
func TestPlaceChangesNothing(t *testing.T) {
	f := fleetOf(t, 3)
	one := f.Read
	f.Read = func(ctx context.Context, text []byte) ([]fleet.Pod, []string, error) {
		pods, notes, err := one(ctx, text)
		for len(pods) > 0 && len(pods) < 30 {
			next := pods[0]
			next.UID += fmt.Sprint(len(pods))
			next.Name += fmt.Sprint(len(pods))
			pods = append(pods, next)
		}
		return pods, notes, err
	}
	for range 2 {
		code, answer := ask(t, f, "POST", "/api/place", "7")
		pods, _ := answer["pods"].([]any)
		if code != http.StatusOK || len(pods) != 20 {
			t.Fatalf("%d %v", code, answer)
		}
		placed := 0
		for _, p := range pods {
			if answer, ok := p.(map[string]any); ok && answer["node"] != "" {
				placed++
			}
		}
		if placed != 5 { // 7 and 7 on two nodes. One NUMA node has a pod of 2 CPUs.
			t.Errorf("%d pods of 7 CPUs are placed, want 5", placed)
		}
		if notes := fmt.Sprint(answer["notes"]); !strings.Contains(notes, "30 pods were pasted") {
			t.Errorf("notes %s", notes)
		}
	}
}

// TestBadQuestions checks that bad input gets an answer that describes the fault, and never causes
// a panic.
func TestBadQuestions(t *testing.T) {
	f := fleetOf(t, 3)
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/api/place", "x", http.StatusBadRequest, "x is no number"},
		{"POST", "/api/place", strings.Repeat("x", 1<<20+1), http.StatusRequestEntityTooLarge, "larger than 1 MiB"},
		{"GET", "/api/place", "", http.StatusMethodNotAllowed, ""},
		{"GET", "/api/nodes/none", "", http.StatusNotFound, "no such node in the fleet: none"},
		{"GET", "/api/nodes/none/map.svg", "", http.StatusNotFound, "no such node in the fleet: none"},
		{"GET", "/api/nodes/node-0001/map.svg?width=wide", "", http.StatusBadRequest, `width: "wide" is unknown: expected narrow, medium, or nothing`},
		{"GET", "/api/nodes/..%2f..%2fetc", "", http.StatusNotFound, "no such node"},
		{"GET", "/none", "", http.StatusNotFound, ""},
	} {
		code, answer := ask(t, f, c.method, c.path, c.body)
		if why, _ := answer["error"].(string); code != c.code || !strings.Contains(why, c.want) {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, code, why, c.code, c.want)
		}
	}
}
