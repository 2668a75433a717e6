package program

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// maxWaiting is the number of bound pods up to which every order is tried. All subsets of four pods
// have 64 orders.
const maxWaiting = 4

// maxTried is the maximum number of decisions for these orders. 100,000 decisions take about ten
// seconds.
const maxTried = 100_000

// stock is the node to which a kubelet's state belongs, as far as its files show it. It is nil for
// other states.
type stock struct {
	shown *treatment.Shown
	// node is the node to which the files belong. It is nil for a saved state.
	node *treatment.StockNode
	// waiting are the pods that are bound to the node and about which the kubelet has not decided.
	waiting []*v1.Pod
}

// certainty returns how sure the displayed state of the node is, or nil if no kubelet decides
// there.
func (k *stock) certainty(as *asFlag) *view.Certainty {
	switch {
	case as == nil || !as.kubelet():
		return nil
	case k == nil:
		return view.CertaintyOf(nil, nil)
	}
	return view.CertaintyOf(k.shown.OfNode(), podNames(k.waiting))
}

// whatIf returns notes if the answer is not about the node as it is; see StockNode.WhatIf.
func (d *decider) whatIf() []string {
	if d.stock == nil || d.stock.node == nil {
		return nil
	}
	return d.stock.node.WhatIf
}

func podNames(pods []*v1.Pod) []string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Namespace + "/" + p.Name
	}
	return names
}

// certainty returns how sure the decision is, or nil if Paddock decided and the decision is sure.
func (made *decision) certainty(d *decider) *view.Certainty {
	if !d.as.kubelet() && !made.isUnsure() {
		return nil
	}
	return view.CertaintyOf(made.doubts, made.pending)
}

// isUnsure reports whether the node may act differently.
func (made *decision) isUnsure() bool { return len(made.doubts) > 0 }

// doubt adds the reasons why the kubelet may decide differently about the pod.
func (d *decider) doubt(made *decision) {
	if !d.as.kubelet() {
		return
	}
	if d.stock != nil {
		made.doubts = append(made.doubts, d.stock.shown.Doubts(&made.plan.Pod)...)
	}
	for _, q := range made.quirks {
		if !q.Certain {
			made.doubts = append(made.doubts, view.Doubt{Reason: q.Text, Give: "compare with the status of the pod: no file shows which devices are left when its containers start"})
		}
	}
}

// doubtUnlisted makes the admission of a pod unsure if the pod asks for an extended resource that
// the node is not known to have. If the node lists others, a kubelet admits such a pod, but the
// scheduler does not bind it to the node. Without any list, the devices of the node may lead to a
// different decision.
func (d *decider) doubtUnlisted(made *decision, pod *v1.Pod) {
	inventory := made.before.Devices().Inventory()
	unlisted := node.UnlistedResources(&made.plan.Pod, inventory)
	listed, known := d.listed(inventory)
	names := slices.DeleteFunc(slices.Clone(unlisted), func(name string) bool { return slices.Contains(listed, name) })
	switch {
	case made.plan.Known || len(names) == 0:
		return
	case made.plan.Rejection != nil: // Devices admit no pod that is rejected without them.
		if !known {
			made.adviseUnlisted(unlisted)
		}
		return
	case !known && d.stock != nil: // The doubts about the kubelet's files have these resources.
	case !known:
		for _, name := range names {
			made.doubts = append(made.doubts, unlistedDoubt(name))
		}
	case pod.Spec.NodeName != "": // The scheduler bound it, whatever the node lists.
		return
	default:
		for _, name := range names {
			give := spelling.InsteadOfResource(name, listed, fmt.Sprintf("add %s to the devices of the node, if it has them", name))
			made.doubts = append(made.doubts, view.Doubt{
				Reason: fmt.Sprintf("the node lists no %s: the scheduler would not bind the pod to it (Insufficient %s)", name, name), Give: give,
			})
		}
	}
	made.withoutNote(node.UnlistedNote(unlisted)) // The doubts take the place of the note.
}

// listed returns the resources that the node is known to have, and whether anything lists its
// extended resources.
func (d *decider) listed(inventory *device.Inventory) (names []string, known bool) {
	names = slices.Clone(inventory.Resources())
	known = len(names) > 0
	if d.stock == nil || d.stock.node == nil {
		return names, known
	}
	if o := d.stock.node.Objects.Nodes[d.stock.node.Name]; o != nil {
		for name := range o.Status.Allocatable {
			names = append(names, string(name))
		}
	}
	return names, len(names) > 0 || d.stock.shown.KnowsDevices()
}

// unlistedDoubt returns the doubt about an extended resource of a pod if nothing lists the devices
// of the node.
func unlistedDoubt(name string) view.Doubt {
	return view.Doubt{
		Reason: fmt.Sprintf("it is not known which devices of %s the node has: they are not counted, and nothing is aligned with them", name),
		Give:   spelling.InsteadOfUnlisted([]string{name}, "give the devices of the node with --devices, or collect the node (paddock collect)"),
	}
}

