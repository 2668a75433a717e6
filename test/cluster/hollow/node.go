package hollow

import (
	"context"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

// Node is one hollow node: a kubelet, a runtime, a disk, and an agent that may not run.
type Node struct {
	Name string
	Kind *Kind

	fleet   *Fleet
	record  *record
	runtime *sim.Runtime
	marks   marks
	// lists is the URL of the kubelet's list.
	lists string

	// published reports whether the agent has written the node's object since it started.
	published atomic.Bool

	mu    sync.Mutex
	agent *life
	// disk has the state of the agent, and survives it.
	disk    *crashfs.FS
	changed *node.Policy // instead of the kind's, from the next start of the agent on
	pods    map[string]*worker
	// own is the pod of the agent. It does not run here, and is listed as on every node with the
	// DaemonSet. So the kubelet's list is never empty, and a list without a pod shows that the pod
	// is gone, even after a new connection.
	own *v1.Pod
	// tamper is what happens to the grants of pods that arrive: lost, corrupt or forged. If empty,
	// they are unchanged.
	tamper string
}

// policy returns the policy with which the agent starts.
func (n *Node) policy() node.Policy {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		return *n.changed
	}
	return n.Kind.State.Policy()
}

// State returns the agent's state, or nil while the agent does not run.
func (n *Node) State() *node.State {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.agent == nil {
		return nil
	}
	return n.agent.State()
}

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
		w = &worker{node: n, uid: uid, ended: make(chan struct{}), ids: map[string]string{}, done: map[string]bool{}, tamper: n.tamper}
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
