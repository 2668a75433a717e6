package plugin

import (
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// gangKey is the key of the plugin's entry in the state of a pod group's cycle.
const gangKey fwk.StateKey = Name + "/gang"

// gang is what the plugin knows of one attempt to schedule a pod group. All members share it, and
// so do the groups below a composite one. The scheduler reserves every member on trial and takes
// all of them back. Only then it reserves them for their bindings, outside of the attempt.
type gang struct {
	trial *cluster.Trial
	// begun is when the attempt began, just after the scheduler took its snapshot.
	begun time.Time
	// preempting is set if the attempt finds out which pods to preempt: the scheduler has removed
	// pods from its snapshot. Such an attempt never binds a pod, so it changes nothing of what is
	// known of waiting pods.
	preempting bool
	// movers has, by node, the member for which the node would move running pods.
	movers map[string]types.UID
	// last is the newest of the members that have a place.
	last *placement
}

// Clone returns the same attempt.
func (g *gang) Clone() fwk.StateData { return g }

// placement is the place of a member of a pod group. It is immutable.
type placement struct {
	uid      types.UID
	node     string
	pod      fleet.Pod
	question *memo.Question
	older    *placement
}

// all yields the placements, the newest first.
func (p *placement) all() iter.Seq[*placement] {
	return func(yield func(*placement) bool) {
		for ; p != nil && yield(p); p = p.older {
			continue
		}
	}
}

// gangOf returns the attempt to which a cycle belongs, and creates it for the first member. It
// returns nil if the pod is scheduled on its own.
func (p *Plugin) gangOf(state fwk.CycleState) *gang {
	if !state.IsPodGroupSchedulingCycle() {
		return nil
	}
	group := state.GetPodGroupSchedulingCycle()
	for parent := group.GetParentPlacementCycleState(); parent != nil; parent = group.GetParentPlacementCycleState() {
		group = parent.GetPodGroupSchedulingCycle()
	}
	if data, err := group.Read(gangKey); err == nil {
		if g, ok := data.(*gang); ok {
			return g
		}
	}
	g := &gang{trial: p.cluster.Trial(), begun: time.Now(), preempting: p.preempting(), movers: map[string]types.UID{}}
	group.Write(gangKey, g)
	return g
}

// probe is a pod that no scheduler knows.
var probe = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: Name}}

// preempting reports whether the scheduler has removed pods from its snapshot, or is about to. The
// framework has no question for that, and a snapshot takes pods only then. The probe is on a node
// without a name, and is removed at once.
func (p *Plugin) preempting() bool {
	snapshot := p.handle.MutableSnapshotSharedLister()
	if snapshot == nil {
		return false
	}
	info, err := framework.NewPodInfo(probe)
	if err != nil || snapshot.AddPod(info, "") != nil {
		return false
	}
	if err := snapshot.RemovePod(klog.Background(), probe, ""); err != nil {
		klog.Background().Error(err, "A pod that does not exist stays in the scheduler's snapshot until the end of this cycle")
	}
	return true
}

// sight returns a node for the trial.
func (g *gang) sight(info fwk.NodeInfo) cluster.Sight {
	s := cluster.Sight{Name: info.Node().Name, Generation: info.GetGeneration(), Count: func() (has, used fleet.Amounts) {
		return allocatable(info), amounts(info.GetRequested(), len(info.GetPods()))
	}}
	if g.preempting {
		s.Pods = func(yield func(*v1.Pod) bool) {
			for _, pod := range info.GetPods() {
				if !yield(pod.GetPod()) {
					return
				}
			}
		}
	}
	return s
}

// place records the place of a member. The scheduler takes places back in the reverse order.
func (g *gang) place(node string, pod fleet.Pod, q *memo.Question) {
	g.last = &placement{types.UID(pod.UID), node, pod, q, g.last}
}

// placed returns the newest placement.
func (g *gang) placed() *placement {
	if g == nil {
		return nil
	}
	return g.last
}

// take takes the place of a member back.
func (g *gang) take(node string, uid types.UID) {
	g.trial.Unreserve(node, string(uid))
	if g.movers[node] == uid {
		delete(g.movers, node)
	}
	g.last = g.last.without(uid)
}

// without returns the placements without that of a member. If it is not the newest, the newer ones
// are copied.
func (p *placement) without(uid types.UID) *placement {
	switch {
	case p == nil:
		return nil
	case p.uid == uid:
		return p.older
	}
	rest := p.older.without(uid)
	if rest == p.older {
		return p
	}
	next := *p
	next.older = rest
	return &next
}

// newsFor reports whether a node has room for one more member of the group than in the attempt in
// which the members of beside were placed and the pod was not. Other members count as well as the
// pod: if one of them takes this node, its place elsewhere is free for the pod. It returns true if
// no member was placed on the node.
func newsFor(beside *placement, node string, view *memo.Node, question *memo.Question) bool {
	questions := []*memo.Question{question}
	here := 0
	for p := range beside.all() {
		if p.node == node {
			here++
			if next, plan, err := view.Place(p.pod); err == nil && plan.Grant != nil {
				view = next
			}
		}
		if p.question != nil && p.question != questions[len(questions)-1] {
			questions = append(questions, p.question)
		}
	}
	if here == 0 {
		return true
	}
	for _, q := range questions {
		if answer, _ := view.Answer(q); answer.Fits {
			return true
		}
	}
	return false
}
