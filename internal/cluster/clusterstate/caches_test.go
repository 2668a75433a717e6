package clusterstate_test

import (
	"testing"

	corenode "github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/classtest"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
)

// TestCaches checks that pods that differ only in what they ask of the caches are not the same to a
// cluster, and that a node divides its caches among them as its agent would.
func TestCaches(t *testing.T) {
	s, err := corenode.New(classtest.Machine(t), classtest.Policy())
	if err != nil {
		t.Fatal(err)
	}
	k := clustertest.Of(t, s, 16)
	c := newCluster(k)
	setNode(c, k, "n")
	for _, p := range []struct {
		name        string
		annotations map[string]string
	}{
		{"nothing", nil},
		{"ways", map[string]string{"cache.paddock-project.github.io/main": "l3=4ways,mb=20%"}},
		{"more", map[string]string{"cache.paddock-project.github.io/main": "l3=5ways"}},
		{"unclear", map[string]string{"cache.paddock-project.github.io/other": "l3=5ways"}},
		{"other", map[string]string{"example.com/note": "x"}},
	} {
		pod := clustertest.Pod(p.name, "n", "2")
		pod.Annotations = p.annotations
		if err := c.SetPod("default/"+p.name, pod); err != nil {
			t.Fatal(err)
		}
	}
	n := c.Moment().Nodes[0]
	got := map[string]string{}
	for g := range n.State.AllGrants() {
		got[g.Pod.Name] = g.Containers[0].Cache.String()
	}
	for name, want := range map[string]string{
		"nothing": "none", "other": "none", "ways": "L3 0: ways 0-3, 20% of the memory bandwidth", "more": "L3 0: ways 4-8", "unclear": "",
	} {
		if got[name] != want {
			t.Errorf("pod %s has %q of the caches, want %q; all: %v", name, got[name], want, got)
		}
	}
}
