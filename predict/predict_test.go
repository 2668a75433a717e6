package predict_test

import (
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/predict"
)

// TestRequirements checks that the package links nothing but the core and the standard library, and
// that reading objects adds no client of Kubernetes.
func TestRequirements(t *testing.T) {
	for dir, allowed := range map[string][]string{
		".":         {"github.com/paddock-project/paddock/"},
		"./objects": {"github.com/paddock-project/paddock/", "k8s.io/apimachinery/", "k8s.io/klog/", "k8s.io/utils/", "k8s.io/kube-openapi/", "sigs.k8s.io/", "github.com/go-logr/", "github.com/json-iterator/", "github.com/modern-go/", "github.com/gogo/protobuf/", "github.com/fxamacker/", "github.com/x448/", "golang.org/x/", "gopkg.in/inf.v0", "go.yaml.in/"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}/{{end}}", dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		linked := strings.Fields(string(out))
		if len(linked) < 10 {
			t.Errorf("%s links %d packages", dir, len(linked))
		}
		for _, name := range linked {
			if !hasPrefix(name, allowed) {
				t.Errorf("%s links %s", dir, name)
			}
		}
	}
}

func hasPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// anyPod draws a pod that is usable.
func anyPod(t *rapid.T, uid string) predict.Pod {
	amounts := func(label string) predict.Amounts {
		return predict.Amounts{
			CPUMilli: rapid.SampledFrom([]int64{0, 500, 1000, 2000, 4000, 7000}).Draw(t, label+" cpu"),
			Memory:   rapid.SampledFrom([]int64{0, 1 << 20, 1 << 30, 9 << 30}).Draw(t, label+" memory"),
		}
	}
	out := predict.Pod{UID: uid, Namespace: "default", Name: uid}
	last := predict.Init
	for i := range rapid.IntRange(1, 4).Draw(t, "containers") {
		c := predict.Container{Name: fmt.Sprint("c", i), Resources: predict.Resources{Limits: amounts("limits")}}
		if rapid.Bool().Draw(t, "devices") {
			c.Limits.Others = map[string]int64{"example.com/gpu": rapid.Int64Range(1, 2).Draw(t, "gpus")}
		}
		if last != predict.App {
			last = rapid.SampledFrom([]predict.ContainerType{predict.Init, predict.Sidecar, predict.App}).Draw(t, "type")
		}
		c.Type = last
		out.Containers = append(out.Containers, c)
	}
	out.Containers[len(out.Containers)-1].Type = predict.App
	if rapid.IntRange(0, 2).Draw(t, "budget") == 0 {
		out.Resources.Limits = predict.Amounts{CPUMilli: rapid.Int64Range(1, 12).Draw(t, "pool") * 1000, Memory: 16 << 30}
	}
	return out
}

