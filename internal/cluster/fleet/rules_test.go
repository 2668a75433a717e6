package fleet

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// apart implements rules for tests: pods of one size must be on different nodes. It records where
// they were placed.
type apart map[string]bool

func (a apart) key(pod *Pod, n *Node) string { return fmt.Sprint(pod.Asks.Milli, n.Name) }

func (a apart) For(pod *Pod) (Rule, error) { return &size{a, *pod, len(a)}, nil }

func (a apart) Placed(pod *Pod, n *Node) error {
	a[a.key(pod, n)] = true
	return nil
}

// size is the rule for a pod. Each placement makes a new one.
type size struct {
	apart
	pod    Pod
	placed int
}

func (s *size) Bars(n *Node) (string, error) {
	if s.apart[s.key(&s.pod, n)] {
		return "apart", nil
	}
	return "", nil
}

func (s *size) Explain(*Node) (detail, remedy string) { return "", "" }

func barsFrom(f *Fleet, pod Pod, n *Node) bool {
	rules, obeys := f.rules.(apart)
	return obeys && rules[rules.key(&pod, n)]
}

// checkCounts checks that every node has one reason, and that the reason is the rule exactly for
// nodes that would otherwise take the pod.
func checkCounts(t *rapid.T, f *Fleet, pod Pod, why []Count) {
	want, got, nodes := 0, 0, 0
	for _, m := range f.members {
		amounts := m.Allocatable.Short(m.Used, pod.Asks) == ""
		if allowed := pod.Allowed == nil || pod.Allowed(&m.Node); allowed && amounts && m.Ask(&pod).Fits {
			want++
		}
	}
	for _, c := range why {
		nodes += c.Nodes
		if c.Rule != "" {
			got += c.Nodes
		}
		if !slices.ContainsFunc(f.members, func(m *View) bool { return m.Name == c.First }) {
			t.Fatalf("the first node of %+v is unknown", c)
		}
	}
	if got != want || nodes != len(f.members) {
		t.Fatalf("pod %s: %+v; %d of %d nodes would take it but for a rule", pod.ID(), why, want, len(f.members))
	}
}
