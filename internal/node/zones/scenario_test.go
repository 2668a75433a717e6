package zones

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestScenarios plays the files in testdata, in the language of internal/testing/scenario. The
// command zones prints the content of the object, one line for each attribute, zone and resource.
// Amounts are available, allocatable and capacity.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(_ *testing.T, script golden.Script) {
		n := scenario.New(nil)
		script.Play(func(c scenario.Command) []string {
			if c.Name == "zones" {
				return strings.Split(strings.TrimSuffix(show(n.State()), "\n"), "\n")
			}
			return []string{n.Run(c)}
		})
	})
}

// listingOf returns a list in which the pods of the grants have begun.
func listingOf(grants []*node.Grant) *handover.Listing {
	l := &handover.Listing{}
	for _, g := range grants {
		l.Begun = append(l.Begun, handover.Name{Namespace: g.Pod.Namespace, Name: g.Pod.Name})
	}
	return l
}

func show(s *node.State) string {
	c := Of(s, listingOf(s.Grants()))
	var out strings.Builder
	for _, a := range c.Attributes {
		fmt.Fprintf(&out, "%s=%s\n", a.Name, a.Value)
	}
	for _, z := range c.Zones {
		fmt.Fprintf(&out, "%s %s", z.Type, z.Name)
		for _, a := range z.Attributes {
			fmt.Fprintf(&out, " %s=%s", a.Name, a.Value)
		}
		for _, cost := range z.Costs {
			fmt.Fprintf(&out, " %s:%d", cost.Name, cost.Value)
		}
		for _, r := range z.Resources {
			fmt.Fprintf(&out, "\n  %s %s %s %s", r.Name, r.Available, r.Allocatable, r.Capacity)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// TestFingerprint compares fingerprints with signatures computed by the library of the schedulers.
func TestFingerprint(t *testing.T) {
	for want, pods := range map[string][]string{
		"pfp0v001607b76a0e9d3aeb4": {"production/jaeger-dpgjk", "production/nginx-rt684", "production/envoy-g9m22"},
		"pfp0v001b92008c14168b3a6": {"ns1/n1", "ns1/n2", "ns2/n1", "ns3/n1", "ns3/n2"},
		"pfp0v001ef46db3751d8e999": nil,
	} {
		for range 2 { // In both orders.
			var named []handover.Name
			for i := range pods {
				pods[i], pods[len(pods)-1-i] = pods[len(pods)-1-i], pods[i]
			}
			for _, pod := range pods {
				namespace, name, _ := strings.Cut(pod, "/")
				named = append(named, handover.Name{Namespace: namespace, Name: name})
			}
			if got := fingerprint(named); got != want {
				t.Errorf("%v: %s, want %s", pods, got, want)
			}
		}
	}
}

// TestQuantities checks that a quantity that another writer wrote as a number can be read.
func TestQuantities(t *testing.T) {
	var r Resource
	if err := json.Unmarshal([]byte(`{"name": "cpu", "capacity": 4, "allocatable": "3", "available": "2500m"}`), &r); err != nil || r != (Resource{"cpu", "4", "3", "2500m"}) {
		t.Errorf("%+v, %v", r, err)
	}
}
