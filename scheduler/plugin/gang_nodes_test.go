package plugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// unbound fails if one of these pods is bound.
func (w *world) unbound(names []string) {
	w.t.Helper()
	all := w.all()
	for _, name := range names {
		if node := all[name].Spec.NodeName; node != "" {
			w.t.Errorf("pod %s is on %s", name, node)
		}
	}
}

// TestGangWhereKubeletDecides checks that a gang gets no more pods on a node than those for which
// every order of the kubelet's decisions is planned, and is bound as a whole with predictions.
func TestGangWhereKubeletDecides(t *testing.T) {
	w := gangs(t)
	w.node("n0", map[string]string{"numa": "1", "cpus": "16", "kubelet": ""})
	names := w.gang("train", 5, map[string]string{"cpus": "2"})
	if text := w.rejected(names); !strings.Contains(text, "its kubelet has not decided about the pods that are bound to it yet") {
		t.Error(text)
	}
	w.unbound(names)
	if s := w.state("n0"); s != "" {
		t.Errorf("the attempt left %s", s)
	}
	// With another node there is room for five pods.
	w.node("n1", map[string]string{"numa": "1", "cpus": "16", "kubelet": ""})
	nodes := w.bound(names)
	if here := slices.Index(nodes, "n1"); here < 1 || here > 4 {
		t.Errorf("the gang is on %v", nodes)
	}
	for _, name := range names {
		for text := ""; !strings.HasPrefix(text, name+": bound to "); {
			if text = w.outcome(name); strings.HasPrefix(text, name+": bound to ") && !strings.Contains(text, "predicted CPUs") {
				t.Error(text)
			}
		}
	}
	if s := w.state("n0") + w.state("n1"); strings.Count(s, "train-") != 5 {
		t.Error(s)
	}
}

// TestGangNeedsMoves checks that a gang whose nodes have to move running pods gets one pod on each of
// them, and nothing if there are fewer nodes than pods.
func TestGangNeedsMoves(t *testing.T) {
	w := gangs(t)
	all := []string{"n0", "n1", "n2"}
	for _, node := range all { // On NUMA node 1 there are 4 free CPUs, and the running pod can go to NUMA node 0.
		w.node(node, map[string]string{"moves": "2"})
		w.pod("old-"+node, map[string]string{"cpus": "4", "moves": "anywhere", "on": node, "hand": "8-11"})
	}
	w.pod("fixed", map[string]string{"cpus": "2", "on": "n2", "hand": "12-13"})
	names := w.gang("train", 3, map[string]string{"cpus": "8"})
	if text := w.rejected(names); !strings.Contains(text, movesForAnother) {
		t.Error(text)
	}
	w.unbound(names)
	for _, node := range all {
		if s := w.state(node); !strings.HasSuffix(s, "old-"+node+": CPUs 8-11\n") || strings.Contains(s, "train") {
			t.Errorf("%s: %s", node, s)
		}
		if w.plugin.movers.busy(node, "another") {
			t.Errorf("%s makes room for a gang that does not fit", node)
		}
	}
	w.delete("fixed")
	if nodes := w.bound(names); !slices.Equal(nodes, all) {
		t.Errorf("the gang is on %v", nodes)
	}
	for _, node := range all {
		if !w.plugin.movers.busy(node, "another") {
			t.Errorf("%s would move pods for another pod as well", node)
		}
	}
}

// TestPlacesAreTakenBack checks that the other places of a gang stay in their order, whichever is
// taken back.
func TestPlacesAreTakenBack(t *testing.T) {
	for taken, want := range map[types.UID]string{"c": "ba", "b": "ca", "a": "cb", "d": "cba"} {
		var last *placement
		for _, uid := range []types.UID{"a", "b", "c"} {
			last = &placement{uid: uid, older: last}
		}
		for p, expected := range map[*placement]string{last.without(taken): want, last: "cba"} {
			got := ""
			for one := range p.all() {
				got += fmt.Sprint(one.uid)
			}
			if got != expected {
				t.Errorf("without %s: %s, want %s", taken, got, expected)
			}
		}
	}
}