func anyNode(t *rapid.T) (*predict.Policy, *predict.Node) {
	f := predict.Facts{Sockets: rapid.IntRange(1, 2).Draw(t, "sockets"), CoresPerSocket: 8, ThreadsPerCore: rapid.IntRange(1, 2).Draw(t, "threads"), Memory: 64 << 30}
	m, err := f.Machine()
	if err != nil {
		t.Fatal(err)
	}
	p, err := predict.NewPolicy(m, predict.PolicySpec{
		DecidedBy:             rapid.SampledFrom(append(predict.Kubelets(), "")).Draw(t, "by"),
		TopologyManagerPolicy: rapid.SampledFrom([]string{"none", "best-effort", "restricted", "single-numa-node"}).Draw(t, "topology"),
		TopologyManagerScope:  rapid.SampledFrom([]string{"container", "pod"}).Draw(t, "scope"),
		CPUManagerPolicy:      "static", ReservedCPUCount: 1,
		MemoryManagerPolicy: "Static", ReservedMemory: map[int]map[string]int64{0: {"memory": 1 << 30}},
		FeatureGates: []string{"PodLevelResources", "PodLevelResourceManagers"},
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err := predict.NewNode(p, map[string][]predict.Device{"example.com/gpu": {{ID: "0", NUMANodes: []int{0}}, {ID: "1", NUMANodes: []int{f.Sockets - 1}}, {ID: "2"}}})
	if err != nil {
		t.Fatal(err)
	}
	return p, n
}

// TestQuestionsAgree checks, in random histories, that Admits, Plan, With, AdmitsEach and Fill give
// the same verdict, that a node does not change, and that Without is the inverse of With where
// Paddock decides.
func TestQuestionsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, n := anyNode(t)
		for i := range rapid.IntRange(1, 8).Draw(t, "pods") {
			r, err := predict.NewRequest(anyPod(t, fmt.Sprint("pod", i)), p)
			if err != nil {
				t.Fatal(err)
			}
			before, free := n.UIDs(), n.FreeCPUs()
			short, plan := n.Admits(r), n.Plan(r)
			next, with := n.With(r)
			filled, fill := n.Fill([]*predict.Request{r})
			if !reflect.DeepEqual(plan, with) || !reflect.DeepEqual(fill[0], plan) || filled.Len() != next.Len() {
				t.Fatalf("Plan %+v, With %+v, Fill %+v", plan, with, fill)
			}
			if each := n.AdmitsEach([]*predict.Request{r, r}); !reflect.DeepEqual(each[1], short) {
				t.Fatalf("Admits %+v, AdmitsEach %+v", short, each[1])
			}
			plan.Assignment, plan.Message, plan.Container = nil, "", ""
			if !reflect.DeepEqual(short, plan) {
				t.Fatalf("Admits %+v, Plan %+v", short, plan)
			}
			if !reflect.DeepEqual(n.UIDs(), before) || n.FreeCPUs() != free {
				t.Fatal("the node has changed")
			}
			want := len(before)
			if with.Fits {
				want++
			}
			if next.Len() != want || next.Has(r.UID()) != with.Fits {
				t.Fatalf("the next node has %v", next.UIDs())
			}
			if back := next.Without(r.UID()); p.Certainty() == predict.Certain && back.FreeCPUs() != free {
				t.Fatalf("free %s, and after With and Without %s", free, back.FreeCPUs())
			}
			n = next
		}
	})
}

// TestKnownAssignments checks that the pods of a node can be added to an empty node in any order,
// with what they were assigned. A kubelet's accounting of memory depends on the order, so that this
// is only true where Paddock decides.
func TestKnownAssignments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, empty := anyNode(t)
		if p.Certainty() != predict.Certain {
			return
		}
		type known struct {
			r *predict.Request
			a *predict.Assignment
		}
		n, pods := empty, []known{}
		for i := range 6 {
			r, err := predict.NewRequest(anyPod(t, fmt.Sprint("pod", i)), p)
			if err != nil {
				t.Fatal(err)
			}
			next, v := n.With(r)
			if n = next; v.Fits {
				pods = append(pods, known{r, v.Assignment})
			}
		}
		again := empty
		for _, k := range rapid.Permutation(pods).Draw(t, "order") {
			next, err := again.WithAssigned(k.r, k.a)
			if err != nil {
				t.Fatalf("%+v: %v", k.a, err)
			}
			again = next
		}
		if again.FreeCPUs() != n.FreeCPUs() || !reflect.DeepEqual(again.UIDs(), n.UIDs()) {
			t.Fatalf("free %s, want %s", again.FreeCPUs(), n.FreeCPUs())
		}
		for _, k := range pods { // Without the choice of the Topology Manager, as from the PodResources API.
			if len(k.a.Containers) > 1 {
				continue
			}
			bare := predict.Assignment{Pool: k.a.Pool}
			for _, c := range k.a.Containers {
				c.Alignment = nil
				bare.Containers = append(bare.Containers, c)
			}
			if _, err := empty.WithAssigned(k.r, &bare); err != nil {
				t.Fatalf("%+v: %v", bare, err)
			}
		}
	})
}

