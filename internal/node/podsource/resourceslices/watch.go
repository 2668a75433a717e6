package resourceslices

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/paddock-project/paddock/internal/codec/claims"
)

const (
	// answerTime limits the time of a list, and the time for which a watch may exceed its timeout.
	answerTime = 30 * time.Second
	// maxDevices limits the devices that are kept of all slices together, about 10 MiB.
	maxDevices = 65_536
)

// Options configure a watch.
type Options struct {
	// Node is the name of the Kubernetes node.
	Node string
	// PCI is used for devices whose attributes have no NUMA node. If nil, their NUMA nodes are not
	// known.
	PCI claims.PCI
	Log *slog.Logger
	// Changed is called after each change of Places. It must not wait. If nil, it is not called.
	Changed func()
}

// Watch watches the ResourceSlices of a node. It is safe for use by several goroutines.
type Watch struct {
	options Options
	client  *rest.RESTClient
	places  atomic.Pointer[claims.Places]
	first   chan struct{} // closed after the first list
	once    sync.Once

	mu      sync.Mutex
	trouble error // the error of the last request
	asked   bool  // a request was answered, or failed

	slices map[string]*claims.Slice // by name; used by the reflector's goroutine
}

// New returns a watch of an API server.
func New(c *rest.Config, o Options) (*Watch, error) {
	client, err := client(c)
	if err != nil {
		return nil, fmt.Errorf("ResourceSlices: %w", err)
	}
	return &Watch{options: o, client: client, first: make(chan struct{}), slices: map[string]*claims.Slice{}}, nil
}

// Places returns the places of the node's devices that are known now, or nil before the first list.
func (w *Watch) Places() *claims.Places { return w.places.Load() }

// First is closed when the first list is read.
func (w *Watch) First() <-chan struct{} { return w.first }

// Trouble returns the reason why the slices cannot be read now. It returns nil if they are read, or
// Run did not send a request yet.
func (w *Watch) Trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// Run lists and watches until ctx ends, and returns the cause of ctx.
func (w *Watch) Run(ctx context.Context) error {
	reflector := cache.NewReflectorWithOptions(source{w}, &object{}, store{w, ctx}, cache.ReflectorOptions{Name: "resourceslices"})
	reflector.RunWithContext(ctx)
	return context.Cause(ctx)
}

// report logs a problem once, and its end once.
func (w *Watch) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	changed := !w.asked || (w.trouble == nil) != (err == nil)
	w.trouble, w.asked = err, true
	w.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		w.options.Log.WarnContext(ctx, "the ResourceSlices of this node cannot be read: the agent uses the NUMA nodes of claims' devices that it knows, and those in metadata files",
			"node", w.options.Node, "error", err)
	default:
		w.options.Log.InfoContext(ctx, "the ResourceSlices of this node have been read", "node", w.options.Node)
	}
}

// source implements the reflector's cache.ListerWatcherWithContext.
type source struct{ of *Watch }

// IsWatchListSemanticsUnSupported makes the reflector list before it watches, because a list has an
// end.
func (source) IsWatchListSemanticsUnSupported() bool { return true }

// List and Watch implement cache.ListerWatcher. The reflector does not call them.
func (s source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o) //nolint:forbidigo // The interface has no context.
}

func (s source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o) //nolint:forbidigo // The interface has no context.
}

func (s source) request(o metav1.ListOptions) *rest.Request {
	o.FieldSelector = fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, s.of.options.Node).String()
	return s.of.client.Get().Resource("resourceslices").VersionedParams(&o, metav1.ParameterCodec)
}

// ListWithContext implements cache.ListerWithContext.
func (s source) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	within, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	l := &list{}
	err := s.request(o).Do(within).Into(l)
	s.of.report(ctx, err)
	return l, err
}

// WatchWithContext implements cache.WatcherWithContext.
func (s source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	longest := answerTime
	if o.TimeoutSeconds != nil {
		longest += time.Duration(*o.TimeoutSeconds) * time.Second
	}
	within, cancel := context.WithTimeout(ctx, longest)
	o.Watch = true
	events, err := s.request(o).Watch(within)
	s.of.report(ctx, err)
	if err != nil {
		cancel()
		return nil, err
	}
	return bounded{events, cancel}, nil
}

// bounded is a watch that ends with its context.
type bounded struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (b bounded) Stop() {
	b.cancel()
	b.Interface.Stop()
}

// store implements the reflector's cache.ReflectorStore. It stores slices and publishes their
// content.
type store struct {
	*Watch
	ctx context.Context //nolint:containedctx // It is for the log; the interface has none.
}

// Add implements cache.ReflectorStore.
func (s store) Add(o any) error { return s.change(o, true) }

// Update implements cache.ReflectorStore.
func (s store) Update(o any) error { return s.change(o, true) }

// Delete implements cache.ReflectorStore.
func (s store) Delete(o any) error { return s.change(o, false) }

// Resync implements cache.ReflectorStore.
func (store) Resync() error { return nil }

// Replace implements cache.ReflectorStore.
func (s store) Replace(all []any, _ string) error {
	clear(s.slices)
	for _, o := range all {
		if o, is := o.(*object); is {
			s.keep(o)
		}
	}
	s.publish()
	s.once.Do(func() { close(s.first) })
	return nil
}

func (s store) change(o any, there bool) error {
	slice, is := o.(*object)
	if !is {
		return fmt.Errorf("expected a ResourceSlice: got %T", o)
	}
	delete(s.slices, slice.Metadata.Name)
	if there {
		s.keep(slice)
	}
	s.publish()
	return nil
}

// keep stores a slice, unless an API server would not accept it, or there are too many devices or
// slices.
func (s store) keep(o *object) {
	devices := 0
	for _, kept := range s.slices {
		devices += kept.Devices()
	}
	slice, err := claims.ReadSlice(o.Spec, s.options.PCI)
	if err == nil && (devices+slice.Devices() > maxDevices || len(s.slices) == maxSlices) {
		err = fmt.Errorf("this node has more than %d devices or more than %d ResourceSlices", maxDevices, maxSlices)
	}
	if err != nil {
		s.options.Log.WarnContext(s.ctx, "a ResourceSlice is ignored: the NUMA nodes of its devices are unknown", "slice", o.Metadata.Name, "error", err)
		return
	}
	s.slices[o.Metadata.Name] = slice
}

func (s store) publish() {
	all := make([]*claims.Slice, 0, len(s.slices))
	for _, slice := range s.slices {
		all = append(all, slice)
	}
	s.places.Store(claims.PlacesOf(all, s.options.Node))
	if s.options.Changed != nil {
		s.options.Changed()
	}
}
