package podres

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// text prints pods in the form that test cases use, one line for each pod and container:
//
//	namespace/name: 2-5 memory=4Gi{0}
//	  container: 2-3 example.com/nic=nic-0{0}
func text(pods []*podresourcesv1.PodResources) string {
	var out strings.Builder
	for _, p := range pods {
		fmt.Fprintf(&out, "%s/%s:%s\n", p.GetNamespace(), p.GetName(), holdings(p.GetCpuIds(), p.GetMemory(), nil))
		for _, c := range p.GetContainers() {
			fmt.Fprintf(&out, "  %s:%s\n", c.GetName(), holdings(c.GetCpuIds(), c.GetMemory(), c.GetDevices()))
		}
	}
	return out.String()
}

func holdings(cpus []int64, memory []*podresourcesv1.ContainerMemory, devices []*podresourcesv1.ContainerDevices) string {
	var out strings.Builder
	if set := setOf(cpus); !set.IsEmpty() {
		out.WriteString(" " + set.String())
	}
	for _, m := range memory {
		fmt.Fprintf(&out, " %s%s", request.Amount{Resource: m.GetMemoryType(), Value: int64(m.GetSize())}, nodesOf(m.GetTopology()))
	}
	for _, d := range devices {
		fmt.Fprintf(&out, " %s=%s%s", d.GetResourceName(), strings.Join(d.GetDeviceIds(), ","), nodesOf(d.GetTopology()))
	}
	return out.String()
}

// nodesOf returns "" if there is no topology.
func nodesOf(t *podresourcesv1.TopologyInfo) string {
	if t == nil {
		return ""
	}
	var nodes mask.Mask
	for _, n := range t.GetNodes() {
		nodes = nodes.With(int(n.GetID()))
	}
	return nodes.String()
}

func setOf(cpus []int64) cpuset.Set {
	var b cpuset.Builder
	for _, id := range cpus {
		b.Add(int(id))
	}
	return b.Set()
}

// database returns a pod with all kinds of containers: a sidecar and an app with CPUs of their own,
// an app with memory of its own only, and two that share the rest of the pool.
func database() request.Pod {
	fractional := exclusive("fractional", request.App, 0, gib)
	return podLevel("database", 6, 8*gib,
		exclusive("load", request.Init, 3, gib), sharing("wait", request.Init),
		exclusive("proxy", request.Sidecar, 1, gib), sharing("watch", request.Sidecar),
		exclusive("server", request.App, 3, 4*gib), fractional, sharing("log", request.App))
}

// dns returns a pod without exclusive resources.
func dns() request.Pod {
	return request.Pod{
		Identity: request.Identity{UID: "uid-dns", Namespace: "kube-system", Name: "dns"}, Ask: request.Ask{
			QoS:        request.Burstable,
			Containers: []request.Container{sharing("dns", request.App)},
		},
	}
}

