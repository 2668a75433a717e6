package predict_test

import (
	"fmt"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/core/spec"
	"github.com/paddock-project/paddock/predict"
)

// amounts draws amounts as both forms have them.
func amounts(t *rapid.T, label string, huge bool) (v1.ResourceList, request.Amounts) {
	list, out := v1.ResourceList{}, request.Amounts{}
	add := func(name string, q *resource.Quantity, value int64) {
		if value > 0 {
			list[v1.ResourceName(name)], out = *q, out.With(name, value)
		}
	}
	cpu := rapid.SampledFrom([]int64{0, 250, 1000, 1500, 3000}).Draw(t, label+" cpu")
	add("cpu", resource.NewMilliQuantity(cpu, resource.DecimalSI), cpu)
	bytes := rapid.SampledFrom([]int64{0, 1 << 20, 1<<30 + 1}).Draw(t, label+" memory")
	add("memory", resource.NewQuantity(bytes, resource.BinarySI), bytes)
	if huge {
		pages := rapid.SampledFrom([]int64{0, 2 << 20, 4 << 20}).Draw(t, label+" pages")
		add("hugepages-2Mi", resource.NewQuantity(pages, resource.BinarySI), pages)
	}
	return list, out
}

// TestRequests compares, for random pods, what internal/core/spec concludes from numbers with what
// internal/codec/podspec concludes from the objects of Kubernetes.
func TestRequests(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Namespace: "n", Name: "p"}}
		mine := spec.Pod{Identity: request.Identity{UID: string(types.UID("u")), Namespace: "n", Name: "p"}}
		if rapid.Bool().Draw(t, "pod-level") {
			pod.Spec.Resources, mine.EmptyLevel = &v1.ResourceRequirements{}, true // Both lists can be empty.
			pod.Spec.Resources.Limits, mine.PodLevel.Limits = amounts(t, "pod limits", true)
			if rapid.Bool().Draw(t, "pod requests") {
				pod.Spec.Resources.Requests, mine.PodLevel.Requests = amounts(t, "pod requests", false)
			}
		}
		always, last := v1.ContainerRestartPolicyAlways, request.Init
		for i := range rapid.IntRange(1, 4).Draw(t, "containers") {
			c, m := v1.Container{Name: fmt.Sprint("c", i)}, spec.Container{Name: fmt.Sprint("c", i)}
			c.Resources.Limits, m.Limits = amounts(t, "limits", true)
			if rapid.Bool().Draw(t, "requests") {
				c.Resources.Requests, m.Requests = amounts(t, "requests", false)
			}
			if last != request.App {
				last = rapid.SampledFrom([]request.ContainerType{request.Init, request.Sidecar, request.App}).Draw(t, "type")
			}
			switch m.Type = last; last {
			case request.Sidecar:
				c.RestartPolicy = &always
				fallthrough
			case request.Init:
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
			case request.App:
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			}
			mine.Containers = append(mine.Containers, m)
		}
		gates := podspec.Gates{PodLevelResources: rapid.Bool().Draw(t, "levels")}
		gates.PodLevelManagers = gates.PodLevelResources && rapid.Bool().Draw(t, "managers")
		want, err := podspec.Request(podspec.Default(pod, gates), gates)
		if err != nil {
			t.Fatal(err)
		}
		got, err := mine.Request(spec.Gates{PodLevelResources: gates.PodLevelResources, PodLevelManagers: gates.PodLevelManagers})
		if err != nil {
			return // The API server rejects it too: a request above the limit, or no app container.
		}
		compared++
		if got.Key() != want.Key() || !reflect.DeepEqual(got.Identity, want.Identity) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
	if compared < 20 {
		t.Errorf("only %d pods were compared", compared)
	}
}

// TestMachines compares the machine of facts, and of a description, with those of
// internal/codec/discover.
func TestMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := predict.Facts{
			Sockets: rapid.IntRange(1, 4).Draw(t, "sockets"), CoresPerSocket: rapid.SampledFrom([]int{4, 8, 24}).Draw(t, "cores"),
			ThreadsPerCore: rapid.IntRange(1, 2).Draw(t, "threads"), NUMANodes: rapid.SampledFrom([]int{0, 1, 2, 4, 8}).Draw(t, "numa"), Memory: 64<<30 + 5000,
		}
		same := discover.Facts{Sockets: f.Sockets, Cores: f.CoresPerSocket, Threads: f.ThreadsPerCore, NUMANodes: f.NUMANodes, Memory: f.Memory}
		if f.NUMANodes == 0 {
			same.NUMANodes = f.Sockets
		}
		got, err := f.Machine()
		if err != nil {
			return
		}
		made, err := discover.Made("made", same)
		if err != nil {
			t.Fatal(err)
		}
		text, err := discover.Describe(made.Machine)
		if err != nil {
			t.Fatal(err)
		}
		read, err := predict.ParseMachine(text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, read) {
			t.Fatalf("facts %+v: the machine of the facts is not that of %s", f, text)
		}
	})
}
