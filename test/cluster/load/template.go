package load

import (
	"fmt"
	"math/rand/v2"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/codec/shapes"
)

// Templates are shapes of pods with their frequencies.
type Templates struct {
	shapes []shape
	total  int64
}

type shape struct {
	milli, bytes, gpus int64
	upTo               int64 // the sum of the frequencies up to and including this shape
}

// LargestOfTrace is the largest request that is taken from a trace, in thousandths of a CPU, for
// nodes of fleet.yaml. Larger pods fit on only one or two of its machine kinds, and would only
// wait.
const LargestOfTrace = 32_000

// Source is a file of shapes.
type Source struct {
	File    string
	Columns map[string]string // as shapes.Options
	// Largest is the largest request that is taken, in thousandths of a CPU. 0 means that there is
	// no limit.
	Largest int64
}

// ReadTemplates reads a file of package shapes.
func ReadTemplates(from Source) (*Templates, error) {
	f, err := os.Open(from.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	read, wrong, err := shapes.Read(from.File, f, shapes.Options{Columns: from.Columns})
	if err != nil {
		return nil, err
	}
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	t := &Templates{}
	for _, s := range read {
		asked := s.Pod.Spec.Containers[0].Resources.Requests
		gpus := asked[shapes.DefaultGPU]
		one := shape{milli: asked.Cpu().MilliValue(), bytes: asked.Memory().Value(), gpus: gpus.Value()}
		if one.milli == 0 || from.Largest > 0 && one.milli > from.Largest {
			continue
		}
		t.total += s.Count
		one.upTo = t.total
		t.shapes = append(t.shapes, one)
	}
	if t.total == 0 {
		return nil, fmt.Errorf("%s: no shape has CPUs, up to %d thousandths of a CPU", from.File, from.Largest)
	}
	return t, nil
}

// These are the frequencies of forms of pods, in percent. The rest are single containers with whole
// CPUs.
const (
	pooled  = 15 // pod-level resources, with a sidecar
	several = 10 // two containers with exclusive CPUs, and an init container
	shared  = 10 // a fraction of a CPU, on the node shared pool
)

// Next returns a pod of the trace, and its request in thousandths of a CPU. The first container
// with CPUs of its own has the GPUs.
func (t *Templates) Next(r *rand.Rand) (v1.PodSpec, int64) {
	pick := r.Int64N(t.total)
	i := 0
	for t.shapes[i].upTo <= pick {
		i++
	}
	s := t.shapes[i]
	whole := max((s.milli+999)/1000, 1)
	switch form := r.IntN(100); {
	case form < pooled && whole >= 2:
		return with(s.gpus, pool(whole, s.bytes)), whole * 1000
	case form < pooled+several && whole >= 2:
		return with(s.gpus, two(whole, s.bytes)), whole * 1000
	case form < pooled+several+shared:
		part := min(s.milli, 1500)
		return v1.PodSpec{Containers: []v1.Container{container("main", part, s.bytes/4, false)}}, part
	}
	return with(s.gpus, v1.PodSpec{Containers: []v1.Container{container("main", whole*1000, s.bytes, true)}}), whole * 1000
}

// with returns a pod whose first container has GPUs.
func with(gpus int64, pod v1.PodSpec) v1.PodSpec {
	if gpus > 0 {
		c, n := &pod.Containers[0].Resources, *resource.NewQuantity(gpus, resource.DecimalSI)
		c.Requests[shapes.DefaultGPU], c.Limits[shapes.DefaultGPU] = n, n
	}
	return pod
}

func amounts(milli, bytes int64) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI)}
}

// container returns a container with these requests. If guaranteed is set, its limits are equal.
func container(name string, milli, bytes int64, guaranteed bool) v1.Container {
	c := v1.Container{Name: name, Image: "example.invalid/load:1", Resources: v1.ResourceRequirements{Requests: amounts(milli, bytes)}}
	if guaranteed {
		c.Resources.Limits = c.Resources.Requests.DeepCopy()
	}
	return c
}

// pool returns a pod with pod-level resources. The server has exclusive CPUs, and the sidecar
// shares the rest.
func pool(whole, bytes int64) v1.PodSpec {
	always := v1.ContainerRestartPolicyAlways
	sidecar := v1.Container{Name: "sidecar", Image: "example.invalid/load:1", RestartPolicy: &always}
	return v1.PodSpec{
		Resources:      &v1.ResourceRequirements{Requests: amounts(whole*1000, bytes), Limits: amounts(whole*1000, bytes)},
		InitContainers: []v1.Container{sidecar},
		Containers:     []v1.Container{container("main", (whole-1)*1000, bytes/2, true)},
	}
}

// two returns a pod of two containers with exclusive CPUs.
func two(whole, bytes int64) v1.PodSpec {
	first := whole / 2
	return v1.PodSpec{
		InitContainers: []v1.Container{container("init", 1000, bytes/4, true)},
		Containers:     []v1.Container{container("left", first*1000, bytes/2, true), container("right", (whole-first)*1000, bytes/2, true)},
	}
}
