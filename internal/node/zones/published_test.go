package zones

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// published is an element of testdata/published.json. The module test/noderesourcetopology gives
// these objects to NodeResourceTopologyMatch, and compares the verdicts with the planner's. It
// cannot import this package, because the plugin is compiled with an older Kubernetes.
type published struct {
	Node string `json:"node"`
	// Begun are the pods whose fingerprint the object has.
	Begun  []string `json:"begun"`
	Object Object   `json:"object"`
	Asked  []asked  `json:"asked"`
}

type asked struct {
	Pod v1.Pod `json:"pod"`
	// Planner is "admitted", or the class of the rejection.
	Planner string `json:"planner"`
}

// TestPublished writes what is published of several machines, and the planner's answers about pods.
func TestPublished(t *testing.T) {
	const twoNodes = "machine sockets=2 cores=4 memory=8Gi\n\n"
	const farIDs = "machine\nnode 0 cores=0-3 memory=8Gi distances=10,40\nnode 8 socket=8 cores=4-7 memory=8Gi distances=40,10\n\n"
	const noZero = "machine\nnode 1 cores=0-3 memory=8Gi distances=10,21\nnode 2 cores=4-7 memory=8Gi distances=21,10\n\n"
	const config = "config topology=single-numa-node cpu=static memory=Static scope="
	const first = "\n\npod first cpu=3 memory=2Gi\napp main cpu=3 memory=2Gi\n\nadmit first\n"
	var all []published
	for _, c := range []struct{ name, script string }{
		{"ids-0-1-pod", twoNodes + config + "pod" + first},
		{"ids-0-1-container", twoNodes + config + "container" + first},
		{"ids-0-8-pod", farIDs + config + "pod" + first},
		{"ids-0-8-container", farIDs + config + "container" + first},
		{"ids-1-2-pod", noZero + config + "pod" + first},
	} {
		all = append(all, publishedOf(t, c.name, c.script))
	}
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/published.json", string(data)+"\n")
}

// publishedOf plays a script, and asks the planner about each pod of candidates.
func publishedOf(t *testing.T, name, script string) published {
	t.Helper()
	n := scenario.New(nil)
	blocks, err := scenario.Parse(name, script)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if answer := n.Run(b.Command); strings.HasPrefix(answer, "error") || strings.HasPrefix(answer, "rejected") {
			t.Fatal(answer)
		}
	}
	begun := listingOf(n.State().Grants()).Begun
	begun = append(begun, named("kube-system", "proxy-"+name), named("default", "has-ended"))
	p := published{Node: name, Object: Object{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Content: Of(n.State(), &handover.Listing{Begun: begun}),
	}}
	for _, pod := range begun {
		p.Begun = append(p.Begun, pod.Namespace+"/"+pod.Name)
	}
	gates := podspec.GatesOf(n.State().Policy())
	for _, pod := range candidates() {
		request, err := podspec.Request(podspec.Default(&pod, gates), gates)
		if err != nil {
			t.Fatal(err)
		}
		pod.Status.QOSClass = v1.PodQOSClass(request.QoS.String()) // The API server sets it.
		answer := "admitted"
		if rejected := n.State().Plan(request).Rejection; rejected != nil {
			answer = rejected.Error()
		}
		p.Asked = append(p.Asked, asked{pod, answer})
	}
	return p
}

// candidates returns pods with every form of requests.
func candidates() []v1.Pod {
	amounts := func(cpu, memory string) v1.ResourceRequirements {
		list := v1.ResourceList{v1.ResourceCPU: quantity.MustParse(cpu), v1.ResourceMemory: quantity.MustParse(memory)}
		return v1.ResourceRequirements{Requests: list, Limits: list}
	}
	none := v1.ResourceRequirements{}
	pod := func(name string, budget *v1.ResourceRequirements, containers ...v1.ResourceRequirements) v1.Pod {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: v1.PodSpec{Resources: budget}}
		for i, c := range containers {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "c" + string(rune('0'+i)), Resources: c})
		}
		return p
	}
	budget := amounts("2", "1Gi")
	return []v1.Pod{
		pod("small", nil, amounts("2", "1Gi")),
		pod("whole-numa-node", nil, amounts("4", "4Gi")),
		pod("too-large", nil, amounts("5", "1Gi")),
		pod("one-on-each", nil, amounts("3", "1Gi"), amounts("1", "1Gi")),
		pod("one-without-requests", nil, amounts("2", "1Gi"), none),
		pod("without-requests", nil, none),
		pod("budget-alone", &budget, none),
		pod("budget-and-container", &budget, amounts("1", "512Mi"), none),
	}
}
