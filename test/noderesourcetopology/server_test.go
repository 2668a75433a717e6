package noderesourcetopology

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	topologyv1alpha2 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// published is an element of the file that internal/node/zones writes.
type published struct {
	Node   string
	Begun  []string
	Object topologyv1alpha2.NodeResourceTopology
	Asked  []struct {
		Pod     v1.Pod
		Planner string
	}
}

func read(t *testing.T) []published {
	t.Helper()
	data, err := os.ReadFile("../../internal/node/zones/testdata/published.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []published
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// kernelIDs returns the object with the kernel's ids in the names of the zones. It reports whether
// that is another object.
func kernelIDs(o *topologyv1alpha2.NodeResourceTopology) (*topologyv1alpha2.NodeResourceTopology, bool) {
	names := map[string]string{}
	for _, z := range o.Zones {
		for _, a := range z.Attributes {
			if a.Name == "numaNodeID" {
				names[z.Name] = "node-" + a.Value
			}
		}
	}
	named := o.DeepCopy()
	rename := func(name *string) {
		if other, has := names[*name]; has {
			*name = other
		}
	}
	for i := range named.Zones {
		rename(&named.Zones[i].Name)
		for j := range named.Zones[i].Costs {
			rename(&named.Zones[i].Costs[j].Name)
		}
	}
	return named, len(names) > 0
}

// serve serves objects as an API server does, and returns the configuration for its clients.
func serve(t *testing.T, objects ...*topologyv1alpha2.NodeResourceTopology) *rest.Config {
	t.Helper()
	gv := topologyv1alpha2.SchemeGroupVersion
	version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: gv.Group,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	list := &topologyv1alpha2.NodeResourceTopologyList{TypeMeta: metav1.TypeMeta{APIVersion: gv.String(), Kind: "NodeResourceTopologyList"}}
	answers := map[string]any{
		"/api":              &metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"}},
		"/apis":             &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{group}},
		"/apis/" + gv.Group: &group,
		"/apis/" + gv.String(): &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv.String(),
			APIResources: []metav1.APIResource{{Name: "noderesourcetopologies", Kind: "NodeResourceTopology", Verbs: metav1.Verbs{"get", "list", "watch"}}},
		},
		"/apis/" + gv.String() + "/noderesourcetopologies": list,
	}
	for _, o := range objects {
		list.Items = append(list.Items, *o)
		answers["/apis/"+gv.String()+"/noderesourcetopologies/"+o.Name] = o
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[strings.TrimSuffix(r.URL.Path, "/")]
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1}
}

// client returns a client of the server with the types of the plugin.
func client(t *testing.T, config *rest.Config) ctrlclient.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := topologyv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := ctrlclient.NewWithWatch(config, ctrlclient.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handle is what the plugin needs of a scheduler.
type handle struct {
	framework.Handle
	config *rest.Config
}

// KubeConfig implements framework.Handle.
func (h handle) KubeConfig() *rest.Config { return h.config }

// nodeInfo returns the Node as the kubelet reports it: with the sum of the zones.
func nodeInfo(o *topologyv1alpha2.NodeResourceTopology) *framework.NodeInfo {
	all := v1.ResourceList{}
	for _, z := range o.Zones {
		for _, r := range z.Resources {
			sum := all[v1.ResourceName(r.Name)]
			sum.Add(r.Allocatable)
			all[v1.ResourceName(r.Name)] = sum
		}
	}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
	n.Status.Capacity, n.Status.Allocatable = all, all
	info := framework.NewNodeInfo()
	info.SetNode(n)
	return info
}
