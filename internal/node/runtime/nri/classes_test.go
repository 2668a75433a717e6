package nri

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// classGrant returns the grant of a pod whose container app has a class on cache 4, and whose
// container plain has none.
func classGrant(t *testing.T, caches machine.Caches) (*machine.Machine, *node.Grant) {
	t.Helper()
	d := machine.Description{Caches: caches, Nodes: []machine.NodeDescription{{Memory: 1 << 36}}}
	for cpu := range 8 {
		d.Nodes[0].Cores = append(d.Nodes[0].Cores, machine.CoreDescription{Threads: []int{cpu}, Uncore: cpu})
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	p := node.Policy{Topology: node.TopologyRestricted, StaticCPU: true, ReservedCPUs: cpuset.Of(0, 1, 2, 3)}
	p.CPU.DividesCaches = true
	s, err := node.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	pod := request.Pod{Identity: request.Identity{UID: "uid", Namespace: "prod", Name: "db"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
		{Name: "app", Type: request.App, CPUs: 1, Equivalent: true, Cache: request.Cache{Ways: 4}}, {Name: "plain", Type: request.App, CPUs: 1, Equivalent: true},
	}}}
	plan := s.Plan(pod)
	if plan.Rejection != nil {
		t.Fatal(plan.Rejection)
	}
	if s, err = s.Apply(plan); err != nil {
		t.Fatal(err)
	}
	g, _ := s.Grant("uid")
	if len(g.Containers[0].Cache) == 0 {
		t.Fatalf("the grant has no class: %+v", g.Containers[0])
	}
	return m, g
}

// TestClassInReply checks that a reply has only what no runtime can fail to carry out.
func TestClassInReply(t *testing.T) {
	plain := machine.Caches{Classes: 16, Ways: 12, LeastWays: 1}
	cdp := machine.Caches{Classes: 8, Ways: 12, LeastWays: 1, CodeAndData: true, AbsoluteBandwidth: true}
	alone := machine.Caches{Classes: 8, Ways: 12, LeastWays: 1, CodeAndData: true}
	yes, no := func(string) bool { return true }, func(string) bool { return false }
	for name, c := range map[string]struct {
		caches    machine.Caches
		classes   Classes
		container string
		want      string
	}{
		"without resctrl":                 {plain, Classes{}, "app", ""},
		"the default class":               {plain, Classes{Exists: yes, Schemata: true}, "plain", ""},
		"an ephemeral container":          {plain, Classes{Exists: yes, Schemata: true}, "debug", ""},
		"the group exists":                {plain, Classes{Exists: yes}, "app", "paddock-uid.app"},
		"and the runtime has schemata":    {plain, Classes{Exists: yes, Schemata: true}, "app", "paddock-uid.app"},
		"no group":                        {plain, Classes{Exists: no}, "app", ""},
		"no group, and the runtime can":   {plain, Classes{Exists: no, Schemata: true}, "app", "paddock-uid.app L3:4=f"},
		"code and data":                   {cdp, Classes{Exists: no, Schemata: true}, "app", "paddock-uid.app L3CODE:4=f L3DATA:4=f"},
		"code and data, and nothing else": {alone, Classes{Exists: yes, Schemata: true}, "app", ""},
	} {
		m, g := classGrant(t, c.caches)
		if got := rdtText(c.classes.rdt(m, g, c.container)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	m, g := classGrant(t, plain)
	left, err := m.Without(cpuset.Of(4))
	if err != nil {
		t.Fatal(err)
	}
	if got := rdtText(Classes{Exists: no, Schemata: true}.rdt(left, g, "app")); got != "" {
		t.Errorf("a cache that is offline: %q", got)
	}
	if got := (Classes{Exists: yes}).rdt(m, nil, "app"); got != nil {
		t.Errorf("a pod without a grant: %v", got)
	}
}

func rdtText(r *api.LinuxRdt) string {
	if r == nil {
		return ""
	}
	return strings.Join(append([]string{r.GetClosId().GetValue()}, r.GetSchemata().GetValue()...), " ")
}
