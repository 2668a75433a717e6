package fleetwatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/base/authorizer"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/objects"
)

// notEnded selects pods that have not ended: the API server sends no others.
var notEnded = fields.ParseSelectorOrDie("status.phase!=" + string(v1.PodSucceeded) + ",status.phase!=" + string(v1.PodFailed))

// Watch watches a cluster. Several goroutines may use it.
type Watch struct {
	source       *fleetsource.Source
	core, custom rest.Interface
	now          func() time.Time
	contact      *contact

	mu      sync.Mutex
	cluster *clusterstate.Cluster
	// shown has the names of the PaddockNodes that changed since the last moment.
	shown    map[string]bool
	listed   map[string]bool // "nodes" and "pods", after their first list
	changed  chan struct{}
	recent   recent
	problems map[string]trouble // of pods that cannot be kept, by namespace/name
}

// New returns a watch of a cluster. It sends no request.
func New(config *rest.Config, now func() time.Time) (*Watch, error) {
	w := &Watch{
		now: now, shown: map[string]bool{}, listed: map[string]bool{}, changed: make(chan struct{}), recent: recent{},
		problems: map[string]trouble{},
	}
	w.contact = &contact{now: now, changed: w.wake, trouble: map[string]trouble{}, allowed: map[string]*authorizer.Watch{}}
	watched := rest.CopyConfig(config)
	watched.Timeout = 0 // A timeout would end watches.
	watched.Wrap(w.contact.wrap)
	var err error
	if w.custom, err = objects.NewClient(watched); err != nil {
		return nil, err
	}
	if w.core, err = coreClient(watched); err != nil {
		return nil, err
	}
	if w.source, err = fleetsource.NewSource(w.custom, w.paddockChanged); err != nil {
		return nil, err
	}
	w.cluster = clusterstate.New(w.source.Machine)
	return w, nil
}

// KeepPeers adds what matters about pods for other pods to the moments. Call it before Run.
func (w *Watch) KeepPeers() { w.cluster.KeepPeers() }

// coreClient returns a client for nodes and pods. It prefers protobuf, which takes a fifth of the
// time of JSON to decode.
func coreClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/api", &v1.SchemeGroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return rest.RESTClientFor(c)
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { w.source.Run(ctx) })
	all.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), w.source.Synced) {
			w.wake()
		}
	})
	for _, s := range []store{
		{w, "nodes", &v1.Node{}, fields.Everything(), slimNode},
		{w, "pods", &v1.Pod{}, notEnded, slimPod},
	} {
		list := cache.NewListWatchFromClient(w.core, s.resource, metav1.NamespaceAll, s.selector)
		reflector := cache.NewReflectorWithOptions(list, s.example, s, cache.ReflectorOptions{Name: s.resource})
		all.Go(func() { reflector.RunWithContext(ctx) })
	}
	all.Wait()
}

// Synced reports whether every object that existed at the start has been read.
func (w *Watch) Synced() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.listed) == 2 && w.source.Synced()
}

// Changed returns a channel that is closed at the next change of Moment, Synced or Trouble.
func (w *Watch) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *Watch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked()
}

func (w *Watch) wakeLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// paddockChanged is called by the source, which already has the object.
func (w *Watch) paddockChanged(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown[name] = true
	w.wakeLocked()
}

// Moment returns what is known now, and how many pods were rejected in the last hour, as far as
// this watch observed it.
func (w *Watch) Moment() (*clusterstate.Moment, map[Row]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	grown := map[string][]v1alpha1.RejectionCount{}
	for name := range w.shown {
		if more := w.cluster.SetPaddock(name, w.source.Object(name)); len(more) > 0 {
			grown[name] = more
		}
	}
	clear(w.shown)
	m := w.cluster.Moment()
	minute := w.now().Unix() / 60
	for name, counts := range grown {
		for _, n := range counts {
			w.recent.add(Row{w.cluster.Group(name), n.Class, n.Cause}, minute, n.Count)
		}
	}
	return m, w.recent.hour(minute)
}

// Shapes returns the requests of the cluster's pods for exclusive CPUs, and the number of pods with
// each.
func (w *Watch) Shapes() []fleet.Shape {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cluster.Shapes()
}

// Trouble returns since when something cannot be read, and why: the oldest reason of the API server
// or, if it answers, of a pod that cannot be kept. why is empty if everything can be read.
func (w *Watch) Trouble() (since time.Time, why string) {
	if since, why = w.contact.worst(); why != "" {
		return since, why
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.problems)) {
		if p := w.problems[name]; why == "" || p.since.Before(since) {
			since, why = p.since, "pod "+name+" cannot be read: "+p.why
		}
	}
	return since, why
}
