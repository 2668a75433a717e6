package publication

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/node"
)

// maxReasons limits the reasons of a certainty.
const maxReasons = 8

// maxGrants limits the grants of one object in bytes. etcd accepts 1.5 MiB for the whole object.
const maxGrants = 1 << 20

// View is what there is to publish. It is immutable.
type View struct {
	// State is the durable state. Nil means that there is none yet.
	State *node.State
	// Listing is the last list of the kubelet. Nil means that the kubelet has not answered yet.
	Listing *handover.Listing
	// Unmanaged is the reason why the agent does not manage the node. Nil means that it does.
	Unmanaged error
	// NoVeto is the reason why resizes are not decided before the kubelet carries them out. Nil
	// means that they are, as far as the agent knows.
	NoVeto error
	// Slow is what came close to the time after which the runtime goes on without the agent. Nil
	// means that nothing did lately.
	Slow error
	// Observed is set where the kubelet decides and the agent observes it. State is then that of
	// the kubelet, and every grant is published: annotations of pods are predictions.
	Observed *Observed
}

// Observed is how surely a state is that of a kubelet.
type Observed struct {
	// Version is the release whose rules the kubelet follows, such as "1.36.4".
	Version string
	// Waiting are the pods about which the kubelet has not decided, as "namespace/name". Doubts are
	// why it can have another state.
	Waiting, Doubts []string
	// Limits are the inputs that are missing although the state is that of the kubelet, each with
	// its consequence.
	Limits []string
	// TakenHugePages describe huge pages that the Memory Manager counts as free and that are in
	// use.
	TakenHugePages []string
}

// certainty returns the API form. A state in which pods share CPUs cannot be built again from its
// grants.
func (o *Observed) certainty(s *node.State) *v1alpha1.Certainty {
	c := &v1alpha1.Certainty{Answer: v1alpha1.CertaintyExact, Pending: int32(min(len(o.Waiting), math.MaxInt32)), Reasons: slices.Clone(o.Doubts)}
	for _, r := range s.Residue() {
		if !r.Twice.IsEmpty() {
			c.Reasons = append(c.Reasons, fmt.Sprintf("the kubelet has assigned CPUs %s twice", r.Twice))
		}
	}
	if len(c.Reasons) > maxReasons {
		c.Reasons = append(c.Reasons[:maxReasons:maxReasons], fmt.Sprintf("and %d other reasons", len(c.Reasons)-maxReasons))
	}
	for i, text := range c.Reasons {
		c.Reasons[i] = short(text)
	}
	switch {
	case len(c.Reasons) > 0:
		c.Answer = v1alpha1.CertaintyUnsure
	case c.Pending > 0:
		c.Answer = v1alpha1.CertaintyPending
	}
	return c
}

// status returns the status for a view. Conditions that do not change keep their transition time.
func (p *Publisher) status(v View, rejected v1alpha1.Rejections, before []metav1.Condition) (*v1alpha1.PaddockNodeStatus, error) {
	if v.State.Machine() != p.machine.of {
		o, err := objects.Machine(v.State.Machine())
		if err != nil {
			return nil, err
		}
		p.machine.of, p.machine.object, p.machine.added = v.State.Machine(), o, false
	}
	policy, digest, err := objects.Policy(v.State.Policy())
	if err != nil {
		return nil, err
	}
	s := &v1alpha1.PaddockNodeStatus{
		Machine: p.machine.object.Name, Policy: policy, PolicyDigest: digest, Devices: objects.Devices(v.State.Devices().Inventory()),
		MaxContainersPerPod: int32(min(v.State.Policy().MaxContainers, math.MaxInt32)),
		Revision:            p.revision(v), Rejections: rejected,
	}
	if v.Observed != nil {
		s.MaxContainersPerPod = 0 // A kubelet has no bound.
		if s.DecidedBy, err = objects.DecidedBy(v.Observed.Version, v.State); err != nil {
			return nil, err
		}
		s.Certainty = v.Observed.certainty(v.State)
	}
	for i := range before {
		s.Conditions = append(s.Conditions, *before[i].DeepCopy())
	}
	complete, err := p.addGrants(s, v)
	if err != nil {
		return nil, err
	}
	p.conditions(s, v, complete)
	return s, nil
}

