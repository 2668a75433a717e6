package podspec

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/request"
)

var (
	cpuTexts    = []string{"0", "250m", "1", "1000m", "1500m", "2", "1999.5m", "3", "4"}
	memoryTexts = []string{"0", "1Mi", "100m", "0.1Gi", "1.5Gi", "1Gi", "1.2Gi", "1024Mi", "2Gi"}
	pageTexts   = []string{"0", "2Mi", "4Mi", "6Mi", "4Gi"}
)

func drawList(t *rapid.T, label string, pages bool) v1.ResourceList {
	list := v1.ResourceList{}
	draw := func(name v1.ResourceName, texts []string) {
		if rapid.Bool().Draw(t, label+" has "+string(name)) {
			list[name] = resource.MustParse(rapid.SampledFrom(texts).Draw(t, label+" "+string(name)))
		}
	}
	draw(v1.ResourceCPU, cpuTexts)
	draw(v1.ResourceMemory, memoryTexts)
	if pages {
		draw("hugepages-2Mi", pageTexts)
	}
	return list
}

func drawResources(t *rapid.T, label string) v1.ResourceRequirements {
	r := v1.ResourceRequirements{
		Requests: drawList(t, label+" requests", false),
		Limits:   drawList(t, label+" limits", true),
	}
	if rapid.Bool().Draw(t, label+" only limits") {
		r.Requests = nil
	}
	return r
}

func drawContainers(t *rapid.T, label string, least, most int) []v1.Container {
	containers := make([]v1.Container, rapid.IntRange(least, most).Draw(t, label+"s"))
	for i := range containers {
		c := &containers[i]
		c.Name = fmt.Sprintf("%s%d", label, i)
		c.Resources = drawResources(t, c.Name)
		if label == "i" && rapid.Bool().Draw(t, c.Name+" sidecar") {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
	}
	return containers
}

func drawPod(t *rapid.T) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace, pod.UID = "p", "default", "u"
	pod.Spec.InitContainers = drawContainers(t, "i", 0, 3)
	pod.Spec.Containers = drawContainers(t, "c", 1, 3)
	if rapid.Bool().Draw(t, "pod level") {
		r := drawResources(t, "pod")
		pod.Spec.Resources = &r
	}
	return pod
}

func drawGates(t *rapid.T) Gates {
	return Gates{
		PodLevelResources: rapid.Bool().Draw(t, "PodLevelResources"),
		PodLevelManagers:  rapid.Bool().Draw(t, "PodLevelResourceManagers"),
	}
}

func TestDefaultTwiceIsOnceAndLeavesThePodAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod, g := drawPod(t), drawGates(t)
		before := pod.DeepCopy()
		once := Default(pod, g)
		if !equality.Semantic.DeepEqual(pod, before) {
			t.Fatalf("the pod was changed: %v, before %v", pod, before)
		}
		if twice := Default(once, g); !equality.Semantic.DeepEqual(once, twice) {
			t.Fatalf("once %v\ntwice %v", once.Spec, twice.Spec)
		}
	})
}

// drawPodLevel draws a Guaranteed pod whose limits are the sums of its containers, or sometimes
// less or more.
func drawPodLevel(t *rapid.T) *v1.Pod {
	pod := drawPod(t)
	pod.Spec.Resources = nil
	forEachContainer(pod, func(c *v1.Container, _ request.ContainerType) {
		if rapid.Bool().Draw(t, c.Name+" whole") {
			c.Resources = v1.ResourceRequirements{Limits: v1.ResourceList{
				"cpu": resource.MustParse("2"), "memory": resource.MustParse(rapid.SampledFrom([]string{"1Gi", "0.1Gi", "1.2Gi"}).Draw(t, c.Name+" bytes")),
				"hugepages-2Mi": resource.MustParse("4Mi"),
			}}
		}
	})
	limits := v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("64Mi")}
	containers := Default(pod, Gates{})
	raiseTo(limits, aggregate(containers, requestsOf))
	for i := range containers.Spec.Containers {
		raiseTo(limits, containers.Spec.Containers[i].Resources.Limits)
	}
	more := rapid.SampledFrom([]string{"0", "0", "1", "-1"}).Draw(t, "spare cpu")
	addTo(limits, v1.ResourceCPU, resource.MustParse(more))
	pod.Spec.Resources = &v1.ResourceRequirements{Limits: limits, Requests: limits.DeepCopy()}
	return pod
}

