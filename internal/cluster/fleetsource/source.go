package fleetsource

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// Source watches the PaddockNodes and PaddockMachines of a cluster.
type Source struct {
	nodes, machines cache.SharedIndexInformer
	// handlers call changed for the nodes and for the machines. They are synced later than their
	// informers.
	handlers [2]cache.ResourceEventHandlerRegistration
	changed  func(name string)
	// notice serializes the calls of changed, which two informers make.
	notice sync.Mutex

	mutex sync.Mutex
	// made has the machines by digest, because nodes of a kind share one. It has an entry for every
	// object that was requested and exists.
	made map[string]made
}

type made struct {
	machine *machine.Machine
	err     error
}

// NewSource returns a source. client must come from objects.NewClient. changed is called with the
// name of each node of which something changed or that is gone, one call at a time. It must not
// block.
func NewSource(client rest.Interface, changed func(name string)) (*Source, error) {
	s := &Source{
		nodes:    informer(client, v1alpha1.PaddockNodes, &v1alpha1.PaddockNode{}),
		machines: informer(client, v1alpha1.PaddockMachines, &v1alpha1.PaddockMachine{}),
		changed:  changed, made: map[string]made{},
	}
	for i, each := range []func(name string){s.nodeChanged, s.machineChanged} {
		informer := []cache.SharedIndexInformer{s.nodes, s.machines}[i]
		if err := informer.SetTransform(slim); err != nil {
			return nil, err
		}
		notice := func(o any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
				s.notice.Lock()
				defer s.notice.Unlock()
				each(name)
			}
		}
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: notice, UpdateFunc: func(_, o any) { notice(o) }, DeleteFunc: notice,
		})
		if err != nil {
			return nil, err
		}
		s.handlers[i] = handler
	}
	return s, nil
}

func informer(client rest.Interface, resource string, example runtime.Object) cache.SharedIndexInformer {
	list := cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything())
	return cache.NewSharedIndexInformer(list, example, 0, nil)
}

// slim removes what is not used here. With thousands of nodes, that is most of the memory.
func slim(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}

// Run watches until the context ends.
func (s *Source) Run(ctx context.Context) {
	var watches sync.WaitGroup
	watches.Go(func() { s.machines.RunWithContext(ctx) })
	watches.Go(func() { s.nodes.RunWithContext(ctx) })
	watches.Wait()
}

// Synced reports whether every object that existed at the start was read and passed to changed.
func (s *Source) Synced() bool { return s.handlers[0].HasSynced() && s.handlers[1].HasSynced() }

func (s *Source) nodeChanged(name string) { s.changed(name) }

// machineChanged forgets a machine and reports the nodes that use it. A node may refer to a machine
// before the machine arrives here.
func (s *Source) machineChanged(digest string) {
	s.mutex.Lock()
	delete(s.made, digest)
	s.mutex.Unlock()
	for _, o := range s.nodes.GetStore().List() {
		if n, ok := o.(*v1alpha1.PaddockNode); ok && n.Status.Machine == digest {
			s.changed(n.Name)
		}
	}
}

// Names returns the names of the nodes that have a PaddockNode.
func (s *Source) Names() []string { return s.nodes.GetStore().ListKeys() }

// Node returns the current content of the PaddockNode with this name. known is false if there is
// none, because Paddock does not manage the node. The error is that of Read.
func (s *Source) Node(name string) (n *Node, known bool, err error) {
	o := s.Object(name)
	if o == nil {
		return nil, false, nil
	}
	n, err = Read(o, s.Machine)
	return n, true, err
}

// Object returns the PaddockNode with this name, or nil if there is none. The caller must not
// change it.
func (s *Source) Object(name string) *v1alpha1.PaddockNode {
	found, _, err := s.nodes.GetStore().GetByKey(name)
	o, is := found.(*v1alpha1.PaddockNode)
	if err != nil || !is {
		return nil
	}
	return o
}

// Machine returns the machine of a digest. When the machine arrives later, the nodes that refer to
// it are reported as changed.
func (s *Source) Machine(digest string) (*machine.Machine, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if m, known := s.made[digest]; known {
		return m.machine, m.err
	}
	found, _, err := s.machines.GetStore().GetByKey(digest)
	if err != nil {
		return nil, err
	}
	o, known := found.(*v1alpha1.PaddockMachine)
	if !known {
		return nil, fmt.Errorf("its machine, PaddockMachine %s, is not here yet", digest)
	}
	m, err := objects.ReadMachine(o)
	s.made[digest] = made{m, err}
	return m, err
}