// addGrants adds the grants that are not in annotations. It reports whether all of them fit.
func (p *Publisher) addGrants(s *v1alpha1.PaddockNodeStatus, v View) (complete bool, err error) {
	left := maxGrants
	looked := make(map[string]look, len(p.looked))
	defer func() { p.looked = looked }()
	for g := range v.State.AllGrants() {
		l := p.carries(g, v.Listing)
		// A pod that no longer has anything is published if its annotation still has something.
		if looked[g.Pod.UID] = l; l.carried || !g.OwnsAnything() && l.bound.Annotation == "" {
			continue
		}
		published, err := objects.Grant(g)
		if err != nil {
			return false, err
		}
		if left -= len(published.Grant) + len(published.UID) + len(published.Name) + len(published.Namespace); left < 0 {
			return false, nil
		}
		s.Grants = append(s.Grants, published)
	}
	return true, nil
}

// look caches the check of a pod's annotation. Most pods do not change between two checks.
type look struct {
	grant   *node.Grant
	bound   handover.Bound
	carried bool
}

// carries checks whether the annotation of the pod has its grant, for readers of the pod.
func (p *Publisher) carries(g *node.Grant, listing *handover.Listing) look {
	l := look{grant: g}
	if listing != nil {
		l.bound = listing.Pods[g.Pod.UID]
	}
	if l.bound.Annotation == "" {
		return l
	}
	if before := p.looked[g.Pod.UID]; before.grant == g && before.bound.Annotation == l.bound.Annotation && before.bound.Pod.Equal(l.bound.Pod) {
		return before
	}
	t, err := handover.Decode(l.bound.Annotation)
	if err != nil || t.Node != p.config.Node {
		return l
	}
	same, err := t.For(l.bound.Pod)
	l.carried = err == nil && same.SameAssignments(g)
	return l
}

func (p *Publisher) conditions(s *v1alpha1.PaddockNodeStatus, v View, complete bool) {
	now := metav1.NewTime(p.config.Now()).Rfc3339Copy()
	set := func(kind string, is bool, reason, message string) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: now}
		if is {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	switch {
	case v.Observed != nil:
		set(v1alpha1.ConditionManaging, false, "KubeletDecides", "kubelet "+v.Observed.Version+" decides; the agent observes it")
		certain(s.Certainty, v.Observed, set)
	case v.Unmanaged != nil:
		set(v1alpha1.ConditionManaging, false, "Unmanaged", v.Unmanaged.Error())
	default:
		set(v1alpha1.ConditionManaging, true, "Managing", "")
	}
	if v.Observed == nil {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionCertain)
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionHugePagesFree)
	} else if taken := v.Observed.TakenHugePages; len(taken) > 0 {
		set(v1alpha1.ConditionHugePagesFree, false, "Taken", short(strings.Join(taken, "; ")))
	} else if meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionHugePagesFree) != nil {
		set(v1alpha1.ConditionHugePagesFree, true, "AsCounted", "")
	}
	if pods := v.State.Degraded(); len(pods) > 0 {
		set(v1alpha1.ConditionDegraded, true, "CPUsOffline", fmt.Sprintf("CPUs %s of %d pods are offline", v.State.Offline(), len(pods)))
	} else {
		set(v1alpha1.ConditionDegraded, false, "AllCPUsOnline", "")
	}
	if v.NoVeto != nil {
		set(v1alpha1.ConditionResizeVeto, false, "NotAsked", v.NoVeto.Error())
	} else if meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionResizeVeto) != nil {
		set(v1alpha1.ConditionResizeVeto, true, "Asked", "")
	}
	if v.Slow != nil {
		set(v1alpha1.ConditionAnswersInTime, false, "Slow", short(v.Slow.Error()))
	} else if meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAnswersInTime) != nil {
		set(v1alpha1.ConditionAnswersInTime, true, "InTime", "")
	}
	if complete {
		set(v1alpha1.ConditionComplete, true, "AllGrants", "")
	} else {
		set(v1alpha1.ConditionComplete, false, "TooManyGrants", fmt.Sprintf("the grants to publish have more than %d bytes together: no pod with CPUs, memory or devices of its own is scheduled here", maxGrants))
	}
}

// certain sets the condition Certain.
func certain(c *v1alpha1.Certainty, o *Observed, set func(kind string, is bool, reason, message string)) {
	message := func(reasons ...string) string { return strings.Join(slices.Concat(reasons, o.Limits), "; ") }
	switch c.Answer {
	case v1alpha1.CertaintyUnsure:
		set(v1alpha1.ConditionCertain, false, "Unsure", message(c.Reasons...))
	case v1alpha1.CertaintyPending:
		set(v1alpha1.ConditionCertain, false, "Pending", message(fmt.Sprintf("the kubelet has not decided about %d pods, such as %s", len(o.Waiting), o.Waiting[0])))
	default:
		set(v1alpha1.ConditionCertain, true, "Exact", message())
	}
}

