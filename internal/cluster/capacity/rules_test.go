package capacity

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// wants implements rules for tests, by the name of a pod up to "-": "after-X" may run only on a
// node with a pod X, and "lone" only on a node without another "lone".
type wants map[string][]string // the pods of nodes

func (w wants) For(pod *fleet.Pod) (fleet.Rule, error) {
	if !strings.HasPrefix(pod.Name, "after") && !strings.HasPrefix(pod.Name, "lone") {
		return nil, nil
	}
	return &want{w, pod.Name}, nil
}

func (w wants) Placed(pod *fleet.Pod, n *fleet.Node) error {
	w[n.Name] = append(w[n.Name], pod.Name)
	return nil
}

func (w wants) has(node, prefix string) bool {
	return slices.ContainsFunc(w[node], func(pod string) bool { return strings.HasPrefix(pod, prefix) })
}

type want struct {
	wants
	pod string
}

func (w *want) Bars(n *fleet.Node) (string, error) {
	name, after := strings.CutPrefix(w.pod, "after-")
	switch {
	case after && !w.has(n.Name, strings.TrimRight(name, "-0123456789")):
		return "not beside what it follows", nil
	case !after && w.has(n.Name, "lone"):
		return "not lone", nil
	}
	return "", nil
}

func (w *want) Explain(n *fleet.Node) (detail, remedy string) { return "it is about " + n.Name, "wait" }

func obeying(o Options) Options {
	o.Rules = func([]fleet.Node) (fleet.Rules, error) { return wants{}, nil }
	return o
}

// TestPodsWaitForOthers checks that a pod that a rule bars from every node is tried again after the
// others, in the order of the question. If the rule bars it to the end, the rule is the cause.
func TestPodsWaitForOthers(t *testing.T) {
	items := []Item{item("after-b", 1, 1), item("after-d", 1, 1), item("lone", 1, 3), item("b", 1, 1), item("after-c", 1, 1), item("large", 8, 1)}
	r, err := Fit(t.Context(), []Kind{kind(t, 2)}, items, obeying(Options{Placements: true}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range r.Placements {
		got = append(got, strings.TrimPrefix(p.Pod, "default/")+" "+p.Node+p.Reason)
	}
	want := []string{
		"after-b n-1", "after-d not beside what it follows", "lone-1 n-1", "lone-2 n-2", "lone-3 not lone", "b n-1",
		"after-c not beside what it follows", "large n-2",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var causes []Cause
	for _, c := range r.Causes {
		causes = append(causes, Cause{Nearest: c.Nearest, Pods: c.Pods, Nodes: c.Nodes, Detail: c.Detail, Remedy: c.Remedy})
	}
	wanted := []Cause{
		{Nearest: fleet.Why{Rule: "not beside what it follows"}, Pods: 2, Nodes: 2, Detail: "it is about n-1", Remedy: "wait"},
		{Nearest: fleet.Why{Rule: "not lone"}, Pods: 1, Nodes: 2, Detail: "it is about n-1", Remedy: "wait"},
	}
	if d := cmp.Diff(wanted, causes, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if r.Asked != 8 || r.Placed != 5 || r.Rejected != 3 {
		t.Errorf("%d asked, %d placed, %d rejected", r.Asked, r.Placed, r.Rejected)
	}
}

// TestFillWaits checks that a shape that a rule bars is drawn again after other pods are placed.
func TestFillWaits(t *testing.T) {
	items := []Item{item("after-a", 1, 1000), item("a", 7, 1), item("lone", 1, 10)}
	r, err := Fill(t.Context(), []Kind{kind(t, 2)}, items, 0, 1, obeying(Options{Placements: true}))
	if err != nil {
		t.Fatal(err)
	}
	followed, rejected := 0, 0
	for _, p := range r.Placements {
		switch {
		case p.Node == "":
			rejected++
		case strings.HasPrefix(p.Pod, "default/after-a"):
			followed++
		}
	}
	if r.Rejected < 3 || int64(rejected) != r.Rejected || r.Asked != r.Placed+r.Rejected || int(r.Asked) != len(r.Placements) || followed == 0 {
		t.Errorf("%d asked, %d placed, %d rejected; %d that follow others", r.Asked, r.Placed, r.Rejected, followed)
	}
	limited, err := Fill(t.Context(), []Kind{kind(t, 2)}, items, 4, 1, obeying(Options{}))
	if err != nil || limited.Placed != 4 {
		t.Errorf("with a limit: %+v, %v", limited, err)
	}
}

// TestSizeObeysRules checks that nodes are added until the rules are met. Whether a pod fits on a
// single node is checked without rules.
func TestSizeObeysRules(t *testing.T) {
	r, err := Size(t.Context(), kind(t, 1), []Item{item("lone", 1, 5), item("after-lone", 1, 2)}, 100, obeying(Options{}))
	if err != nil || r.Nodes != 5 || r.Placed != 7 {
		t.Errorf("%+v, %v; want 5 nodes", r, err)
	}
}
