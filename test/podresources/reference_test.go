package podresources

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/klog/v2"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
)

var rewrite = flag.Bool("rewrite", false, "write the answers to testdata")

// maxMessage is the message size limit that clients of the kubelet's socket usually set.
const maxMessage = 16 << 20

// client returns the reference's client of a kubelet's socket.
func client(t *testing.T, socket string) podresourcesv1.PodResourcesListerClient {
	t.Helper()
	c, conn, err := podresources.GetV1Client(t.Context(), "unix://"+socket, patience, maxMessage)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestAnswersOfTheAgent(t *testing.T) {
	s := agent(t)
	c := client(t, s.socket)
	listed, err := c.List(t.Context(), &podresourcesv1.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "list.json", listed)
	for _, p := range listed.GetPodResources() {
		got, err := c.Get(t.Context(), &podresourcesv1.GetPodResourcesRequest{PodName: p.GetName(), PodNamespace: p.GetNamespace()})
		if err != nil || text(t, got.GetPodResources()) != text(t, p) {
			t.Errorf("Get has %v, %v, List %v", got, err, p)
		}
	}
	allocatable, err := c.GetAllocatableResources(t.Context(), &podresourcesv1.AllocatableResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	allocatable.CpuIds = allocatable.GetCpuIds()[:2] // 1 and 2. The machine has 256 CPUs, two of them reserved.
	compare(t, "allocatable.json", allocatable)

	alpha, conn, err := podresources.GetV1alpha1Client(t.Context(), "unix://"+s.socket, patience, maxMessage)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	devices, err := alpha.List(t.Context(), &v1alpha1.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "list-v1alpha1.json", devices)
}

// TestAnswersWithClaims checks the fields of KEP-3695 as the reference's client reads them.
func TestAnswersWithClaims(t *testing.T) {
	c := client(t, claims(t).socket)
	listed, err := c.List(t.Context(), &podresourcesv1.ListPodResourcesRequest{})
	if err != nil || len(listed.GetPodResources()) != 250 {
		t.Fatalf("%d pods, %v", len(listed.GetPodResources()), err)
	}
	compare(t, "claims.json", listed.GetPodResources()[0])
	names := map[string]bool{}
	for _, p := range listed.GetPodResources() {
		for _, container := range p.GetContainers() {
			for _, r := range container.GetDynamicResources() {
				names[r.GetClaimName()] = true
			}
		}
	}
	if len(names) != 500 {
		t.Errorf("%d claims", len(names))
	}
}

// TestRateLimit checks that more calls than the kubelet accepts fail with the kubelet's code and
// message.
func TestRateLimit(t *testing.T) {
	c := client(t, agent(t).socket)
	var err error
	for range 1000 {
		if _, err = c.List(t.Context(), &podresourcesv1.ListPodResourcesRequest{}); err != nil {
			break
		}
	}
	if want := apisgrpc.ErrorLimitExceeded; status.Code(err) != status.Code(want) || !strings.HasSuffix(err.Error(), want.Error()) {
		t.Errorf("%v, want %v", err, want)
	}
}

// TestReferenceServer checks that the reference's server lists the same pods with the same
// containers for these manifests, and has the same message for a pod that it does not know.
func TestReferenceServer(t *testing.T) {
	c, reference := client(t, agent(t).socket), client(t, serveReference(t))
	var lists [2]string
	for i, each := range []podresourcesv1.PodResourcesListerClient{c, reference} {
		listed, err := each.List(t.Context(), &podresourcesv1.ListPodResourcesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range listed.GetPodResources() {
			lists[i] += p.GetNamespace() + "/" + p.GetName() + ":"
			for _, container := range p.GetContainers() {
				lists[i] += " " + container.GetName()
			}
			lists[i] += "\n"
		}
		_, err = each.Get(t.Context(), &podresourcesv1.GetPodResourcesRequest{PodName: "none", PodNamespace: "ml"})
		if want := "pod none in namespace ml not found"; status.Convert(err).Message() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if lists[0] != lists[1] || lists[0] == "" {
		t.Errorf("the agent lists\n%sthe reference\n%s", lists[0], lists[1])
	}
}

// serveReference serves the manifests with the reference's server. Nothing is assigned to the pods.
func serveReference(t *testing.T) string {
	t.Helper()
	pods := manifests(t)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresourcesv1.RegisterPodResourcesListerServer(server, podresources.NewV1PodResourcesServer(context.Background(), podresources.PodResourcesProviders{
		Pods: pods, Devices: nothing{}, Cpus: nothing{}, Memory: nothing{}, DynamicResources: nothing{},
	}))
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// podList implements the reference's PodsProvider.
type podList []*v1.Pod

func (p podList) GetActivePods() []*v1.Pod { return p }
func (p podList) GetPods() []*v1.Pod       { return p }

func (p podList) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	i := slices.IndexFunc(p, func(pod *v1.Pod) bool { return pod.Namespace == namespace && pod.Name == name })
	if i < 0 {
		return nil, false
	}
	return p[i], true
}

// nothing implements the reference's other providers.
type nothing struct{}

func (nothing) UpdateAllocatedDevices(klog.Logger)                                   {}
func (nothing) GetDevices(string, string) []*podresourcesv1.ContainerDevices         { return nil }
func (nothing) GetAllocatableDevices(klog.Logger) []*podresourcesv1.ContainerDevices { return nil }
func (nothing) GetCPUs(*v1.Pod, *v1.Container) []int64                               { return nil }
func (nothing) GetPodCPUs(string) []int64                                            { return nil }
func (nothing) GetAllocatableCPUs() []int64                                          { return nil }
func (nothing) GetMemory(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesv1.ContainerMemory {
	return nil
}
func (nothing) GetPodMemory(klog.Logger, string) []*podresourcesv1.ContainerMemory { return nil }
func (nothing) GetAllocatableMemory(klog.Logger) []*podresourcesv1.ContainerMemory { return nil }
func (nothing) GetDynamicResources(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesv1.DynamicResource {
	return nil
}

// manifests returns the pods of testdata/pods, sorted by namespace and name.
func manifests(t *testing.T) podList {
	t.Helper()
	file, err := os.Open("testdata/pods/pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var pods podList
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		pod := &v1.Pod{}
		if err := decoder.Decode(pod); err != nil {
			break // The end of the file. If it is another error, the comparison fails.
		}
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return pods
}

// text formats an answer as indented JSON. It does not contain fields that the client does not
// know.
func text(t *testing.T, answer any) string {
	t.Helper()
	data, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}

// compare compares an answer with a file of testdata.
func compare(t *testing.T, name string, answer any) {
	t.Helper()
	got, path := text(t, answer), filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: the answer is now\n%s(-rewrite writes it)", path, got)
	}
}