// revision returns the revision of a view. That of a managed node is in its state file. That of an
// observed kubelet begins again with the agent, and must still grow.
func (p *Publisher) revision(v View) int64 {
	if v.Observed == nil {
		return int64(v.State.Generation())
	}
	return p.before + int64(v.State.Generation())
}

// same reports whether two views show the same.
func (v View) same(w View) bool {
	sameError := func(a, b error) bool { return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error()) }
	return v.State == w.State && v.Listing == w.Listing && sameError(v.Unmanaged, w.Unmanaged) && sameError(v.NoVeto, w.NoVeto) && sameError(v.Slow, w.Slow) && v.Observed.same(w.Observed)
}

func (o *Observed) same(p *Observed) bool {
	if o == nil || p == nil {
		return o == p
	}
	return o.Version == p.Version && slices.Equal(o.Waiting, p.Waiting) && slices.Equal(o.Doubts, p.Doubts) && slices.Equal(o.Limits, p.Limits) &&
		slices.Equal(o.TakenHugePages, p.TakenHugePages)
}

// sameMatter reports whether two statuses are equal except for the fields that no program depends
// on.
func sameMatter(a, b *v1alpha1.PaddockNodeStatus) bool {
	if a == nil || b == nil {
		return false
	}
	x, y := *a, *b
	x.Revision, y.Revision = 0, 0
	x.Summary, y.Summary = v1alpha1.Summary{}, v1alpha1.Summary{}
	x.Rejections.Since, y.Rejections.Since = nil, nil
	x.Rejections.Decided, y.Rejections.Decided = 0, 0
	if settles(a) && settles(b) {
		x.Certainty, y.Certainty = nil, nil
		x.Conditions, y.Conditions = withoutCertain(x.Conditions), withoutCertain(y.Conditions)
	}
	return equality.Semantic.DeepEqual(&x, &y)
}

// sameCount reports whether two statuses have the same number of decisions since the same time.
func sameCount(a, b *v1alpha1.Rejections) bool {
	return a.Decided == b.Decided && a.Since.Equal(b.Since)
}

// settles reports whether a certainty is exact or pending. A program plans on both alike.
func settles(s *v1alpha1.PaddockNodeStatus) bool {
	return s.Certainty != nil && s.Certainty.Answer != v1alpha1.CertaintyUnsure
}

// sameCertainty reports whether two statuses have the same certainty, and the same condition of it.
func sameCertainty(a, b *v1alpha1.PaddockNodeStatus) bool {
	return equality.Semantic.DeepEqual(a.Certainty, b.Certainty) &&
		equality.Semantic.DeepEqual(meta.FindStatusCondition(a.Conditions, v1alpha1.ConditionCertain), meta.FindStatusCondition(b.Conditions, v1alpha1.ConditionCertain))
}

func withoutCertain(all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionCertain })
}

func summaryOf(v View, conditions []metav1.Condition) v1alpha1.Summary {
	s := v.State
	p := s.Policy()
	out := v1alpha1.Summary{Policy: p.Topology.String(), Condition: v1alpha1.ConditionManaging}
	if p.Topology != node.TopologyNone {
		out.Policy += ", " + p.Scope.String()
	}
	if v.Observed != nil {
		out.Policy = "kubelet " + v.Observed.Version + ": " + out.Policy
	}
	certain := meta.FindStatusCondition(conditions, v1alpha1.ConditionCertain)
	switch {
	case certain != nil && meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete):
		out.Condition = certain.Reason
	case certain == nil && !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionManaging):
		out.Condition = "Unmanaged"
	case !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete):
		out.Condition = "Incomplete"
	case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionDegraded):
		out.Condition = v1alpha1.ConditionDegraded
	}
	if !p.StaticCPU {
		return out
	}
	var free []string
	available := s.AvailableCPUs()
	for _, n := range s.Machine().CPUNodes() {
		free = append(free, strconv.Itoa(n.ID)+":"+strconv.Itoa(available.IntersectionLen(n.CPUs)))
	}
	out.FreeCPUs = strings.Join(free, " ")
	out.LargestPod = strconv.Itoa(s.LargestPod(0)) + " CPUs"
	return out
}
