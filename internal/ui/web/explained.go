package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Explained is the answer about one pod, for "/api/explain" and "/api/rejections/{number}".
// Standing describes the pod's situation, and the rest describes the decision. For an admitted pod,
// Answer has its assignments. For a rejected pod, the decision is the one that would be made on the
// present node, with remedies. If the present node would admit the pod, it is the decision that
// rejected it.
type Explained struct {
	view.Explanation
	Assigned bool `json:"assigned"`
	// Since is the time of admission. It is absent if the time is not known or if the pod was not
	// admitted.
	Since         *time.Time `json:"since,omitempty"`
	SinceRevision uint64     `json:"sinceRevision,omitempty"`
	// DecisionUnknown is true if the original decision is unknown. The explanation then describes
	// the decision that would be made if the pod came to the node now.
	DecisionUnknown bool `json:"decisionUnknown,omitempty"`
	// Rejected is the newest rejection of a pod with that name.
	Rejected *RejectedWhen `json:"rejected,omitempty"`
	// WouldAdmit is true if the present node would admit the rejected pod.
	WouldAdmit bool `json:"wouldAdmit,omitempty"`
	// Decided has the steps of the decision that rejected the pod, for the page.
	Decided []view.Section `json:"decided,omitempty"`
}

// RejectedWhen has the times at which a pod was rejected for the same reason.
type RejectedWhen struct {
	Number int       `json:"number"`
	UID    string    `json:"uid"`
	Reason string    `json:"reason"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Times  int       `json:"times"`
}

// searched is the result of the last search for remedies.
type searched struct {
	state    *node.State
	number   int // of the rejection
	remedies explain.Remedies
}

const (
	// maxName is longer than the name of any pod.
	maxName = 1024
	// maxNear is how many similar names are suggested for an unknown one.
	maxNear = 3
)

func (w *Web) serveExplain(rw http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("pod")
	if namespace, rest, ok := strings.Cut(name, "/"); !ok || namespace == "" || rest == "" || len(name) > maxName {
		fail(rw, http.StatusBadRequest, fmt.Sprintf("pod %q: expected NAMESPACE/NAME, such as /api/explain?pod=default/database", name[:min(len(name), maxName)]))
		return
	}
	m, there := w.now()
	if !there {
		fail(rw, http.StatusServiceUnavailable, "there is no state yet")
		return
	}
	var grants []*node.Grant // Newest first. There are two while a new pod takes the name of another.
	for _, g := range m.state.Grants() {
		if g.Pod.ID() == name {
			grants = append(grants, g)
		}
	}
	slices.SortFunc(grants, func(a, b *node.Grant) int { return cmp.Compare(b.Sequence, a.Sequence) })
	w.mu.Lock()
	list := w.rejections.list
	w.mu.Unlock()
	i := len(list) - 1
	for i >= 0 && list[i].pod.ID() != name {
		i--
	}
	switch {
	case len(grants) > 0:
		w.answer(rw, r, func() (any, error) { return w.admittedOf(m, grants, list[:i+1]), nil })
	case i >= 0:
		w.serveRejected(rw, r, m, list[i], false)
	default:
		fail(rw, http.StatusNotFound, unknown(m.state, list, name))
	}
}

// serveRejection explains one entry of the list of rejections.
func (w *Web) serveRejection(rw http.ResponseWriter, r *http.Request) {
	if m, n, ok := w.askedRejection(rw, r); ok {
		w.serveRejected(rw, r, m, n, true)
	}
}

// askedRejection returns the rejection that a request names, and the present moment. If there is no
// such rejection, it has answered the request and returns false.
func (w *Web) askedRejection(rw http.ResponseWriter, r *http.Request) (moment, notAdmitted, bool) {
	text := r.PathValue("number")
	number, err := strconv.Atoi(text)
	if err != nil {
		fail(rw, http.StatusBadRequest, fmt.Sprintf("rejection %q is not a number", text))
		return moment{}, notAdmitted{}, false
	}
	m, there := w.now()
	if !there {
		fail(rw, http.StatusServiceUnavailable, "there is no state yet")
		return moment{}, notAdmitted{}, false
	}
	w.mu.Lock()
	list := w.rejections.list
	w.mu.Unlock()
	i := slices.IndexFunc(list, func(n notAdmitted) bool { return n.number == number })
	if i < 0 {
		fail(rw, http.StatusNotFound, fmt.Sprintf("rejection %d is not kept; only the last %d are, and a repeated rejection only once", number, maxRejections))
		return moment{}, notAdmitted{}, false
	}
	return m, list[i], true
}

// serveRejected answers a request about a rejection. If the reader has gone, it does nothing. Only
// the page gets the steps of the decision, which is made again for that; commands format their own.
func (w *Web) serveRejected(rw http.ResponseWriter, r *http.Request, m moment, n notAdmitted, page bool) {
	ctx, now := r.Context(), w.current(m)
	var plan *node.Plan
	var remedies explain.Remedies
	err := w.answers.Do(ctx, func() error {
		plan = now.Plan(n.pod)
		return nil
	})
	if err == nil && plan.Rejection != nil { // Wait for the search without occupying a turn of answers.
		remedies, err = w.remedies(ctx, now, n)
	}
	if well(rw, r, err) {
		w.answer(rw, r, func() (any, error) {
			out := w.rejectedOf(now, n, plan, remedies)
			if page && n.rejection != nil {
				out.Decided = n.explanation().Sections()
			}
			return out, nil
		})
	}
}

// admissionOf returns the plan that gave a pod its place. Planning on the same state gives that
// plan, unless a scheduler chose the place. In that case, the grant is planned again as it was
// then, and a note names the CPUs that the node would have chosen.
func admissionOf(base *node.State, g *node.Grant) *node.Plan {
	own := base.Plan(g.Pod)
	if own.Grant == nil || own.Known || own.Grant.CPUs().Equal(g.CPUs()) {
		return own
	}
	// The grant no longer has what init containers left. The sizes follow from the request.
	admitted := *g
	admitted.Containers = slices.Clone(g.Containers)
	for i := range admitted.Containers {
		c := &admitted.Containers[i]
		c.Memory = slices.Clone(own.Grant.Containers[i].Memory)
		for k := range c.Memory {
			c.Memory[k].Nodes = c.MemoryNodes
		}
	}
	handed, err := base.PlanGrant(g.Pod, &admitted)
	if err != nil {
		return own
	}
	handed.Trace.Notes = append(handed.Trace.Notes, fmt.Sprintf("its place was handed over: by itself the node would have chosen CPUs %s", own.Grant.CPUs()))
	return handed
}

// admittedOf explains the first of the grants. If rejections is not empty, its last element is a
// rejection of a pod with that name.
func (w *Web) admittedOf(m moment, grants []*node.Grant, rejections []notAdmitted) Explained {
	g := grants[0]
	from := w.origin(m.state, g)
	plan := admissionOf(from.base, g)
	e := view.ExplanationOf(m.state, m.state.Plan(g.Pod), nil)
	e.Machine, e.Policy = w.config.Machine, w.config.Policy
	e.Why = explain.Of(from.base, plan)
	for _, note := range plan.Trace.Notes {
		if !slices.Contains(e.Answer.Notes, note) {
			e.Answer.Notes = append(e.Answer.Notes, note)
		}
	}
	out := Explained{Explanation: e, Assigned: true, Since: from.since, SinceRevision: g.Sequence, DecisionUnknown: !from.decided}
	at := ""
	if from.since != nil {
		at = stamp(*from.since) + ", "
	}
	switch {
	case from.decided:
		out.say("since %srevision %d; this is the decision that admitted it", at, g.Sequence)
	case g.Resized != 0:
		out.say("since %srevision %d, and resized or moved in revision %d: %s", at, g.Sequence, g.Resized, assignment(m.state, g))
		out.say("this is how the pod would be decided if it came now, on the node as it is without it")
	default:
		out.say("since %srevision %d, before this agent started: %s", at, g.Sequence, assignment(m.state, g))
		out.say("that decision is no longer known; this is how it would be decided on the node as it is now")
		if plan.Rejection != nil {
			out.Why.Picks = nil
			out.say("decided now, it would be rejected: %v", plan.Rejection)
		}
	}
	if w.config.Veto != nil {
		if why := w.config.Veto(g.Pod.UID); why != "" {
			out.say("its last resize was rejected, and it keeps what it has: %s", why)
		}
	}
	for _, other := range grants[1:] {
		out.say("another pod of that name, UID %s, was admitted in revision %d: %s", other.Pod.UID, other.Sequence, assignment(m.state, other))
	}
	if len(rejections) == 0 {
		return out
	}
	n := rejections[len(rejections)-1]
	out.Rejected = n.when()
	who := "it"
	if n.pod.UID != g.Pod.UID {
		who = "another pod of that name, UID " + n.pod.UID + ","
	}
	out.say("%s was rejected %s: %s", who, n.often(), n.reason())
	return out
}

// rejectedOf explains a rejection. plan is the pod's plan on the present node.
func (w *Web) rejectedOf(now *node.State, n notAdmitted, plan *node.Plan, remedies explain.Remedies) Explained {
	var out Explained
	switch {
	case plan.Rejection != nil:
		out.Explanation = view.ExplanationOf(now, plan, &remedies)
	case n.rejection != nil:
		out.Explanation = n.explanation()
	default: // It fitted, but the state could not be written, or something else rejected it.
		out.Explanation = view.ExplanationOf(now, plan, nil)
		out.Answer.Admitted, out.Answer.Known, out.Why.Picks = false, false, nil
	}
	out.Machine, out.Policy, out.Rejected = w.config.Machine, w.config.Policy, n.when()
	if n.before() {
		out.say("rejected %s, before this agent started", n.often())
	} else {
		out.say("rejected %s", n.often())
	}
	if plan.Rejection == nil || n.rejection == nil || n.rejection.Error() != plan.Rejection.Error() {
		out.say("the reason was: %s", n.reason())
	}
	switch {
	case plan.Known:
		out.say("it was admitted after that, in revision %d: %s", plan.Grant.Sequence, assignment(now, plan.Grant))
	case plan.Rejection == nil && n.outside():
		out.say("the managers would admit it on the node as it is now: %s; whether the requests of all pods leave enough for it is not their decision", assignment(now, plan.Grant))
	case plan.Rejection == nil:
		out.WouldAdmit = true
		out.say("on the node as it is now it would be admitted: %s", assignment(now, plan.Grant))
	default:
		out.say("this is how it is decided on the node as it is now, revision %d", now.Generation())
	}
	return out
}

// current returns the present node without pods that are gone.
func (w *Web) current(m moment) *node.State {
	s := w.config.Snapshot()
	if s == nil {
		return m.state
	}
	now := s.State
	for _, uid := range s.Unreleased {
		now = now.Release(uid)
	}
	return now
}

// remedies searches for changes that would admit a pod, unless the last search was the same. It
// waits for a turn of searches. The errors are those of webui.Turns.
func (w *Web) remedies(ctx context.Context, s *node.State, n notAdmitted) (found explain.Remedies, err error) {
	if found, there := w.found(s, n); there {
		return found, nil
	}
	err = w.searches.Do(ctx, func() (err error) {
		var there bool
		if found, there = w.found(s, n); there { // Found for another reader while this one waited.
			return nil
		}
		if found, err = w.search(ctx, s, n.pod); err != nil {
			return fmt.Errorf("search for what would admit pod %s: %w", n.pod.ID(), err)
		}
		w.finding.Lock()
		defer w.finding.Unlock()
		w.searched = searched{s, n.number, found}
		return nil
	})
	return found, err
}

// found returns the result of the last search if it was for the same state and rejection.
func (w *Web) found(s *node.State, n notAdmitted) (explain.Remedies, bool) {
	w.finding.Lock()
	defer w.finding.Unlock()
	return w.searched.remedies, w.searched.state == s && w.searched.number == n.number
}

// say adds a sentence about the pod's situation.
func (e *Explained) say(format string, args ...any) {
	e.Standing = append(e.Standing, fmt.Sprintf(format, args...))
}

// stamp formats a time.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func (n notAdmitted) when() *RejectedWhen {
	return &RejectedWhen{Number: n.number, UID: n.pod.UID, Reason: n.reason(), First: n.first, Last: n.last, Times: n.times}
}

// often describes when a pod was rejected: "3 times since …, last at …".
func (n notAdmitted) often() string {
	if n.times == 1 {
		return "at " + stamp(n.last)
	}
	return fmt.Sprintf("%d times since %s, last at %s", n.times, stamp(n.first), stamp(n.last))
}

func (n notAdmitted) reason() string {
	if n.rejection != nil {
		return n.rejection.Error()
	}
	return n.err.Error()
}

// assignment describes a pod's CPUs briefly.
func assignment(s *node.State, g *node.Grant) string {
	cpus := g.CPUs()
	if cpus.IsEmpty() {
		return "no CPUs of its own"
	}
	return fmt.Sprintf("CPUs %s on NUMA %s", cpus, strings.Trim(s.Machine().NodesOf(cpus).String(), "{}"))
}

// unknown returns the answer for an unknown name.
func unknown(s *node.State, list []notAdmitted, name string) string {
	var names []string
	for _, g := range s.Grants() {
		names = append(names, g.Pod.ID())
	}
	rejected := map[string]bool{}
	for _, n := range list {
		if id := n.pod.ID(); !rejected[id] {
			rejected[id] = true
			names = append(names, id)
		}
	}
	text := fmt.Sprintf("no pod %q is on this node or was rejected lately; pods here: %d, rejected lately: %d", name, s.NumGrants(), len(rejected))
	if near := nearest(names, name); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, ", ") + "?"
	}
	return text
}

// nearest returns the most similar names: first the same name in another namespace, then names that
// share at least half of its length as a prefix.
func nearest(names []string, name string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	_, short, _ := strings.Cut(name, "/")
	like := func(other string) int {
		_, s, _ := strings.Cut(other, "/")
		n := 0
		for n < min(len(s), len(short)) && s[n] == short[n] {
			n++
		}
		if s == short {
			n++
		}
		return n
	}
	names = slices.DeleteFunc(names, func(other string) bool { return 2*like(other) < len(short) })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(like(b), like(a)) })
	return names[:min(len(names), maxNear)]
}