// The budget of a pod that the API accepts is large enough for everything that its containers have
// exclusively (R-DEM-97).
func TestBudgetOfAValidPodFitsItsContainers(t *testing.T) {
	g := Gates{PodLevelResources: true, PodLevelManagers: true}
	valid, rejected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pod := Default(drawPodLevel(t), g)
		r, err := Request(pod, g)
		if err != nil {
			if len(Validate(pod, g)) == 0 {
				t.Fatalf("a valid pod has no request: %v", err)
			}
			return
		}
		fits := fitsItsContainers(r)
		if len(Validate(pod, g)) > 0 {
			rejected++
			return
		}
		if r.QoS != request.Guaranteed {
			return // the pod has no cpu left at all
		}
		valid++
		if !fits {
			t.Fatalf("the containers have more than the pod: %s", r)
		}
	})
	if valid == 0 || rejected == 0 {
		t.Errorf("%d valid pods and %d refused ones say nothing", valid, rejected)
	}
}

// fitsItsContainers reports whether the budget is sufficient at any time: while the apps and the
// sidecars run, and while an init container runs beside the sidecars before it.
func fitsItsContainers(r request.Pod) bool {
	most := func(of func(request.Container) int64) int64 {
		var sidecars, apps, worst int64
		for _, c := range r.Containers {
			switch c.Type {
			case request.Init:
				worst = max(worst, sidecars+of(c))
			case request.Sidecar:
				sidecars += of(c)
			case request.App:
				apps += of(c)
			}
		}
		return max(worst, sidecars+apps)
	}
	fits := most(func(c request.Container) int64 { return int64(c.CPUs) * 1000 }) <= r.BudgetCPUMilli
	for _, name := range []request.Resource{"memory", "hugepages-2Mi"} {
		budget, _ := r.BudgetMemory.Get(name)
		fits = fits && most(func(c request.Container) int64 { v, _ := c.Memory.Get(name); return v }) <= budget
	}
	return fits
}

// The request has the containers of the spec in order. Each container either has CPUs or a reason
// why not. The result is the same each time.
func TestRequestAccountsForEveryContainer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod, g := drawPod(t), drawGates(t)
		before := pod.DeepCopy()
		r, err := Request(pod, g)
		again, errAgain := Request(pod, g)
		if fmt.Sprint(r, err) != fmt.Sprint(again, errAgain) {
			t.Fatalf("first %s %v, then %s %v", r, err, again, errAgain)
		}
		if !equality.Semantic.DeepEqual(pod, before) {
			t.Fatalf("the pod was changed: %v, before %v", pod, before)
		}
		if err != nil {
			return
		}
		all := append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
		if len(r.Containers) != len(all) {
			t.Fatalf("%d containers of %d: %s", len(r.Containers), len(all), r)
		}
		for i, c := range r.Containers {
			acted := c.Sharing == request.NotShared
			if c.Name != all[i].Name || acted != (c.CPUs > 0 && r.Kind != request.Unmanaged) {
				t.Fatalf("container %d, %s of the spec: %s", i, all[i].Name, c)
			}
			if r.QoS != request.Guaranteed && (c.CPUs > 0 || len(c.Memory) > 0) {
				t.Fatalf("%s has something for itself in a pod that is %s", c, r.QoS)
			}
		}
	})
}

// The Kubernetes client library aggregates containers in the same way.
func TestAggregateIsThatOfKubernetes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t)
		opts := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
		if got, want := aggregate(pod, requestsOf), resourcehelper.AggregateContainerRequests(pod, opts); !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("requests %v, Kubernetes has %v", got, want)
		}
		if got, want := aggregate(pod, limitsOf), resourcehelper.AggregateContainerLimits(pod, opts); !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("limits %v, Kubernetes has %v", got, want)
		}
		if got, want := HasPodLevelResources(pod), resourcehelper.IsPodLevelResourcesSet(pod); got != want {
			t.Fatalf("HasPodLevelResources is %v, Kubernetes says %v", got, want)
		}
	})
}

