package hollow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/node/publication"
	"github.com/paddock-project/paddock/test/cluster/stock"
)

// Fleet represents the nodes of one process.
type Fleet struct {
	ctx    context.Context //nolint:containedctx // of everything that runs: orders of the driver start things that stay
	client kubernetes.Interface
	log    *slog.Logger // for rare messages about one pod
	// publishers has the client with which the agent of each node publishes.
	publishers map[string]*publication.Client
	nodes      map[string]*Node
	order      []*Node
	record     *record
	workers    sync.WaitGroup

	mu sync.Mutex
	// slow is the delay of the events of the watch.
	slow time.Duration
}

// New creates a fleet of nodes with these kinds. server is the address at which Serve will listen,
// and kubelets has the process of each minor version of a kind.
func New(ctx context.Context, config *rest.Config, kinds []*Kind, server string, kubelets map[string]*stock.Process) (*Fleet, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		ctx: ctx, client: client, log: slog.New(slog.NewTextHandler(os.Stderr, nil)), nodes: map[string]*Node{}, publishers: map[string]*publication.Client{},
		record: &record{hooks: map[string]*Latency{}, decided: map[string]*rejection.Rejection{}, outcomes: map[string]int{}},
	}
	for i, k := range kinds {
		name := NodeName(k, i)
		n := &Node{Name: name, Kind: k, fleet: f, record: f.record, pods: map[string]*worker{}}
		if k.Minor == "" {
			n.host = newManaged(ctx, n, "http://"+server+"/nodes/"+name+"/pods")
		} else {
			n.host = &observed{Node: n, process: kubelets[k.Minor], unpublished: map[string]time.Time{}, decided: map[string]time.Time{}}
		}
		if f.publishers[name], err = publication.NewClient(asAgent(config, name, n.host.account())); err != nil {
			return nil, err
		}
		f.nodes[name] = n
		f.order = append(f.order, n)
	}
	return f, nil
}

// asAgent returns the client configuration of the agent of a node. It impersonates the agent's
// service account with a token that is bound to its node, so that the API server sees the agent.
func asAgent(config *rest.Config, node, account string) *rest.Config {
	c := rest.CopyConfig(config)
	c.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + agentNamespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + agentNamespace, "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
	return c
}

// NodeName returns the name of the node with that index in the list of kinds.
func NodeName(k *Kind, i int) string { return fmt.Sprintf("%s-%04d", k.Name, i) }

// Run registers the nodes, starts their agents, and runs pods until ctx ends. It calls ready once
// everything runs.
func (f *Fleet) Run(ctx context.Context, ready func()) error {
	if err := f.each(ctx, func(ctx context.Context, n *Node) error {
		if err := n.host.begin(ctx); err != nil {
			return err
		}
		return errors.Join(f.register(ctx, n), f.createAgent(ctx, n))
	}); err != nil {
		return err
	}
	f.workers.Go(func() { f.heartbeats(ctx) })
	if err := f.watch(ctx); err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	f.workers.Wait()
	for _, n := range f.order {
		n.host.close()
	}
	return nil
}

// parallel is the number of nodes that are registered at a time.
const parallel = 16

// each calls do for every node, several at a time. do gets the fleet's context, so what it starts
// keeps running.
func (f *Fleet) each(ctx context.Context, do func(context.Context, *Node) error) error {
	var group sync.WaitGroup
	slots := make(chan struct{}, parallel)
	var mu sync.Mutex
	var errs []error
	for _, n := range f.order {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := do(ctx, n); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// watch follows the pods of all nodes with one watch.
func (f *Fleet) watch(ctx context.Context) error {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "")
	lw := cache.NewListWatchFromClient(f.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, bound)
	informer := cache.NewSharedInformer(lw, &v1.Pod{}, 0)
	if err := informer.SetTransform(slim); err != nil {
		return err
	}
	events := make(chan event, mostEvents)
	f.workers.Go(func() { handle(ctx, events) })
	give := func(object any, do func(*Node, *v1.Pod)) {
		if gone, is := object.(cache.DeletedFinalStateUnknown); is {
			object = gone.Obj
		}
		pod, is := object.(*v1.Pod)
		if !is {
			return
		}
		if n := f.nodes[pod.Spec.NodeName]; n != nil {
			f.mu.Lock()
			at := time.Now().Add(f.slow)
			f.mu.Unlock()
			events <- event{at, func() { do(n, pod) }}
		}
	}
	observe := func(n *Node, pod *v1.Pod) { n.observe(ctx, pod) }
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { give(o, observe) },
		UpdateFunc: func(_, o any) { give(o, observe) },
		DeleteFunc: func(o any) { give(o, func(n *Node, pod *v1.Pod) { n.forget(pod) }) },
	}); err != nil {
		return err
	}
	f.workers.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	return nil
}

// slim removes fields that the kubelet does not need, and with which thousands of pods would fill
// the memory.
func slim(object any) (any, error) {
	if pod, is := object.(*v1.Pod); is {
		pod.ManagedFields = nil
	}
	return object, nil
}

// event is an event of the watch, to be handled at a certain time.
type event struct {
	at time.Time
	do func()
}

// mostEvents is more than the number of events that can wait at any time.
const mostEvents = 100_000

// handle handles events in order, each when it is due.
func handle(ctx context.Context, events <-chan event) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if d := time.Until(e.at); d > 0 {
				select {
				case <-time.After(d):
				case <-ctx.Done():
					return
				}
			}
			e.do()
		}
	}
}

// handler serves the kubelets' lists, and the driver.
func (f *Fleet) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nodes/{node}/pods", func(w http.ResponseWriter, r *http.Request) {
		n := f.nodes[r.PathValue("node")]
		if n == nil {
			http.NotFound(w, r)
			return
		}
		answer(w, n.list())
	})
	f.serveDriver(ctx, mux)
	return mux
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(what); err != nil {
		panic(http.ErrAbortHandler) // The client has disconnected.
	}
}

// Serve serves the lists of the kubelets, and the driver, until ctx ends.
func (f *Fleet) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: f.handler(ctx), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
