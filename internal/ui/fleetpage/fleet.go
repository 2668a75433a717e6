package fleetpage

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Fleet is a snapshot of a fleet. It does not change.
type Fleet struct {
	Title string
	// Summary describes the fleet in one line.
	Summary string
	// Answer has the kinds of nodes and the causes of rejections.
	Answer view.Fleet
	Views  []*fleet.View // ascending by name
	// Zones maps the name of a node or of a kind to its zone. Nodes without a zone have no entry.
	Zones map[string]string
	// Rejected are the pods that every node rejects.
	Rejected []Rejected
	// Counted has the rates at which nodes of a cluster reject pods. It is nil if the nodes are not
	// those of a cluster.
	Counted *view.FleetRejections
	// Counters count the pods that nodes of a cluster rejected, and Lately lists the last of these
	// pods.
	Counters []Counter
	Lately   []Lately
	// LeftOut are the nodes that are missing from Views. Notes are other remarks for the reader.
	LeftOut []Note
	Notes   []Note
	// Read reads pods from manifests that a reader pasted, and returns notes about settings without
	// effect. It limits the number of pods and ends with ctx. A Page runs only one call at a time.
	Read func(ctx context.Context, manifests []byte) (pods []fleet.Pod, notes []string, err error)
}

// Rejected is a pod that every node rejects.
type Rejected struct {
	Pod    string `json:"pod"` // namespace/name
	Reason string `json:"reason"`
}

// Counter counts the pods of one class that nodes of one kind rejected for one cause.
type Counter struct {
	view.RejectedClass
	// LastHour counts those of the last hour, or since the page is served if that is shorter.
	LastHour int64 `json:"lastHour"`
}

// Lately is a pod that its node rejected.
type Lately struct {
	Time    string `json:"time"`
	Node    string `json:"node"`
	Pod     string `json:"pod"`
	Class   string `json:"class"`
	Cause   string `json:"cause"`
	Message string `json:"message"`
}

// Note is a remark about a node.
type Note struct {
	Node string `json:"node"`
	Text string `json:"text"`
}

// found is the answer to a search. Nodes has the positions of the nodes that have the text in their
// own name or in the name of one of their pods, or that rejected a pod with the text in its name,
// class, cause or message. Pods, Rejected and Lately list the first matches.
type found struct {
	Nodes    []int       `json:"nodes"`
	Pods     [][2]string `json:"pods"` // pod, node
	Total    int         `json:"total"`
	Rejected []Rejected  `json:"rejected"` // by every node
	Lately   []Lately    `json:"lately"`   // by their nodes
}

// most is the largest number of pods, and of rejections, that an answer lists.
const most = 200

func (f *Fleet) search(text string) found {
	text = strings.ToLower(text)
	has := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), text) })
	}
	out := found{Nodes: []int{}, Pods: [][2]string{}, Rejected: []Rejected{}, Lately: []Lately{}}
	rejecting := map[string]bool{}
	for _, r := range f.Lately {
		if has(r.Pod, r.Class, r.Cause, r.Message) {
			rejecting[r.Node] = true
			if len(out.Lately) < most {
				out.Lately = append(out.Lately, r)
			}
		}
	}
	for i, v := range f.Views {
		hit := has(v.Name) || rejecting[v.Name]
		for g := range v.State.AllGrants() {
			if id := g.Pod.ID(); has(id) {
				hit = true
				out.Total++
				if len(out.Pods) < most {
					out.Pods = append(out.Pods, [2]string{id, v.Name})
				}
			}
		}
		if hit {
			out.Nodes = append(out.Nodes, i)
		}
	}
	for _, r := range f.Rejected {
		if len(out.Rejected) < most && has(r.Pod, r.Reason) {
			out.Rejected = append(out.Rejected, r)
		}
	}
	return out
}

// node is the detailed view of one node.
type node struct {
	Name   string    `json:"name"`
	Kind   string    `json:"kind"`
	Policy string    `json:"policy"`
	Pods   []nodePod `json:"pods"`
	Lately []Lately  `json:"lately"` // the pods that it rejected
}

type nodePod struct {
	Pod  string `json:"pod"`
	CPUs string `json:"cpus"`
	NUMA string `json:"numaNodes"`
}

func (f *Fleet) view(name string) *fleet.View {
	i, there := slices.BinarySearchFunc(f.Views, name, func(v *fleet.View, name string) int { return cmp.Compare(v.Name, name) })
	if !there {
		return nil
	}
	return f.Views[i]
}

