package podspec

import (
	"path/filepath"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

// Every pod of the golden scenarios asks for the same after Slim.
func TestSlimAsksForTheSame(t *testing.T) {
	paths, err := filepath.Glob("../../../testdata/golden/*.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, path := range paths {
		for line := range recording.Values[golden](t, path) {
			g := Gates{PodLevelResources: true}
			g.apply(line.Scenario.KubeletConfig.FeatureGates)
			for i := range line.Scenario.Pods {
				pod := &line.Scenario.Pods[i]
				pod.Labels, pod.Annotations = map[string]string{"a": "b"}, map[string]string{MovesAnnotation: "cpus", "large": "text"}
				slim := Slim(pod)
				want, wantErr := Request(pod, g)
				got, gotErr := Request(slim, g)
				if !reflect.DeepEqual(got, want) || (gotErr == nil) != (wantErr == nil) || len(Validate(slim, g)) != len(Validate(pod, g)) {
					t.Errorf("%s: pod %s asks for %v, slim for %v", line.Scenario.Name, pod.Name, want, got)
				}
				compared++
			}
		}
	}
	if compared < 1000 {
		t.Errorf("%d pods were compared", compared)
	}
}

// Slim removes the parts that do not influence decisions.
func TestSlimLosesTheRest(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		Volumes: []v1.Volume{{Name: "v"}}, Containers: []v1.Container{{Name: "c", Image: "i", Env: []v1.EnvVar{{Name: "x"}}, Command: []string{"y"}}},
	}, Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady}}, ContainerStatuses: []v1.ContainerStatus{{Name: "c"}}}}
	pod.Annotations = map[string]string{"large": "text", "kubernetes.io/config.hash": "h"}
	slim := Slim(pod)
	c := slim.Spec.Containers[0]
	if len(slim.Spec.Volumes)+len(c.Env)+len(c.Command)+len(slim.Status.Conditions)+len(slim.Status.ContainerStatuses) > 0 || len(slim.Annotations) != 1 || slim.UID == "" {
		t.Errorf("%+v", slim)
	}
}

func TestCheckAmounts(t *testing.T) {
	for text, ok := range map[string]bool{"0": true, "4": true, "1500m": true, "64Gi": true, "-1": false, "1e18": false, "9223372036854775807": false} {
		if err := CheckAmounts(v1.ResourceList{v1.ResourceCPU: resource.MustParse(text)}); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSlimDropsPredictions checks that the prediction of a scheduler, which decides nothing, is not
// kept.
func TestSlimDropsPredictions(t *testing.T) {
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{PredictionAnnotation: "{}", MovesAnnotation: "anywhere", "note": "x"}
	if kept := Slim(pod).Annotations; len(kept) != 1 || kept[MovesAnnotation] != "anywhere" {
		t.Errorf("kept: %v", kept)
	}
}
