package collect

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var testKey = []byte(strings.Repeat("k", leastKey))

func hashOf(key []byte, name string) string {
	newNames(key).hash(&name)
	return name
}

// namedPod has a name in every field with names.
func namedPod() *v1.Pod {
	claim, template := "name-claim", "name-template"
	pod := &v1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "name-space", Name: "name-pod", UID: "u-1"}}
	pod.Annotations = map[string]string{"paddock-project.github.io/grant": "name-node", "kubernetes.io/config.hash": "u-1"}
	pod.Spec.NodeName = "name-node"
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "name-local", ResourceClaimName: &claim}, {Name: "name-other", ResourceClaimTemplateName: &template}}
	pod.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "name-local", Request: "name-request"}}}}}
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "name-local", ResourceClaimName: &claim}}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", Resources: &v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "name-local"}}}}}
	return pod
}

// With a key no name remains, and UIDs and containers do.
func TestNamesAreHashed(t *testing.T) {
	pod := namedPod()
	node := &v1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{
		Name: "name-node", Labels: map[string]string{v1.LabelHostname: "name-node", v1.LabelTopologyZone: "name-zone", v1.LabelInstanceTypeStable: "metal"},
	}}
	node.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "name-team", Effect: v1.TaintEffectNoSchedule}}
	text, notes := filtered(t, Filter{Key: testKey}, pod)
	other, _ := filtered(t, Filter{Key: testKey}, node)
	if all := text + other; strings.Contains(all, "name-") || !strings.Contains(all, `"main"`) || !strings.Contains(all, `"uid": "u-1"`) || !strings.Contains(all, `"metal"`) || len(notes) > 0 {
		t.Errorf("%v %s", notes, all)
	}
	if hash := hashOf(testKey, "name-node"); !strings.Contains(text, `"nodeName": "`+hash) || !strings.Contains(other, `"name": "`+hash) || !regexp.MustCompile(`^[0-9a-f]{10}$`).MatchString(hash) {
		t.Errorf("the node is %s in\n%s%s", hash, text, other)
	}
	if hashOf(testKey, "a") == hashOf(testKey[1:], "a") {
		t.Error("the hash does not depend on the key")
	}
}

// A message is kept if a kubelet wrote it at an admission, with the names in it replaced.
func TestMessagesAreHashed(t *testing.T) {
	for _, c := range []struct{ reason, message, want string }{
		{"TopologyAffinityError", "Resources cannot be allocated with Topology locality", "Resources cannot be allocated with Topology locality"},
		{"UnexpectedAdmissionError", "pod name-space/name-pod_name-space(u-1): claim name-claim.", "pod NS/POD_NS(u-1): claim CLAIM."},
		{"OutOfcpu", "name-pod.name-space.svc on name-node, name-local", "POD.NS.svc on NODE, LOCAL"},
		{"Evicted", "the volume name-claim of anybody", ""},
		{"", "anything", ""},
	} {
		pod := namedPod()
		pod.Status.Reason, pod.Status.Message = c.reason, c.message
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Reason: c.reason, Message: c.message}}
		text, _ := filtered(t, Filter{Key: testKey}, pod)
		var got v1.Pod
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		want := strings.NewReplacer("POD", hashOf(testKey, "name-pod"), "NS", hashOf(testKey, "name-space"), "CLAIM", hashOf(testKey, "name-claim"),
			"NODE", hashOf(testKey, "name-node"), "LOCAL", hashOf(testKey, "name-local")).Replace(c.want)
		if got.Status.Message != want || got.Status.Conditions[0].Message != want {
			t.Errorf("%s: %q, %q, want %q", c.message, got.Status.Message, got.Status.Conditions[0].Message, want)
		}
	}
}

func TestParseKey(t *testing.T) {
	if _, err := ParseKey("short"); err == nil || !strings.Contains(err.Error(), KeyVariable+" has 5 characters") {
		t.Error(err)
	}
	if key, err := ParseKey(strings.Repeat("0", 64)); err != nil || len(key) != 64 {
		t.Error(key, err)
	}
}