// listCases are cases for List.
var listCases = []struct {
	name  string
	scope node.Scope
	pods  []request.Pod
	want  string
}{
	{"no pods", node.PodScope, nil, ""},
	{"a pool shows with its slices, who shares it shows nothing", node.PodScope, []request.Pod{database()}, `
default/database: 1-6 memory=8Gi{0}
  proxy: 1 memory=1Gi{0}
  watch:
  server: 2-4 memory=4Gi{0}
  fractional: memory=1Gi{0}
  log:
`},
	{"under scope container there is no pool", node.ContainerScope, []request.Pod{database()}, `
default/database:
  proxy: 1 memory=1Gi{0}
  watch:
  server: 2-4 memory=4Gi{0}
  fractional: memory=1Gi{0}
  log:
`},
	{"several containers of a plain pod", node.PodScope, []request.Pod{plain("web",
		exclusive("init", request.Init, 2, gib), exclusive("b", request.App, 2, gib), exclusive("a", request.App, 1, 2*gib))}, `
default/web:
  b: 1-2 memory=1Gi{0}
  a: 3 memory=2Gi{0}
`},
	{"a pod without exclusive resources", node.PodScope, []request.Pod{dns()}, `
kube-system/dns:
  dns:
`},
	{"devices of one resource on several NUMA nodes, and of none", node.PodScope, []request.Pod{podLevel("fast", 2, gib,
		with(sharing("init", request.Init), request.Amount{Resource: "example.com/nic", Value: 1}),
		with(sharing("a", request.App), request.Amount{Resource: "example.com/fuse", Value: 1}, request.Amount{Resource: "example.com/nic", Value: 2}),
		sharing("b", request.App))}, `
default/fast: 1-2 memory=1Gi{0}
  a: example.com/fuse=fuse example.com/nic=nic-0{0} example.com/nic=nic-1{0-1}
  b:
`},
	{"a budget without whole CPUs", node.PodScope, []request.Pod{podLevel("small", 0, gib, sharing("a", request.App))}, `
default/small: memory=1Gi{0}
  a:
`},
	{"larger than a NUMA node", node.PodScope, []request.Pod{podLevel("large", 10, 80*gib, exclusive("a", request.App, 9, 70*gib), sharing("b", request.App))}, `
default/large: 1-2,8-15 memory=80Gi{0-1}
  a: 1,8-15 memory=70Gi{0-1}
  b:
`},
	{"sorted by name, of one name the later first", node.PodScope, []request.Pod{
		plain("web", exclusive("app", request.App, 1, gib)), plain("api", exclusive("app", request.App, 1, gib)), again(),
	}, `
default/api:
  app: 2 memory=1Gi{0}
default/web:
  app: 3-4 memory=1Gi{0}
default/web:
  app: 1 memory=1Gi{0}
`},
}

// again returns the pod web as it is created again while the old pod still exists.
func again() request.Pod {
	pod := plain("web", exclusive("app", request.App, 2, gib))
	pod.UID = "uid-web-2"
	return pod
}