// TestErrors checks that values that are not usable are named.
func TestErrors(t *testing.T) {
	m, err := predict.Facts{Sockets: 2, CoresPerSocket: 4, Memory: 8 << 30}.Machine()
	if err != nil {
		t.Fatal(err)
	}
	static := predict.PolicySpec{CPUManagerPolicy: "static", ReservedCPUs: "0"}
	change := func(f func(*predict.PolicySpec)) predict.PolicySpec {
		s := static
		f(&s)
		return s
	}
	for want, s := range map[string]predict.PolicySpec{
		"needs CPUs for the system":    change(func(s *predict.PolicySpec) { s.ReservedCPUs = "" }),
		"has no CPU 8":                 change(func(s *predict.PolicySpec) { s.ReservedCPUs = "0,8" }),
		"expected none, best-effort":   change(func(s *predict.PolicySpec) { s.TopologyManagerPolicy = "best" }),
		"needs memory for the system":  change(func(s *predict.PolicySpec) { s.MemoryManagerPolicy = "Static" }),
		"expected one of kubelet-1.33": change(func(s *predict.PolicySpec) { s.DecidedBy = "kubelet-1.20" }),
		"ask paddock predict serve":    change(func(s *predict.PolicySpec) { s.CPUManagerPolicyOptions = []string{"cache-allocation"} }),
		"there is no option":           change(func(s *predict.PolicySpec) { s.CPUManagerPolicyOptions = []string{"full"} }),
		"no kubelet has this option":   change(func(s *predict.PolicySpec) { s.DecidedBy, s.IsolatedCPUs = "kubelet-1.36", "only" }),
		"needs PodLevelResources":      change(func(s *predict.PolicySpec) { s.FeatureGates = []string{"PodLevelResourceManagers"} }),
		"no kubelet starts with full-pcpu": change(func(s *predict.PolicySpec) {
			s.CPUManagerPolicyOptions = []string{"full-pcpus-only", "distribute-cpus-across-cores"}
		}),
	} {
		if _, err := predict.NewPolicy(m, s); !errors.Is(err, predict.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	p, err := predict.NewPolicy(m, static)
	if err != nil {
		t.Fatal(err)
	}
	many := predict.Pod{UID: "a"}
	for i := range 3 {
		devices := map[string]int64{}
		for k := range 100 {
			devices[fmt.Sprintf("example.com/device-%d-%d", i, k)] = 1
		}
		many.Containers = append(many.Containers, predict.Container{Name: fmt.Sprint("c", i), Resources: predict.Resources{Limits: predict.Amounts{Others: devices}}})
	}
	for want, pod := range map[string]predict.Pod{
		"up to c2 name 300 resources: a pod may have 256": many,
		"has no UID":        {Name: "a"},
		"has no containers": {UID: "a"},
		"negative":          {UID: "a", Containers: []predict.Container{{Name: "c", Resources: predict.Resources{Limits: predict.Amounts{CPUMilli: -1}}}}},
		"the limit is 1":    {UID: "a", Containers: []predict.Container{{Name: "c", Resources: predict.Resources{Requests: predict.Amounts{Memory: 2}, Limits: predict.Amounts{Memory: 1}}}}},
		"two containers":    {UID: "a", Containers: []predict.Container{{Name: "c"}, {Name: "c"}}},
		"no app container":  {UID: "a", Containers: []predict.Container{{Name: "c", Type: predict.Init}}},
		"more than 1024":    {UID: "a", Containers: []predict.Container{{Name: "c", Given: make([]predict.GivenDevice, predict.MaxGiven+1)}}},
		"unknown type":      {UID: "a", Containers: []predict.Container{{Name: "c", Type: 7}}},
	} {
		if _, err := predict.NewRequest(pod, p); !errors.Is(err, predict.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}
