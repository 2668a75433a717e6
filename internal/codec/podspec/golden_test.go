package podspec

import (
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

// golden is the part of a scenario, and of the reference's answer to it, that the test needs.
type golden struct {
	Scenario struct {
		Name          string
		KubeletConfig struct{ FeatureGates map[string]bool }
		Pods          []v1.Pod
		Events        []struct {
			Pod          string
			FeatureGates map[string]bool
		}
	}
	Result struct {
		Events []struct{ QoS string }
	}
}

func (g *Gates) apply(byName map[string]bool) {
	if on, ok := byName["PodLevelResources"]; ok {
		g.PodLevelResources = on
	}
	if on, ok := byName["PodLevelResourceManagers"]; ok {
		g.PodLevelManagers = on
	}
}

// Every pod of the golden scenarios has the QoS class that the reference gave it. All of these pods
// are valid and already have their defaults.
func TestQoSIsThatOfTheReference(t *testing.T) {
	paths, err := filepath.Glob("../../../testdata/golden/*.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, path := range paths {
		for line := range recording.Values[golden](t, path) {
			g := Gates{PodLevelResources: true} // the defaults of the reference
			g.apply(line.Scenario.KubeletConfig.FeatureGates)
			pods := map[string]*v1.Pod{}
			for i := range line.Scenario.Pods {
				pod := &line.Scenario.Pods[i]
				pods[pod.Name] = pod
				if got := Default(pod, g); !equality.Semantic.DeepEqual(got, pod) {
					t.Errorf("%s: pod %s has all defaults, and yet became %v", line.Scenario.Name, pod.Name, got.Spec)
				}
				if errs := Validate(pod, g); len(errs) > 0 {
					t.Errorf("%s: pod %s was accepted, and is found to be wrong: %v", line.Scenario.Name, pod.Name, errs.ToAggregate())
				}
			}
			for i, result := range line.Result.Events {
				event := line.Scenario.Events[i]
				g.apply(event.FeatureGates)
				if result.QoS == "" {
					continue
				}
				compared++
				r, err := Request(pods[event.Pod], g)
				if err != nil || r.QoS.String() != result.QoS {
					t.Errorf("%s, event %d, pod %s: %s, %v; the reference has %s",
						line.Scenario.Name, i, event.Pod, r.QoS, err, result.QoS)
				}
			}
		}
	}
	if compared < 1000 {
		t.Errorf("only %d pods were compared", compared)
	}
	t.Logf("%d pods compared", compared)
}