func TestConsent(t *testing.T) {
	pod := &v1.Pod{}
	if got, err := Consent(pod); got != request.NoMoves || err != nil {
		t.Errorf("a pod without the annotation consents to %s, %v", got, err)
	}
	for text, want := range map[string]request.Consent{"none": request.NeverMoves, "within-numa": request.MoveCPUs, "anywhere": request.MoveMemory} {
		pod.Annotations = map[string]string{MovesAnnotation: text}
		if got, err := Consent(pod); got != want || err != nil {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "all", "Anywhere"} {
		pod.Annotations = map[string]string{MovesAnnotation: text}
		if got, err := Consent(pod); got != request.NeverMoves || err == nil {
			t.Errorf("%q is %s without an error", text, got)
		}
	}
	pod.Labels, pod.Annotations = map[string]string{KubeVirtLabel: VirtLauncher}, map[string]string{MovesAnnotation: "anywhere"}
	if got, err := Consent(pod); got != request.NeverMoves || err != nil {
		t.Errorf("a virtual machine consents to %s, %v", got, err)
	}
}

func TestUIDFollowsFromContent(t *testing.T) {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name = "default", "a"
	first := UID(pod)
	if again := UID(pod.DeepCopy()); again != first {
		t.Errorf("the same pod has UIDs %s and %s", first, again)
	}
	other := pod.DeepCopy()
	other.Spec.Containers = []v1.Container{{Name: "c"}}
	if UID(other) == first {
		t.Errorf("another spec has the same UID %s", first)
	}
	for uid, want := range map[string]bool{first: true, "given": false, "3e2a1d5e-0000-4000-8000-000000000001": false} {
		if Derived(uid) != want {
			t.Errorf("UID %s is derived: %v, want %v", uid, !want, want)
		}
	}
	pod.UID = "given"
	if got := UID(pod); got != "given" {
		t.Errorf("metadata.uid given became %s", got)
	}
	for _, annotations := range []map[string]string{
		{"kubernetes.io/config.mirror": "static"},
		{"kubernetes.io/config.mirror": "static", "kubernetes.io/config.hash": "static"},
	} {
		pod.Annotations = annotations
		if got := UID(pod); got != "static" {
			t.Errorf("a mirror pod with %v has UID %s, want that of its static pod", annotations, got)
		}
	}
	if pod.Annotations = map[string]string{"kubernetes.io/config.hash": "static"}; UID(pod) != "given" {
		t.Error("a pod that is no mirror has not its own UID")
	}
}

// A quantity that a program made has not passed the checks of the parser.
func TestQuantityFromAProgramCannotStallTheCalculation(t *testing.T) {
	huge := resource.NewScaledQuantity(1, 2_000_000_000)
	pod := &v1.Pod{}
	pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Limits: v1.ResourceList{"cpu": *huge, "memory": resource.MustParse("1Gi")},
	}}}
	g := Gates{PodLevelResources: true}
	if _, err := Request(Default(pod, g), g); err == nil {
		t.Error("it was calculated with")
	}
	if errs := Validate(pod, g); len(errs) == 0 {
		t.Error("it was found valid")
	}
}

// TestWhomToSpare checks that the values that decide which pod to spare first come from the object.
func TestWhomToSpare(t *testing.T) {
	priority := int32(-5)
	pod := &v1.Pod{Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "c"}}}}
	pod.CreationTimestamp.Time = time.Unix(1_700_000_000, 0)
	got, err := Request(pod, Gates{})
	if err != nil || got.Priority != -5 || got.Created != 1_700_000_000 {
		t.Errorf("priority %d, created %d, error %v", got.Priority, got.Created, err)
	}
	if got, err = Request(&v1.Pod{}, Gates{}); err != nil || got.Priority != 0 || got.Created != 0 {
		t.Errorf("of a pod without either: priority %d, created %d, error %v", got.Priority, got.Created, err)
	}
}

// a kubelet reads the budget of a pod-level pod, the containers of such a pod that have their
// own memory, and every container of a plain pod. Without MarkFractions nothing is marked.
func TestFractionsAreMarkedForAKubelet(t *testing.T) {
	own := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("0.1Gi")}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{
		{Name: "own", Resources: v1.ResourceRequirements{Requests: own, Limits: own}},
		{Name: "shares", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("100m")}}},
		{Name: "whole", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}},
	}}}
	marks := func(g Gates) string {
		asked, err := Request(pod, g)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(asked.FractionalMemory)
		for _, c := range asked.Containers {
			text += fmt.Sprint(" ", c.FractionalMemory)
		}
		return text
	}
	gates := Gates{PodLevelResources: true, PodLevelManagers: true, MarkFractions: true}
	if got := marks(gates); got != "false true true false" {
		t.Errorf("plain: got %s", got)
	}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("2.0000001Gi")}}
	if got := marks(gates); got != "true true false false" {
		t.Errorf("pod-level: got %s", got)
	}
	gates.MarkFractions = false
	if got := marks(gates); got != "false false false false" {
		t.Errorf("without the mark: got %s", got)
	}
}
