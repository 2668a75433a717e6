package load

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Pod is what the API server showed of one pod.
type Pod struct {
	UID  types.UID
	Name string
	// Milli is its request in thousandths of a CPU.
	Milli int64
	// Born is the creation time of the first pod of its line. A line is a pod and its replacements
	// after evictions.
	Born                    time.Time
	Created, Bound, Running time.Time
	Node                    string
	// Woken is the time from the last end of a pod on its node to its binding, if it had waited for
	// room.
	Woken time.Duration
	// Failed is true if its node's kubelet has rejected it.
	Failed bool
	// Ending is true once it is deleted.
	Ending bool
	spec   v1.PodSpec
	labels map[string]string
	seen   bool
}

// tracker follows the pods of a namespace. mu guards the pods too.
type tracker struct {
	mu   sync.Mutex
	pods map[string]*Pod // by name, without those in past
	// past has the pods that the API server does not have any more. ran is the number of those that
	// were bound. They are separate because a load looks at the others many times a second.
	past []*Pod
	ran  int
	// freed has, by node, the time at which its last pod ended.
	freed map[string]time.Time
}

// waited is the time after which a pod without a node counts as one that found no room.
const waited = 2 * time.Second

func (t *tracker) follow(ctx context.Context, client kubernetes.Interface, namespace string) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTransform(slim))
	informer := factory.Core().V1().Pods().Informer()
	see := func(o any) {
		if pod, is := o.(*v1.Pod); is {
			t.see(pod)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, o any) { see(o) },
		DeleteFunc: func(o any) {
			if gone, is := o.(cache.DeletedFinalStateUnknown); is {
				o = gone.Obj
			}
			if pod, is := o.(*v1.Pod); is {
				t.gone(pod)
			}
		},
	}); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	return nil
}

// slim removes fields that are not used.
func slim(o any) (any, error) {
	if pod, is := o.(*v1.Pod); is {
		pod.ManagedFields = nil
	}
	return o, nil
}

func (t *tracker) see(pod *v1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pods[pod.Name]
	if p == nil {
		return
	}
	now := time.Now()
	p.UID, p.seen = pod.UID, true
	if p.Node == "" && pod.Spec.NodeName != "" {
		p.Node, p.Bound = pod.Spec.NodeName, now
		if freed := t.freed[p.Node]; now.Sub(p.Created) > waited && freed.After(p.Created) {
			p.Woken = now.Sub(freed)
		}
	}
	if p.Running.IsZero() && pod.Status.Phase == v1.PodRunning {
		p.Running = now
	}
	p.Failed = p.Failed || pod.Status.Phase == v1.PodFailed
	p.Ending = p.Ending || pod.DeletionTimestamp != nil
}

func (t *tracker) gone(pod *v1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.pods[pod.Name]; p != nil {
		p.Ending = true
		t.freed[p.Node] = time.Now()
		delete(t.pods, p.Name)
		t.past = append(t.past, p)
		if !p.Bound.IsZero() {
			t.ran++
		}
	}
}
