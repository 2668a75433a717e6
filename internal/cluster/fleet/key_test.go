package fleet

import "testing"

// TestKeysOfOtherPodsDiffer checks that no text in a pod makes its key the one of a pod that gets
// other answers.
func TestKeysOfOtherPodsDiffer(t *testing.T) {
	pod := func(constraint string, limit PerNode) Pod {
		p := guaranteed("p", 2, gib)
		p.Constraint, p.PerNode = constraint, limit
		return p
	}
	read := pod("only", PerNode{})
	read.Readings = []Reading{{Ask: read.Ask, Asks: read.Asks}}
	reading := read.Asks.AppendKey(read.Ask.AppendKey(nil))
	keys := map[string]string{}
	for name, p := range map[string]Pod{
		"a constraint":                           pod("only", PerNode{}),
		"a limit":                                pod("only", PerNode{Workload: "w", Most: 1}),
		"a constraint like a limit":              pod("only/1/w", PerNode{}),
		"a workload like another limit":          pod("only", PerNode{Workload: "w/2/v", Most: 1}),
		"a limit behind a constraint like one":   pod("only/1/w", PerNode{Workload: "v", Most: 2}),
		"a reading":                              read,
		"a constraint like a reading":            pod(string(reading)+"only", PerNode{}),
		"a constraint like a reading and length": pod(string(reading)+"4 only", PerNode{}),
	} {
		if other, known := keys[p.Key()]; known {
			t.Errorf("pods with %s and with %s share their answers", name, other)
		}
		keys[p.Key()] = name
	}
}
