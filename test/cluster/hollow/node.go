package hollow

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Node is one hollow node: the pods that are bound to it, and a host that runs them.
type Node struct {
	Name string
	Kind *Kind

	fleet  *Fleet
	record *record
	host   host

	// published reports whether the agent has written the node's object since it started.
	published atomic.Bool

	mu   sync.Mutex
	pods map[string]*worker
	// own is the pod of the agent. It does not run here, and is listed as on every node with the
	// DaemonSet. So the kubelet's list is never empty, and a list without a pod shows that the pod
	// is gone, even after a new connection.
	own *v1.Pod
	// tamper is what happens to the grants of pods that arrive: lost, corrupt or forged. If empty,
	// they are unchanged.
	tamper string
}

// host decides about the pods of a node and runs them, with an agent beside it: a managed host has
// the agent that decides, and an observed host a kubelet that decides. Its methods for a pod are
// called by the goroutine of the pod's worker.
type host interface {
	// begin starts the host. What it starts runs until ctx ends.
	begin(ctx context.Context) error
	// version is the version of Kubernetes of the node's kubelet.
	version() string
	// account is the name of the agent's service account.
	account() string
	// start starts what does not run yet of a pod.
	start(ctx context.Context, w *worker) progress
	// stop ends everything that runs of a pod.
	stop(ctx context.Context, w *worker)
	// gone is called once the API server does not have a stopped pod any more.
	gone(w *worker)
	// restart ends the agent, waits, and starts it again.
	restart(ctx context.Context, away time.Duration) error
	// changePolicy gives the node the next topology policy, and waits until it is published.
	changePolicy(ctx context.Context) error
	// inspect adds what the host has and what is wrong with it.
	inspect(out *NodeState)
	close()
}

// progress is how far the start of a pod is.
type progress int

const (
	// waiting means that something could not be started, and is tried again.
	waiting progress = iota
	running
	// rejected means that the pod will never run.
	rejected
)

// list returns what the kubelet serves: the pods that it knows, with its own status for them.
func (n *Node) list() *v1.PodList {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := &v1.PodList{}
	list.Kind, list.APIVersion = "PodList", "v1"
	for _, w := range n.pods {
		if !w.removed {
			list.Items = append(list.Items, *w.shown())
		}
	}
	if n.own != nil {
		list.Items = append(list.Items, *n.own)
	}
	return list
}

// observe passes a pod of the watch to its worker.
func (n *Node) observe(ctx context.Context, pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case isMirror(pod):
		return // The pod that it shows already runs.
	case isAgent(pod):
		n.own = pod
		return
	}
	uid := string(pod.UID)
	w := n.pods[uid]
	if w == nil {
		if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			return
		}
		w = &worker{node: n, uid: uid, ended: make(chan struct{}), tamper: n.tamper}
		n.pods[uid] = w
		n.fleet.workers.Go(func() { w.run(ctx) })
	}
	w.object = tampered(pod, w.tamper)
	if pod.DeletionTimestamp != nil {
		w.end()
	}
}

// forget handles the removal of a pod from the API: it ends whatever of the pod still runs.
func (n *Node) forget(pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.pods[string(pod.UID)]; w != nil {
		w.removed = true
		w.end()
		if w.over {
			delete(n.pods, w.uid)
		}
	}
}
