package noderesourcetopology

import (
	"strings"
	"testing"

	topologyv1alpha2 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	nrtcache "sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology/cache"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology/podprovider"
)

// TestFingerprint checks that the plugin's cache accepts the published fingerprint for the pods that
// the kubelet lists, and for no others. After a pod of another scheduler, the cache gives no data
// about the node until the fingerprint is that of its own pods.
func TestFingerprint(t *testing.T) {
	for _, p := range read(t) {
		bound := func(name string, phase v1.PodPhase) *v1.Pod {
			namespace, name, _ := strings.Cut(name, "/")
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.PodSpec{NodeName: p.Node}, Status: v1.PodStatus{Phase: phase}}
		}
		var all []*v1.Pod
		for _, name := range p.Begun {
			phase := v1.PodRunning
			if strings.HasSuffix(name, "/has-ended") {
				phase = v1.PodSucceeded
			}
			all = append(all, bound(name, phase))
		}
		for _, c := range []struct {
			name     string
			pods     []*v1.Pod
			relevant podprovider.PodFilterFunc
			fresh    bool
		}{
			{"the kubelet's pods", all, podprovider.IsPodRelevantDedicated, true},
			{"a pod that is Pending", append(all[:len(all):len(all)], bound("default/pulls", v1.PodPending)), podprovider.IsPodRelevantDedicated, true},
			{"one more", append(all[:len(all):len(all)], bound("default/more", v1.PodRunning)), podprovider.IsPodRelevantDedicated, false},
			{"one less", all[1:], podprovider.IsPodRelevantDedicated, false},
			{"informerMode Shared and a pod that ended", all, podprovider.IsPodRelevantShared, false},
			{"informerMode Shared", all[:len(all)-1], podprovider.IsPodRelevantShared, false},
		} {
			if fresh := resync(t, &p.Object, c.pods, c.relevant); fresh != c.fresh {
				t.Errorf("%s: %s: the cache accepts the fingerprint: %v, want %v", p.Node, c.name, fresh, c.fresh)
			}
		}
	}
}

// resync reports whether the cache has data about the node again, after a pod of another scheduler.
func resync(t *testing.T, o *topologyv1alpha2.NodeResourceTopology, pods []*v1.Pod, relevant podprovider.PodFilterFunc) bool {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, pod := range pods {
		if err := indexer.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	scope := config.CacheResyncScopeOnlyResources
	c, err := nrtcache.NewOverReserve(t.Context(), klog.Logger{}, &config.NodeResourceTopologyCache{ResyncScope: &scope},
		client(t, serve(t, o)), listersv1.NewPodLister(indexer), relevant)
	if err != nil {
		t.Fatal(err)
	}
	asks := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "asks"}}
	c.NodeHasForeignPods(o.Name, asks)
	if _, before := c.GetCachedNRTCopy(t.Context(), o.Name, asks); before.Fresh {
		t.Fatal("a pod of another scheduler does not matter to the cache")
	}
	c.Resync()
	_, after := c.GetCachedNRTCopy(t.Context(), o.Name, asks)
	return after.Fresh
}
