package treatment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// Room looks for what would admit a pod that OutOf rejects: smaller requests, or the absence of
// other pods.
type Room struct {
	// Pod is the rejected pod, with defaults, and Pods are those of its node.
	Pod  *v1.Pod
	Pods inputs.Roster
	// Node is the Node of the pods, and Gates are those of its kubelet.
	Node  *v1.Node
	Gates podspec.Gates
	// State is the node without the pod. Plan is what the managers of its kubelet decide about a
	// pod.
	State *node.State
	Plan  func(*node.State, *v1.Pod) (*node.Plan, error)

	// guaranteed is set for a pod of that QoS class.
	guaranteed bool
	// plans is the number of plans of one kind of change.
	plans int
}

// Remedies returns the changes. OutOf admits the pod with each of them, and so do the managers.
func (r *Room) Remedies() (*explain.Remedies, error) {
	asked, err := podspec.Request(r.Pod, r.Gates)
	if err != nil {
		return nil, err
	}
	r.guaranteed = asked.QoS == request.Guaranteed
	short := r.short(r.Pod, r.Pods)
	names := make([]string, len(short))
	for i, name := range short {
		names[i] = string(name)
	}
	out := &explain.Remedies{Proposals: []explain.Proposal{}, Tried: []explain.Try{}}
	for _, look := range []struct {
		what string
		in   func([]v1.ResourceName) (*explain.Proposal, string, error)
	}{{"less " + strings.Join(names, ", less "), r.less}, {"the absence of pods", r.without}} {
		r.plans = 0
		found, summary, err := look.in(short)
		if err != nil {
			return nil, err
		}
		if found != nil {
			out.Proposals = append(out.Proposals, *found)
		}
		out.Tried = append(out.Tried, explain.Try{What: look.what, Plans: r.plans, Found: summary})
	}
	const settings = "not tried, because they do not change what the Node has for pods"
	out.Tried = append(out.Tried, explain.Try{What: "other policies, scopes and options", Found: settings})
	return out, nil
}

// short returns the resources of which a pod beside others requests more than the Node has.
func (r *Room) short(pod *v1.Pod, pods inputs.Roster) []v1.ResourceName {
	return RequestsOf(pods, r.Gates).short(pod, r.Node)
}

// admitted plans the pod. It returns nil if OutOf or the managers reject it.
func (r *Room) admitted(s *node.State, pod *v1.Pod, pods inputs.Roster) (*node.Plan, error) {
	if len(r.short(pod, pods)) > 0 {
		return nil, nil //nolint:nilnil // It is rejected.
	}
	r.plans++
	plan, err := r.Plan(s, pod)
	if err != nil || plan.Rejection != nil {
		return nil, err
	}
	return plan, nil
}

// less lowers what the pod requests of the short resources: the pod-level request, the container
// with the largest one of which that is enough, or all containers to a common amount.
func (r *Room) less(short []v1.ResourceName) (*explain.Proposal, string, error) {
	if slices.Contains(short, v1.ResourcePods) {
		return nil, "none, because each pod counts as one of the Node's pods", nil
	}
	pod := r.Pod
	for _, name := range short {
		var enough bool
		if pod, enough = r.lowered(pod, name); !enough {
			return nil, fmt.Sprintf("none leaves the pod any %s", name), nil
		}
	}
	plan, err := r.admitted(r.State, pod, r.Pods)
	if err != nil || plan == nil {
		return nil, "none found; smaller amounts that the managers admit were not searched", err
	}
	changes := requestChanges(r.Pod, pod)
	return &explain.Proposal{Kind: explain.Amounts, Requests: changes, Text: requestsText(changes), Outcome: explain.Outcome(r.State, plan)}, "1 would admit it", nil
}

// lowered lowers one resource of a pod as little as is enough. It returns false if nothing is.
func (r *Room) lowered(pod *v1.Pod, name v1.ResourceName) (*v1.Pod, bool) {
	others := RequestsOf(r.Pods, r.Gates)
	enough := func(p *v1.Pod) bool { return !slices.Contains(others.short(p, r.Node), name) }
	var subjects [][]*v1.ResourceRequirements // of a copy of the pod
	next := pod.DeepCopy()
	if of := next.Spec.Resources; of != nil && r.Gates.PodLevelResources && !of.Requests.Name(name, resource.DecimalSI).IsZero() {
		subjects = append(subjects, []*v1.ResourceRequirements{of})
	} else {
		var all []*v1.ResourceRequirements
		for _, list := range [][]v1.Container{next.Spec.InitContainers, next.Spec.Containers} {
			for i := range list {
				all = append(all, &list[i].Resources)
			}
		}
		slices.SortStableFunc(all, func(a, b *v1.ResourceRequirements) int { return amount(b, name).Cmp(*amount(a, name)) })
		for _, one := range all {
			subjects = append(subjects, []*v1.ResourceRequirements{one})
		}
		subjects = append(subjects, all)
	}
	for _, subject := range subjects {
		before := make([]v1.ResourceRequirements, len(subject))
		var most int64
		unit := r.unit(subject, name)
		for i, of := range subject {
			before[i] = *of.DeepCopy()
			most = max(most, scaled(amount(of, name), name)/unit)
		}
		set := func(n int64) {
			for i, of := range subject {
				*of = *before[i].DeepCopy()
				limit(of, name, n*unit)
			}
		}
		low, high := int64(0), most // The answer is in low, low+1, ... high-1.
		for high-low > 1 {
			middle := low + (high-low)/2
			if set(middle); enough(next) {
				low = middle
			} else {
				high = middle
			}
		}
		if set(low); low > 0 && enough(next) && r.covers(next, name) {
			return next, true
		}
		set(most + 1)
	}
	return pod, false
}

