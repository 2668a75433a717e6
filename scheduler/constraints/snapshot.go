package constraints

import (
	"context"
	"fmt"
	"maps"
	"runtime"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// snapshot represents the nodes with their pods, as plugins see them.
type snapshot struct {
	nodes  []fwk.NodeInfo
	byName map[string]fwk.NodeInfo
	// apart lists the nodes that have a pod with required anti-affinity.
	apart []fwk.NodeInfo
}

func (s *snapshot) node(o *v1.Node) {
	n := framework.NewNodeInfo()
	n.SetNode(o)
	s.nodes = append(s.nodes, n)
	s.byName[o.Name] = n
}

// add adds a pod to a node.
func (s *snapshot) add(pod fwk.PodInfo, n fwk.NodeInfo) {
	if len(pod.GetRequiredAntiAffinityTerms()) > 0 && len(n.GetPodsWithRequiredAntiAffinity()) == 0 {
		s.apart = append(s.apart, n)
	}
	n.AddPodInfo(pod)
}

// NodeInfos, StorageInfos and PodGroupStates implement SharedLister. The plugins call only
// NodeInfos.
func (s *snapshot) NodeInfos() fwk.NodeInfoLister { return s }

// StorageInfos is part of SharedLister; see NodeInfos.
func (s *snapshot) StorageInfos() fwk.StorageInfoLister { return nil }

// PodGroupStates is part of SharedLister; see NodeInfos.
func (s *snapshot) PodGroupStates() fwk.PodGroupStateLister { return nil }

// PodGroups is part of SharedLister; see NodeInfos.
func (s *snapshot) PodGroups() fwk.PodGroupLister { return nil }

// CompositePodGroupStates is part of SharedLister; see NodeInfos.
func (s *snapshot) CompositePodGroupStates() fwk.CompositePodGroupStateLister { return nil }

// CompositePodGroups is part of SharedLister; see NodeInfos.
func (s *snapshot) CompositePodGroups() fwk.CompositePodGroupLister { return nil }

// List returns all nodes. It and the methods below implement NodeInfoLister.
func (s *snapshot) List() ([]fwk.NodeInfo, error) { return s.nodes, nil }

// HavePodsWithAffinityList is used for preferences, which this package does not evaluate.
func (s *snapshot) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) { return s.nodes, nil }

// HavePodsWithRequiredAntiAffinityList returns the nodes that have pods with required
// anti-affinity.
func (s *snapshot) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.apart, nil
}

// HavePodsWithRequiredNonHostScopedAntiAffinityList returns the same nodes: the plugin checks the
// terms again, and skips nothing that way.
func (s *snapshot) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.apart, nil
}

// Get returns the node of that name.
func (s *snapshot) Get(name string) (fwk.NodeInfo, error) {
	n := s.byName[name]
	if n == nil {
		return nil, fmt.Errorf("there is no node %s", name)
	}
	return n, nil
}

// handle implements the part of fwk.Handle that the plugins use.
type handle struct {
	fwk.Handle
	nodes   *snapshot
	factory informers.SharedInformerFactory
}

func newHandle() *handle {
	return &handle{
		nodes:   &snapshot{byName: map[string]fwk.NodeInfo{}},
		factory: informers.NewSharedInformerFactory(nil, 0), // It is never started. Objects are added to its stores.
	}
}

func (h *handle) SnapshotSharedLister() fwk.SharedLister                 { return h.nodes }
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h *handle) Parallelizer() fwk.Parallelizer                         { return processes{} }

// processes is a fwk.Parallelizer without the scheduler's metrics.
type processes struct{}

// few is the largest number of nodes that one goroutine checks alone: about 10 µs of work. It is
// also the chunk size for more nodes.
const few = 64

// Until implements fwk.Parallelizer.
func (processes) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	if pieces > few {
		workqueue.ParallelizeUntil(ctx, runtime.GOMAXPROCS(0), pieces, do, workqueue.WithChunkSize(few))
		return
	}
	for i := range pieces {
		do(i)
	}
}

// namespace adds a namespace. Like the API server, it adds the label with the namespace's name.
func (h *handle) namespace(name string, labels map[string]string) error {
	o := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelMetadataName: name}}}
	maps.Copy(o.Labels, labels)
	return h.factory.Core().V1().Namespaces().Informer().GetIndexer().Add(o)
}