func TestList(t *testing.T) {
	for _, c := range listCases {
		t.Run(c.name, func(t *testing.T) {
			got := text(list(small(t, c.scope, c.pods...)).GetPodResources())
			if want := strings.TrimPrefix(c.want, "\n"); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// TestListHugePages checks that there is one element for each type, and none for a container that
// does not request that type.
func TestListHugePages(t *testing.T) {
	pod := podLevel("db", 2, gib, exclusive("a", request.App, 1, 512*mib), sharing("b", request.App))
	pod.BudgetMemory = pod.BudgetMemory.With("hugepages-2Mi", 64*mib)
	pod.Containers[1].HugePages = []request.Resource{"hugepages-2Mi"}
	want := "default/db: 1-2 hugepages-2Mi=64Mi{0} memory=1Gi{0}\n  a: 1 memory=512Mi{0}\n  b:\n"
	if got := text(list(small(t, node.PodScope, pod)).GetPodResources()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestListAfterLife checks that a container that ended shows nothing, and that a released pod is
// not listed.
func TestListAfterLife(t *testing.T) {
	state := small(t, node.PodScope, database())
	state = state.RemoveContainer("uid-database", "proxy")
	want := "default/database: 1-6 memory=8Gi{0}\n  proxy:\n  watch:\n  server: 2-4 memory=4Gi{0}\n  fractional: memory=1Gi{0}\n  log:\n"
	if got := text(list(state).GetPodResources()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	state = state.Release("uid-database")
	if got := text(list(state).GetPodResources()); got != "" {
		t.Errorf("got\n%sof a pod that is gone", got)
	}
	if _, ok := find(state, "default", "database"); ok {
		t.Error("a pod that is gone is found")
	}
}

func TestAllocatable(t *testing.T) {
	none := policy(node.PodScope)
	none.StaticCPU, none.ReservedCPUs, none.StaticMemory, none.ReservedMemory = false, cpuset.Set{}, false, nil
	full := policy(node.PodScope)
	full.ReservedMemory[1] = map[string]int64{"memory": 63 * gib}
	devices := " example.com/fuse=fuse example.com/nic=nic-0{0} example.com/nic=nic-2{1} example.com/nic=nic-1{0-1}"
	everything := " 1-15 memory=62Gi{0} hugepages-2Mi=1Gi{0} memory=63Gi{1} hugepages-2Mi=1Gi{1}" + devices
	for _, c := range []struct {
		name  string
		state *node.State
		want  string
	}{
		{"an empty node", small(t, node.PodScope), everything},
		{"what is held does not count", small(t, node.PodScope, database()), everything},
		{"a NUMA node that is all the system's", emptyNode(t, hardware{2, 8}, full), strings.Replace(everything, " memory=63Gi{1}", "", 1)},
		{"nothing is managed", emptyNode(t, hardware{2, 8}, none), devices},
	} {
		response := allocatable(c.state)
		if got := holdings(response.GetCpuIds(), response.GetMemory(), response.GetDevices()); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestListAlpha checks that v1alpha1 List has all pods, their app containers only, and devices
// only.
func TestListAlpha(t *testing.T) {
	nics := request.Amount{Resource: "example.com/nic", Value: 2}
	response := listAlpha(small(t, node.PodScope, database(), plain("api", with(sharing("a", request.App), nics))))
	var got []string
	for _, p := range response.GetPodResources() {
		for _, c := range p.GetContainers() {
			got = append(got, p.GetNamespace()+"/"+p.GetName()+"/"+c.GetName())
			for _, d := range c.GetDevices() {
				got = append(got, d.GetResourceName()+"="+strings.Join(d.GetDeviceIds(), ","))
			}
		}
	}
	want := "default/api/a example.com/nic=nic-0,nic-1 default/database/server default/database/fractional default/database/log"
	if strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEncodedList checks that the encoded message decodes to the same answer as the plain message.
func TestEncodedList(t *testing.T) {
	state := small(t, node.PodScope, database(), plain("api", sharing("a", request.App)))
	encoded, err := new(encoder).list(state)
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(encoded)
	if err != nil {
		t.Fatal(err)
	}
	decoded := &podresourcesv1.ListPodResourcesResponse{}
	if err := proto.Unmarshal(data, decoded); err != nil {
		t.Fatal(err)
	}
	if want := list(state); !proto.Equal(decoded, want) {
		t.Errorf("got\n%swant\n%s", text(decoded.GetPodResources()), text(want.GetPodResources()))
	}
}

// TestListEstimated checks that no container is shown for a pod whose request is estimated, because
// its containers are not known.
func TestListEstimated(t *testing.T) {
	pod := podLevel("guess", 2, gib, request.Container{Name: request.AnyContainer, Type: request.App, Sharing: request.Estimated})
	pod.Estimated = true
	state := small(t, node.PodScope, pod)
	if got, want := text(list(state).GetPodResources()), "default/guess: 1-2 memory=1Gi{0}\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if alpha := listAlpha(state).GetPodResources(); len(alpha) != 1 || len(alpha[0].GetContainers()) != 0 {
		t.Errorf("v1alpha1 tells of %v", alpha)
	}
}

// TestOfflineCPUs checks that assigned CPUs are listed while they are offline and are not
// allocatable.
func TestOfflineCPUs(t *testing.T) {
	full := small(t, node.PodScope, database())
	m, err := full.Machine().Without(cpuset.Of(1, 2, 15))
	if err != nil {
		t.Fatal(err)
	}
	state, err := full.OnMachine(m)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := text(list(state).GetPodResources()), text(list(full).GetPodResources()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := fmt.Sprint(allocatable(state).GetCpuIds()); got != "[3 4 5 6 7 8 9 10 11 12 13 14]" {
		t.Errorf("allocatable are %s", got)
	}
}

// list returns the answer to v1 List (R-API-10…14), computed for all pods without an encoder.
func list(s *node.State) *podresourcesv1.ListPodResourcesResponse {
	grants := ordered(s)
	response := &podresourcesv1.ListPodResourcesResponse{PodResources: make([]*podresourcesv1.PodResources, len(grants))}
	for i, g := range grants {
		response.PodResources[i] = podResources(s, g)
	}
	return response
}