func (f *Fleet) policy(kind string) string {
	for _, k := range f.Answer.Kinds {
		if k.Kind == kind {
			return k.Policy
		}
	}
	return ""
}

func (f *Fleet) node(v *fleet.View) node {
	n := node{Name: v.Name, Kind: v.Kind, Policy: f.policy(v.Kind), Pods: []nodePod{}, Lately: []Lately{}}
	for _, r := range f.Lately {
		if r.Node == v.Name {
			n.Lately = append(n.Lately, r)
		}
	}
	for g := range v.State.AllGrants() {
		cpus := g.CPUs()
		p := nodePod{Pod: g.Pod.ID(), CPUs: cpus.String()}
		if !cpus.IsEmpty() {
			p.NUMA = v.State.Machine().NodesOf(cpus).String()
		}
		n.Pods = append(n.Pods, p)
	}
	return n
}

// answers describes where the pasted pods would go, one after the other.
type answers struct {
	Pods  []placed `json:"pods"`
	Notes []string `json:"notes"`
}

// placed describes where one pod would go. Verdicts has an entry for each node: 0 if the node takes
// the pod, or the number of the reason in Reasons, counted from 1.
type placed struct {
	Pod      string   `json:"pod"`
	Node     string   `json:"node"` // empty if no node takes the pod
	CPUs     string   `json:"cpus"`
	NUMA     string   `json:"numaNodes"`
	Fits     int      `json:"fits"`
	Reasons  []reason `json:"reasons"`
	Verdicts []int    `json:"verdicts"`
}

type reason struct {
	Reason string `json:"reason"`
	Nodes  int    `json:"nodes"`
	// Node is the first of these nodes, and Detail the reason that its planner gives.
	Node   string `json:"node"`
	Detail string `json:"detail"`
}

// maxPods is the maximum number of pods in one question. Each pod is planned on every node.
const maxPods = 20

func (f *Fleet) place(ctx context.Context, pods []fleet.Pod, notes []string) (answers, error) {
	out := answers{Pods: []placed{}, Notes: append([]string{}, notes[:min(len(notes), maxNotes)]...)}
	if len(pods) > maxPods {
		out.Notes = append(out.Notes, view.Count(len(pods), "pod")+" were pasted; the first "+view.Count(maxPods, "pod")+" are placed")
		pods = pods[:maxPods]
	}
	views := slices.Clone(f.Views)
	for _, pod := range pods {
		p, next, err := placeOne(ctx, views, pod)
		if err != nil {
			return out, err
		}
		if next != nil {
			i, _ := slices.BinarySearchFunc(views, p.Node, func(v *fleet.View, name string) int { return cmp.Compare(v.Name, name) })
			views[i] = next
		}
		out.Pods = append(out.Pods, p)
	}
	return out, nil
}

// placeOne places one pod. next is the view of the pod's node with the pod, or nil if no node takes
// it.
func placeOne(ctx context.Context, views []*fleet.View, pod fleet.Pod) (p placed, next *fleet.View, err error) {
	verdicts, best, err := fleet.Judge(ctx, views, pod)
	if err != nil {
		return p, nil, err
	}
	p = placed{Pod: pod.ID(), Reasons: []reason{}, Verdicts: make([]int, len(verdicts))}
	numbers := map[string]int{}
	for i, v := range verdicts {
		if v.Fits {
			p.Fits++
			continue
		}
		text := capacity.Text(v.Why)
		if numbers[text] == 0 {
			r := reason{Reason: text, Node: views[i].Name}
			if plan := views[i].State.Plan(pod.On(&views[i].Node).Pod); plan.Rejection != nil && !v.Why.Amounts && !v.Why.NotAllowed {
				r.Detail = plan.Rejection.Detail
			}
			p.Reasons = append(p.Reasons, r)
			numbers[text] = len(p.Reasons)
		}
		p.Verdicts[i] = numbers[text]
		p.Reasons[numbers[text]-1].Nodes++
	}
	if best < 0 {
		return p, nil, nil
	}
	v, plan, err := views[best].Place(pod)
	if err != nil {
		return p, nil, err
	}
	p.Node = v.Name
	if g := plan.Grant; g != nil && !g.CPUs().IsEmpty() {
		p.CPUs, p.NUMA = g.CPUs().String(), v.State.Machine().NodesOf(g.CPUs()).String()
	}
	return p, v, nil
}