// covers reports whether a pod-level request, if there is one, is at least that of the containers.
// The API server accepts no other one.
func (r *Room) covers(pod *v1.Pod, name v1.ResourceName) bool {
	containers := requestOf(pod, name, podspec.Gates{})
	whole := requestOf(pod, name, r.Gates)
	return whole.Cmp(containers) >= 0
}

func amount(of *v1.ResourceRequirements, name v1.ResourceName) *resource.Quantity {
	q := of.Requests[name]
	return &q
}

// scaled returns a quantity of CPUs in thousandths, and of any other resource as it is.
func scaled(q *resource.Quantity, name v1.ResourceName) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// unit returns the steps in which a resource is lowered: whole CPUs where a container gets CPUs
// of its own, as containers of a Guaranteed pod with a whole number of them do, thousandths of
// other CPUs, and MiB.
func (r *Room) unit(subject []*v1.ResourceRequirements, name v1.ResourceName) int64 {
	if name != v1.ResourceCPU {
		return 1 << 20
	}
	whole := func(of *v1.ResourceRequirements) bool { return amount(of, name).MilliValue()%1000 == 0 }
	if r.guaranteed && slices.ContainsFunc(subject, whole) {
		return 1000
	}
	return 1
}

// limit lowers a request to a scaled amount if it is larger, and the limit with it if they are
// equal.
func limit(of *v1.ResourceRequirements, name v1.ResourceName, n int64) {
	asked, has := of.Requests[name]
	if !has || scaled(&asked, name) <= n {
		return
	}
	to := *resource.NewQuantity(n, resource.BinarySI)
	if name == v1.ResourceCPU {
		to = *resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	of.Requests = maps.Clone(of.Requests)
	of.Requests[name] = to
	if most, limited := of.Limits[name]; limited && most.Cmp(asked) == 0 {
		of.Limits = maps.Clone(of.Limits)
		of.Limits[name] = to
	}
}

// requestChanges returns what differs between the requests of a pod and of the same pod with less.
func requestChanges(from, to *v1.Pod) []explain.RequestChange {
	var all []explain.RequestChange
	add := func(container string, a, b *v1.ResourceRequirements) {
		for _, name := range counted {
			was, is := amount(a, name), amount(b, name)
			if was.Cmp(*is) != 0 {
				all = append(all, explain.RequestChange{Container: container, Resource: string(name), From: was.String(), To: is.String()})
			}
		}
	}
	if from.Spec.Resources != nil {
		add("", from.Spec.Resources, to.Spec.Resources)
	}
	for i := range from.Spec.InitContainers {
		add(from.Spec.InitContainers[i].Name, &from.Spec.InitContainers[i].Resources, &to.Spec.InitContainers[i].Resources)
	}
	for i := range from.Spec.Containers {
		add(from.Spec.Containers[i].Name, &from.Spec.Containers[i].Resources, &to.Spec.Containers[i].Resources)
	}
	return all
}

// requestsText returns a text such as "ask for 3 CPUs instead of 3500m in container main".
func requestsText(changes []explain.RequestChange) string {
	const few = 8 // changes that a text names
	var text strings.Builder
	for i, c := range changes[:min(few, len(changes))] {
		what := c.To + " of " + c.Resource
		switch {
		case c.Resource == string(v1.ResourceCPU) && c.To == "1":
			what = "1 CPU"
		case c.Resource == string(v1.ResourceCPU) && strings.HasSuffix(c.To, "m"):
			what = c.To + " CPU"
		case c.Resource == string(v1.ResourceCPU):
			what = c.To + " CPUs"
		}
		where := "at pod level"
		if c.Container != "" {
			where = "in container " + c.Container
		}
		if i > 0 {
			text.WriteString(" and ")
		}
		fmt.Fprintf(&text, "%s instead of %s", what, c.From)
		if i+1 == len(changes) || changes[i+1].Container != c.Container {
			text.WriteString(" " + where)
		}
	}
	if more := len(changes) - few; more > 0 {
		fmt.Fprintf(&text, ", and for less in %d more", more)
	}
	return "ask for " + text.String()
}

// maxPairs bounds the number of pairs of pods that are tried.
const maxPairs = 10_000

// without looks for the fewest pods whose absence makes room. Of as many, it takes those with the
// lowest priority, and then the youngest, as for a rejection by a manager. It proves that no fewer
// help for one pod and for two.
func (r *Room) without(short []v1.ResourceName) (*explain.Proposal, string, error) {
	others := r.others(short)
	if len(r.short(r.Pod, inputs.Roster{})) > 0 {
		return nil, "even without any other pod, the Node has less for pods than the pod requests", nil
	}
	if len(others) == 0 {
		return nil, "no other pod that could end requests any", nil
	}
	for i := range others {
		if found, err := r.absent(others[i : i+1]); found != nil || err != nil {
			return found, "removing 1 pod would admit it, and no fewer", err
		}
	}
	for i, pairs := 1, 0; i < len(others) && pairs < maxPairs; i++ {
		for k := 0; k < i && pairs < maxPairs; k++ {
			pairs++
			if found, err := r.absent([]*v1.Pod{others[k], others[i]}); found != nil || err != nil {
				return found, "removing 2 pods would admit it, and no fewer", err
			}
		}
	}
	n := 1
	for n < len(others) && len(r.short(r.Pod, r.rest(others[:n]))) > 0 {
		n++
	}
	gone := slices.Clone(others[:n])
	for i := len(gone) - 1; i >= 0; i-- { // Those that need not end stay.
		if fewer := slices.Delete(slices.Clone(gone), i, i+1); len(r.short(r.Pod, r.rest(fewer))) == 0 {
			gone = fewer
		}
	}
	found, err := r.absent(gone)
	if found == nil {
		return nil, "none found; not searched further", err
	}
	return found, fmt.Sprintf("removing %d pods would admit it; fewer pods were not searched further", len(gone)), err
}

// others returns the pods that could end and that request any of the resources, in the order in
// which they can be spared. The pod of a manifest on the node comes back.
func (r *Room) others(short []v1.ResourceName) []*v1.Pod {
	var all []*v1.Pod
	for uid, pod := range r.Pods {
		asks := func(name v1.ResourceName) bool {
			q := requestOf(pod, name, r.Gates)
			return !q.IsZero()
		}
		if uid != podspec.UID(r.Pod) && r.Pods.Alive(uid) && !podspec.IsMirror(pod) && slices.ContainsFunc(short, asks) {
			all = append(all, pod)
		}
	}
	slices.SortFunc(all, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(priority(a), priority(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(podspec.UID(a), podspec.UID(b)))
	})
	return all
}

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// rest returns the pods of the node without those that are gone.
func (r *Room) rest(gone []*v1.Pod) inputs.Roster {
	rest := maps.Clone(r.Pods)
	for _, pod := range gone {
		delete(rest, podspec.UID(pod))
	}
	return rest
}

// absent returns the proposal that pods are absent, or nil if that does not admit the pod. The
// absent pods are decided again after it, the most important one first.
func (r *Room) absent(gone []*v1.Pod) (*explain.Proposal, error) {
	s, rest := r.State, r.rest(gone)
	for _, pod := range gone {
		s = s.Release(podspec.UID(pod))
	}
	plan, err := r.admitted(s, r.Pod, rest)
	if plan == nil {
		return nil, err
	}
	p := &explain.Proposal{Kind: explain.Pods, Outcome: explain.Outcome(s, plan)}
	for _, pod := range gone {
		p.Without = append(p.Without, explain.Absent{Pod: pod.Namespace + "/" + pod.Name, UID: podspec.UID(pod), Priority: priority(pod)})
	}
	if s, err = s.Apply(plan); err != nil {
		return nil, err
	}
	rest[podspec.UID(r.Pod)] = running(r.Pod)
	for i := len(gone) - 1; i >= 0; i-- {
		p.Without[i].Then = &explain.Return{}
		again, err := r.admitted(s, podspec.Default(gone[i], r.Gates), rest)
		if err != nil {
			return nil, err
		}
		if again == nil {
			continue
		}
		p.Without[i].Then = &explain.Return{Fits: true, Outcome: explain.Outcome(s, again)}
		if s, err = s.Apply(again); err != nil {
			return nil, err
		}
		rest[podspec.UID(gone[i])] = gone[i]
	}
	p.Text = explain.Without(p.Without)
	return p, nil
}
