package publication

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/node/reconcile"
)

// Client sends requests to an API server.
type Client struct{ core, own rest.Interface }

// NewClient returns a client. It sends no request.
func NewClient(config *rest.Config) (*Client, error) {
	own, err := objects.NewClient(config)
	if err != nil {
		return nil, err
	}
	core, err := reconcile.NewClient(config)
	if err != nil {
		return nil, err
	}
	return &Client{core, own}, nil
}

// Node returns a Node.
func (c *Client) Node(ctx context.Context, name string) (*v1.Node, error) {
	var node v1.Node
	there, err := reconcile.Read(ctx, c.core.Get().Resource("nodes").Name(name), &node)
	if err == nil && !there {
		err = errors.New("it does not exist")
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return &node, nil
}

// addMachine creates a PaddockMachine if it does not exist.
func (c *Client) addMachine(ctx context.Context, m *v1alpha1.PaddockMachine) error {
	there, err := reconcile.Read(ctx, c.own.Get().Resource(v1alpha1.PaddockMachines).Name(m.Name), &struct{}{})
	if err == nil && !there {
		_, err = reconcile.Send(ctx, c.own.Post().Resource(v1alpha1.PaddockMachines), m)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("PaddockMachine %s: %w", m.Name, err)
	}
	return nil
}

// put writes the object of a node. It creates the object if it has no resource version.
func (c *Client) put(ctx context.Context, o *v1alpha1.PaddockNode) (*v1alpha1.PaddockNode, error) {
	request := c.own.Post()
	if o.ResourceVersion != "" {
		request = c.own.Put().Name(o.Name)
	}
	out, err := reconcile.Send(ctx, request.Resource(v1alpha1.PaddockNodes), o)
	if err != nil {
		return nil, fmt.Errorf("PaddockNode %s: %w", o.Name, reconcile.Lost(err))
	}
	return out, nil
}

// watch calls changed with every version of a node's object, whoever wrote it, and with nil if the
// object is gone. It returns when ctx ends.
func (c *Client) watch(ctx context.Context, name string, changed func(*v1alpha1.PaddockNode)) {
	list := cache.NewListWatchFromClient(c.own, v1alpha1.PaddockNodes, metav1.NamespaceAll, fields.OneTermEqualSelector("metadata.name", name))
	notice := func(o any) {
		if node, ok := o.(*v1alpha1.PaddockNode); ok {
			changed(node)
		}
	}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: list, ObjectType: &v1alpha1.PaddockNode{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: notice, UpdateFunc: func(_, o any) { notice(o) }, DeleteFunc: func(any) { changed(nil) },
		},
	})
	var first sync.WaitGroup
	defer first.Wait()
	first.Go(func() { // A deletion before the first list makes no event.
		if cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) && len(store.ListKeys()) == 0 {
			changed(nil)
		}
	})
	controller.RunWithContext(ctx)
}