// withoutNote removes a note from the decision, and reports whether there was one.
func (made *decision) withoutNote(note string) bool {
	at := slices.Index(made.plan.Trace.Notes, note)
	if at >= 0 {
		made.plan.Trace.Notes = slices.Delete(slices.Clone(made.plan.Trace.Notes), at, at+1)
	}
	return at >= 0
}

// adviseUnlisted adds advice to the note about resources that no inventory has.
func (made *decision) adviseUnlisted(names []string) {
	if note := node.UnlistedNote(names); made.withoutNote(note) {
		made.plan.Trace.Notes = append(made.plan.Trace.Notes, note+"; "+spelling.InsteadOfUnlisted(names, "give the devices of the node with --devices"))
	}
}

// doubtUnplaced makes the admission of a pod by a kubelet unsure if the pod asks for devices with
// unknown NUMA nodes.
func (d *decider) doubtUnplaced(made *decision) {
	if !d.as.kubelet() || made.plan.Rejection != nil || made.plan.Known {
		return
	}
	var done []string
	for i := range made.plan.Pod.Containers {
		for _, a := range made.plan.Pod.Containers[i].Devices {
			note := made.before.UnplacedNote(a.Resource)
			if note == "" || slices.Contains(done, note) || !made.withoutNote(note) {
				continue
			}
			done = append(done, note)
			if d.stock == nil || !d.stock.shown.Unplaced(a.Resource) {
				made.doubts = append(made.doubts, view.Doubt{Reason: note, Give: treatment.GiveNUMANodes})
			}
		}
	}
}

// pending decides about the pods in every order, together with the pods that are bound to the node
// and about which the kubelet has not decided. If another order leads to a different decision, the
// decision is unsure, and otherwise it is pending. before is the state before the first decision.
func (d *decider) pending(ctx context.Context, before *node.State, pods []*v1.Pod, gates podspec.Gates, decided []decision) error {
	if d.stock == nil || len(decided) == 0 {
		return nil
	}
	var waiting []*v1.Pod
	for _, p := range d.stock.waiting {
		same := func(q *v1.Pod) bool { return q.UID == p.UID && q.Name == p.Name && q.Namespace == p.Namespace }
		if !slices.ContainsFunc(pods, same) {
			waiting = append(waiting, podspec.Default(p, gates))
		}
	}
	for i := range decided {
		decided[i].pending = podNames(waiting)
	}
	if len(waiting) > maxWaiting || len(orders(waiting))*len(pods) > maxTried {
		undecided(decided, fmt.Sprintf("%d pods are bound to the node, such as %s/%s, and the kubelet has not decided about them", len(waiting), waiting[0].Namespace, waiting[0].Name))
		return nil
	}
	differs := make([]bool, len(decided)) // The shortest order that makes a difference is the reason.
	for _, first := range orders(waiting) {
		other := decider{as: d.as, started: d.started, claims: d.claims, kubelet: quirk.New(d.as.version), beside: decided[0].beside}
		if slices.ContainsFunc(decided, func(made decision) bool { return len(made.placed) > 0 }) {
			other.stock = d.stock // These decisions are those with the places of devices, and so are the others.
		}
		all, _, err := other.admitAll(ctx, before, slices.Concat(first, pods), gates)
		if err != nil {
			return err
		}
		for i := range decided {
			if there := all[len(first)+i].plan; !differs[i] && !sameVerdict(there, decided[i].plan) {
				undecided(decided[i:i+1], whenFirst(first, there))
				differs[i] = true
			}
		}
	}
	return nil
}

// whenFirst describes the kubelet's decision about a pod if it decides about other pods first.
func whenFirst(first []*v1.Pod, then *node.Plan) string {
	names := podNames(first)
	if len(names) == 1 {
		return fmt.Sprintf("%s is bound to the node, and the kubelet has not decided about it: if it is first, this pod is %s", names[0], verdict(then))
	}
	return fmt.Sprintf("%s are bound to the node, and the kubelet has not decided about them: if they are first, in this order, this pod is %s", strings.Join(names, ", "), verdict(then))
}

// undecided makes decisions unsure because of pods about which the kubelet has not decided.
func undecided(decided []decision, reason string) {
	for i := range decided {
		decided[i].doubts = append(decided[i].doubts, view.Doubt{Reason: reason, Give: "collect the files and the pods again when these pods have started or failed"})
	}
}

// orders returns all orders of all non-empty subsets of pods, the shortest first.
func orders(pods []*v1.Pod) [][]*v1.Pod {
	var all [][]*v1.Pod
	last := [][]*v1.Pod{nil}
	for range pods {
		var longer [][]*v1.Pod
		for _, order := range last {
			for _, p := range pods {
				if !slices.Contains(order, p) {
					longer = append(longer, append(slices.Clip(order), p))
				}
			}
		}
		all, last = append(all, longer...), longer
	}
	return all
}

func sameVerdict(a, b *node.Plan) bool {
	return (a.Rejection == nil) == (b.Rejection == nil) && (a.Rejection == nil || a.Rejection.Reason == b.Rejection.Reason)
}

func verdict(p *node.Plan) string {
	if p.Rejection == nil {
		return "admitted"
	}
	return "rejected (" + string(p.Rejection.Reason) + ")"
}
