package plugin

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// Sink receives what the objects of nodes report. Its methods are called one at a time.
type Sink interface {
	// Update sets what the objects of a node report. A nil source means that the node has no
	// objects any more.
	Update(node string, source *cluster.Source)
	// Synced reports that Update was called for every object that existed at the start.
	Synced()
}

// Feed starts to follow the objects of nodes and returns. It follows them until the context ends.
type Feed func(ctx context.Context, handle fwk.Handle, sink Sink) error

// FromAPI follows the PaddockNodes and PaddockMachines of the API server.
func FromAPI(ctx context.Context, handle fwk.Handle, sink Sink) error {
	client, err := objects.NewClient(handle.KubeConfig())
	if err != nil {
		return fmt.Errorf("a client for PaddockNodes: %w", err)
	}
	log := klog.FromContext(ctx)
	var source *fleetsource.Source
	report := func(name string, err error) {
		if err != nil && source.Synced() { // Before that, its machine may not be read yet.
			log.Info("A PaddockNode cannot be used", "node", name, "reason", err.Error())
		}
	}
	source, err = fleetsource.NewSource(client, func(name string) {
		n, known, err := source.Node(name)
		report(name, err)
		if o := source.Object(name); err != nil && o != nil && o.Status.DecidedBy != nil {
			// A kubelet decides there, and it is not known how.
			sink.Update(name, &cluster.Source{Unsure: err.Error()})
			return
		}
		sink.Update(name, sourceOf(n, known, err))
	})
	if err != nil {
		return err
	}
	go source.Run(ctx)
	go func() {
		if !cache.WaitForCacheSync(ctx.Done(), source.Synced) {
			return
		}
		for _, name := range source.Names() {
			_, _, err := source.Node(name)
			report(name, err)
		}
		sink.Synced()
	}()
	return nil
}

// sourceOf returns what the objects of a node report.
func sourceOf(n *fleetsource.Node, known bool, err error) *cluster.Source {
	switch {
	case !known:
		return nil
	case err != nil:
		// The reason does not contain the error, which names the node. Otherwise an event of a pod
		// would have one sentence per such node.
		return &cluster.Source{Problem: "its PaddockNode or PaddockMachine cannot be read: the log of the scheduler has the reason"}
	case n.Kubelet != nil:
		return &cluster.Source{Node: n}
	case !n.Managing:
		return &cluster.Source{Node: n, Problem: "Paddock does not manage the node now: kubectl describe paddocknode shows why"}
	case !n.Complete:
		return &cluster.Source{Node: n, Problem: "the PaddockNode has no room for all grants"}
	}
	return &cluster.Source{Node: n}
}
