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
	"github.com/paddock-project/paddock/internal/view"
)

// Explained is the answer about one pod, to /api/explain and to /api/refusals/{number}: how it stands, in
// Standing, and the decision about it. Of a pod that is held, Answer is what it holds. Of one that
// was refused, the decision is the one that would be made on the node as it is now, with what
// would admit it; where it would be admitted by now, the one that refused it.
type Explained struct {
	view.Explanation
	Held bool `json:"held"`
	// Since is when it was admitted; absent where that is not known, or never was.
	Since           *time.Time `json:"since,omitempty"`
	SinceGeneration uint64     `json:"sinceGeneration,omitempty"`
	// Anew tells that the decision is not known: the explanation is of what would be decided if the
	// pod came to the node anew.
	Anew bool `json:"anew,omitempty"`
	// Refused is the newest refusal of a pod of that name.
	Refused *RefusedWhen `json:"refused,omitempty"`
	// WouldAdmit tells that a pod that was refused would be admitted by now.
	WouldAdmit bool `json:"wouldAdmit,omitempty"`
}

// RefusedWhen is when a pod was refused, for the same reason each time.
type RefusedWhen struct {
	Number int       `json:"number"`
	UID    string    `json:"uid"`
	Reason string    `json:"reason"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Times  int       `json:"times"`
}

// searched are the remedies that were asked for last.
type searched struct {
	state    *node.State
	number   int // of the refusal
	remedies explain.Remedies
}

const (
	// maxName is longer than the name of any pod.
	maxName = 1024
	// maxNear is how many names are offered for one that is not there.
	maxNear = 3
)

func (w *Web) serveExplain(rw http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("pod")
	if namespace, rest, ok := strings.Cut(name, "/"); !ok || namespace == "" || rest == "" || len(name) > maxName {
		fail(rw, http.StatusBadRequest, fmt.Sprintf("pod %q: want NAMESPACE/NAME, such as /api/explain?pod=default/database", name[:min(len(name), maxName)]))
		return
	}
	m, there := w.now()
	if !there {
		fail(rw, http.StatusServiceUnavailable, "there is no state yet")
		return
	}
	grants := grantsOf(m.state, name)
	w.mu.Lock()
	list := w.refusals.list
	w.mu.Unlock()
	i := newest(list, name)
	switch {
	case len(grants) > 0:
		answer(rw, w.heldOf(m, grants, list[:i+1]))
	case i >= 0:
		w.serveRefused(rw, r, m, list[i])
	default:
		fail(rw, http.StatusNotFound, unknown(m.state, list, name))
	}
}

// serveRefusal explains one entry of the list of refusals.
func (w *Web) serveRefusal(rw http.ResponseWriter, r *http.Request) {
	text := r.PathValue("number")
	number, err := strconv.Atoi(text)
	if err != nil {
		fail(rw, http.StatusBadRequest, fmt.Sprintf("rejection %q is not a number", text))
		return
	}
	m, there := w.now()
	if !there {
		fail(rw, http.StatusServiceUnavailable, "there is no state yet")
		return
	}
	w.mu.Lock()
	list := w.refusals.list
	w.mu.Unlock()
	i := slices.IndexFunc(list, func(n refusal) bool { return n.number == number })
	if i < 0 {
		fail(rw, http.StatusNotFound, fmt.Sprintf("rejection %d is not kept; only the last %d are, and a repeated rejection only once", number, maxRefusals))
		return
	}
	w.serveRefused(rw, r, m, list[i])
}

// serveRefused answers about a refusal. Nothing is made for a reader who has gone.
func (w *Web) serveRefused(rw http.ResponseWriter, r *http.Request, m moment, n refusal) {
	explained, err := w.refusedOf(r.Context(), m, n)
	switch {
	case r.Context().Err() != nil:
	case err != nil:
		fail(rw, http.StatusInternalServerError, err.Error())
	default:
		answer(rw, explained)
	}
}

// grantsOf are the pods of a name, the newest first. There are two while one takes the place of
// another.
func grantsOf(s *node.State, name string) []*node.Grant {
	var out []*node.Grant
	for _, g := range s.Grants() {
		if g.Pod.ID() == name {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *node.Grant) int { return cmp.Compare(b.Sequence, a.Sequence) })
	return out
}

// newest is the position of the last refusal of a pod of that name, or -1.
func newest(list []refusal, name string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].pod.ID() == name {
			return i
		}
	}
	return -1
}

// heldOf explains the first of the grants. If there are refusals, the last one is of that name.
func (w *Web) heldOf(m moment, grants []*node.Grant, refusals []refusal) Explained {
	g := grants[0]
	from := w.origin(m.state, g)
	plan := from.base.Plan(g.Pod)
	e := view.ExplanationOf(m.state, m.state.Plan(g.Pod), nil)
	e.Machine, e.Policy = w.config.Machine, w.config.Policy
	e.Why, e.Answer.Notes = explain.Of(from.base, plan), append(e.Answer.Notes, plan.Trace.Notes...)
	out := Explained{Explanation: e, Held: true, Since: from.since, SinceGeneration: g.Sequence, Anew: from.anew}
	if !from.anew {
		out.say("since %s, revision %d; this is the decision that admitted it", stamp(*from.since), g.Sequence)
	} else {
		at := ""
		if from.since != nil {
			at = stamp(*from.since) + ", "
		}
		out.say("since %srevision %d, before this agent started: %s", at, g.Sequence, holds(m.state, g))
		out.say("that decision is not known any more; this is how it would be decided on the node as it is now")
		if plan.Refusal != nil {
			out.Why.Picks = nil
			out.say("decided now, it would be rejected: %v", plan.Refusal)
		}
	}
	for _, other := range grants[1:] {
		out.say("another pod of that name, UID %s, was admitted in revision %d: %s", other.Pod.UID, other.Sequence, holds(m.state, other))
	}
	if len(refusals) == 0 {
		return out
	}
	n := refusals[len(refusals)-1]
	out.Refused = n.when()
	who := "it"
	if n.pod.UID != g.Pod.UID {
		who = "another pod of that name, UID " + n.pod.UID + ","
	}
	out.say("%s was rejected %s: %s", who, n.often(), n.reason())
	return out
}

// refusedOf explains a refusal on the node as it is now. The error is the context's.
func (w *Web) refusedOf(ctx context.Context, m moment, n refusal) (Explained, error) {
	now := m.state
	if s := w.config.Snapshot(); s != nil {
		now = without(s.State, s.Unreleased)
	}
	plan := now.Plan(n.pod)
	var out Explained
	switch {
	case plan.Refusal != nil:
		remedies, err := w.remedies(ctx, now, n)
		if err != nil {
			return out, err
		}
		out.Explanation = view.ExplanationOf(now, plan, &remedies)
	case n.refusal != nil:
		out.Explanation = n.explanation()
	default: // It fitted, and could not be written.
		out.Explanation = view.ExplanationOf(now, plan, nil)
		out.Answer.Admitted, out.Answer.Known, out.Why.Picks = false, false, nil
	}
	out.Machine, out.Policy, out.Refused = w.config.Machine, w.config.Policy, n.when()
	if n.before() {
		out.say("rejected %s, before this agent started", n.often())
	} else {
		out.say("rejected %s", n.often())
	}
	if plan.Refusal == nil || n.refusal == nil || n.refusal.Error() != plan.Refusal.Error() {
		out.say("the reason was: %s", n.reason())
	}
	switch {
	case plan.Known:
		out.say("it was admitted after that, in revision %d: %s", plan.Grant.Sequence, holds(now, plan.Grant))
	case plan.Refusal == nil:
		out.WouldAdmit = true
		out.say("on the node as it is now it would be admitted: %s", holds(now, plan.Grant))
	default:
		out.say("this is how it is decided on the node as it is now, revision %d", now.Generation())
	}
	return out, nil
}

// remedies looks for what would admit a pod, unless that is what was asked for last. It waits for one of
// the places for searches. The error is the context's.
func (w *Web) remedies(ctx context.Context, s *node.State, n refusal) (explain.Remedies, error) {
	w.finding.Lock()
	last := w.searched
	w.finding.Unlock()
	if last.state == s && last.number == n.number {
		return last.remedies, nil
	}
	select {
	case <-ctx.Done():
		return explain.Remedies{}, ctx.Err()
	case w.searches <- struct{}{}:
	}
	defer func() { <-w.searches }()
	found, err := w.search(ctx, s, n.pod)
	if err != nil {
		return found, fmt.Errorf("search for what would admit pod %s: %w", n.pod.ID(), err)
	}
	w.finding.Lock()
	defer w.finding.Unlock()
	w.searched = searched{s, n.number, found}
	return found, nil
}

// without is the state that pods which are gone do not burden any more.
func without(s *node.State, gone []string) *node.State {
	for _, uid := range gone {
		s = s.Release(uid)
	}
	return s
}

// say adds a sentence about how the pod stands.
func (e *Explained) say(format string, args ...any) {
	e.Standing = append(e.Standing, fmt.Sprintf(format, args...))
}

// stamp is a time as sentences have it.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func (n refusal) when() *RefusedWhen {
	return &RefusedWhen{Number: n.number, UID: n.pod.UID, Reason: n.reason(), First: n.first, Last: n.last, Times: n.times}
}

// often says when a pod was refused: "3 times since …, last at …".
func (n refusal) often() string {
	if n.times == 1 {
		return "at " + stamp(n.last)
	}
	return fmt.Sprintf("%d times since %s, last at %s", n.times, stamp(n.first), stamp(n.last))
}

func (n refusal) reason() string {
	if n.refusal != nil {
		return n.refusal.Error()
	}
	return n.err.Error()
}

// holds says what a pod has, in a few words.
func holds(s *node.State, g *node.Grant) string {
	cpus := g.CPUs()
	if cpus.IsEmpty() {
		return "no CPUs of its own"
	}
	return fmt.Sprintf("CPUs %s on NUMA %s", cpus, strings.Trim(s.Machine().NodesOf(cpus).String(), "{}"))
}

// unknown says what is known where the name is not.
func unknown(s *node.State, list []refusal, name string) string {
	var names []string
	for _, g := range s.Grants() {
		names = append(names, g.Pod.ID())
	}
	refused := map[string]bool{}
	for _, n := range list {
		if id := n.pod.ID(); !refused[id] {
			refused[id] = true
			names = append(names, id)
		}
	}
	text := fmt.Sprintf("no pod %q is on this node or was rejected lately; pods here: %d, rejected lately: %d", name, len(s.Grants()), len(refused))
	if near := nearest(names, name); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, ", ") + "?"
	}
	return text
}

// nearest are the names most like one: the same name in another namespace, then those that begin alike,
// for at least half of its length.
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
