package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/observe"
	"github.com/paddock-project/paddock/internal/node/publication"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/internal/ui/web"
)

// session is what is known of a kubelet as long as its version and configuration stay the same.
type session struct {
	// release is the version as the kubelet answered, and version the one whose rules it follows.
	release string
	version behavior.Version
	node    *inputs.Node
	digest  [sha256.Size]byte
	since   time.Time
	doubts  []view.Doubt
	metrics *telemetry.Telemetry
	web     *web.Web
	pages   freeHugePages
	shown   atomic.Pointer[sight]
	// from is the revision after those of the session before. published counts writes of the node's
	// object, and observers receive decisions beside web.
	from      uint64
	published publication.Observer
	observers []engine.Observer
	// byFile is set if the configuration is not the kubelet's answer. ctx ends with the session.
	byFile bool
	ctx    context.Context
	end    context.CancelFunc
	restarts

	// unsettled has what the files have of pods that have not started, and since when. postponed is
	// since when decisions wait for them, or zero.
	unsettled map[string]unsettled
	postponed time.Time
	// decided has the pods about which the kubelet has decided, by UID. It is nil before the first
	// look.
	decided map[string]time.Time
	// failing is since when looks fail, or zero. blind is set if the kubelet was not seen for a
	// while since the last comparison.
	failing time.Time
	blind   bool
	// before is the last look whose decisions were compared.
	before reading
	// config is the kubelet's configuration, as it answered.
	config []byte
	// gates are its feature gates, or nil, and unlike those that its configuration does not give.
	gates, unlike map[string]bool
	// object is the Node, or nil, and configured is what the node has for pods according to the
	// configuration, or nil.
	object     *v1.Node
	configured *request.Totals
	mu         sync.Mutex // guards ledger
	ledger     observe.Ledger
}

// unsettled is what the files have of a pod, and since when.
type unsettled struct {
	grant *node.Grant
	since time.Time
}

// sight is what a look shows.
type sight struct {
	snapshot  *engine.Snapshot
	certainty *view.Certainty
	// taken are the huge pages that the Memory Manager counts as free and that are in use.
	taken []telemetry.HugePages
	// signature is that of the files, and pods are the UIDs of the pods that have not ended. roster
	// are all pods, and node is what the Node has for them, or nil if that is not known.
	signature string
	pods      []string
	roster    inputs.Roster
	node      *v1.Node
}

// torn reports whether a state is as between two writes of the kubelet: it has CPUs or memory that
// nothing explains and that the state of the last comparison did not have, or a pod that has not
// started has only a part of what it gets.
func (s *session) torn(state *node.State, pods inputs.Roster) bool {
	for g := range state.AllGrants() {
		if !treatment.Started(pods[g.Pod.UID]) && treatment.Incomplete(state, g) {
			return true
		}
	}
	lost := func(s *node.State) int {
		n := 0
		for _, r := range s.Residue() {
			n += r.CPUs.Len() + r.Twice.Len() + len(r.Memory)
		}
		return n
	}
	return lost(state) > 0 && (s.before.shown == nil || lost(state) > lost(s.before.shown.State))
}

// lose notes that the kubelet is not seen: what it decides until the next look is not compared.
func (s *session) lose() { s.blind = true }

// fail notes that a look has failed. The kubelet counts as seen for settledAtMost: it can be slow
// between two files, and few pods come and go in that time.
func (s *session) fail(now time.Time) {
	if s.failing.IsZero() {
		s.failing = now
	}
	if now.Sub(s.failing) >= settledAtMost {
		s.lose()
	}
}

// reading is what a look reads.
type reading struct {
	listing

	// signature is that of the files.
	signature string
	shown     *treatment.Shown
	// texts are the files.
	texts []treatment.Text
	// sight is what is compared.
	sight observe.Sight
	// replaced is set if the files were replaced meanwhile, and torn if they do not add up.
	replaced, torn bool
}

// see takes in what a look shows.
func (s *session) see(now time.Time, l reading) {
	s.failing = time.Time{}
	state := l.shown.State
	last := s.shown.Load()
	next := &sight{signature: l.signature, roster: l.pods, node: s.forPods(), taken: takenHugePages(state, s.pages)}
	for uid := range l.pods {
		if l.pods.Alive(uid) {
			next.pods = append(next.pods, uid)
		}
	}
	all, waiting := s.decisions(&l)
	var decided []observe.Decision
	for uid, d := range all {
		if _, known := s.decided[uid]; s.decided != nil && !known {
			decided = append(decided, d)
		}
	}
	slices.Sort(next.pods)
	slices.SortFunc(decided, func(a, b observe.Decision) int {
		return cmp.Or(cmp.Compare(a.Pod.Created, b.Pod.Created), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
	var compared []observe.Comparison
	settled := s.settled(now, &l, decided)
	if settled {
		compared = s.compare(now, &l, decided)
		s.remember(now, all)
		s.before, s.blind = l, false
	} else {
		for _, d := range decided {
			waiting = append(waiting, d.Pod.ID())
		}
	}
	slices.Sort(waiting)
	doubts, changing := s.all(l.shown.OfNode()), !settled && (l.torn || l.replaced)
	if changing && s.blind {
		doubts = append(doubts, view.Doubt{Reason: "the kubelet was not seen for a while, and its files have been changing since", Give: "wait some seconds"})
	}
	next.certainty = view.CertaintyOf(doubts, waiting)
	if last != nil && changing {
		s.keep(now, last, next.certainty)
		return
	}
	switch {
	case last == nil:
		state = state.Resume(max(state.Generation(), s.from))
	case last.signature == l.signature && slices.Equal(last.pods, next.pods):
		state = last.snapshot.State
	default:
		state = state.Resume(last.snapshot.State.Generation() + 1)
	}
	next.snapshot = &engine.Snapshot{State: state, Version: state.Generation()}
	s.shown.Store(next)
	s.tell(now, last, state, compared)
}

// remember notes which pods are decided. A kubelet that was started again lists no pods at first,
// and then those that have ended, too. So a pod is forgotten when it was not listed for a while.
func (s *session) remember(now time.Time, all map[string]observe.Decision) {
	if s.decided == nil {
		s.decided = map[string]time.Time{}
	}
	for uid := range all {
		s.decided[uid] = now
	}
	maps.DeleteFunc(s.decided, func(_ string, seen time.Time) bool { return now.Sub(seen) > startingTime })
}

// keep goes on to show what was seen last, with another certainty. What was read since is of no one
// moment.
func (s *session) keep(now time.Time, last *sight, certainty *view.Certainty) {
	if reflect.DeepEqual(last.certainty, certainty) {
		return
	}
	same := *last
	same.certainty = certainty
	s.shown.Store(&same)
	s.tell(now, last, same.snapshot.State, nil)
}

// all returns the doubts about the node, those of the session first.
func (s *session) all(ofLook []view.Doubt) []view.Doubt {
	doubts := slices.Concat(s.doubts, s.otherNode(), ofLook)
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := s.ledger.Doubt(); why != "" {
		doubts = append(doubts, view.Doubt{Reason: why, Give: "report the differences that paddock trust shows"})
	}
	return doubts
}

func (s *session) compare(now time.Time, l *reading, decided []observe.Decision) []observe.Comparison {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.decided == nil: // Nothing is known of what was decided before.
		s.ledger.Begin(l.sight)
		return nil
	case s.blind:
		s.ledger.Skip(now, l.sight, decided, "it was decided while the kubelet's files and answers could not be read, or while the kubelet was started again")
		return nil
	}
	s.ledger.Evidence = func(c *observe.Comparison) []byte { return s.evidence(l, decided, c) }
	return s.ledger.Look(now, l.sight, decided)
}

// settled reports whether new decisions are complete. A kubelet writes what a pod gets container by
// container, and can reject it after the first one. So the files must have had the same of each new
// pod for settledAfter, unless it has started, and only pods that have started are believed to
// differ from their prediction. Decisions wait for each other, because one depends on those before
// it, and for files that add up, but no longer than settledAtMost.
func (s *session) settled(now time.Time, l *reading, decided []observe.Decision) bool {
	next, all := map[string]unsettled{}, !l.replaced && !l.torn
	for i := range decided {
		uid := decided[i].Pod.UID
		g, listed := l.shown.State.Grant(uid)
		if !listed || decided[i].Reason != "" || treatment.Started(l.pods[uid]) {
			continue
		}
		u := s.unsettled[uid]
		if u.grant == nil || !u.grant.SameAssignments(g) {
			u = unsettled{g, now}
		}
		next[uid] = u
		all = all && now.Sub(u.since) >= settledAfter
	}
	if all && len(next) > 0 && s.decided != nil && !s.blind {
		all = s.ledger.Fits(l.sight, decided)
	}
	s.unsettled = next
	switch {
	case all:
		s.postponed = time.Time{}
	case s.postponed.IsZero():
		s.postponed = now
	case now.Sub(s.postponed) >= settledAtMost:
		s.postponed = time.Time{}
		if l.replaced { // The kubelet writes all the time: what is read is of no one moment.
			s.lose()
		}
		return true
	}
	return all
}

// tell shows on the page and in the cluster what has changed.
func (s *session) tell(now time.Time, last *sight, state *node.State, compared []observe.Comparison) {
	for _, o := range s.observers {
		o.Wrote(engine.Write{State: state, At: now})
	}
	if last != nil {
		for g := range last.snapshot.State.AllGrants() {
			if _, there := state.Grant(g.Pod.UID); !there {
				for _, o := range s.observers {
					o.Released(g.Pod.UID)
				}
			}
		}
	}
	for _, c := range compared {
		predicted := c.Result == observe.AsPredicted || c.Result == observe.Reordered
		if !predicted || c.Admitted {
			continue
		}
		d := engine.Decision{Plan: c.Plan, Base: c.Base}
		if c.Short != "" {
			d.Err = &engine.OutsideError{Reason: observe.OutOf + c.Short, Resource: c.Short, Message: strings.TrimPrefix(c.Message, treatment.RejectedMessage)}
		}
		for _, o := range s.observers {
			o.Decided(d)
		}
	}
}

// decide adds what the kubelet has decided about a pod, and reports whether it has decided. A pod
// about which it has decided is in the files, has containers, or has a status that rejects it. The
// files have nothing of other pods: the kubelet gives those that it has admitted a start time.
func decide(d *observe.Decision, pod *v1.Pod, shown *treatment.Shown) bool {
	_, listed := shown.State.Grant(d.Pod.UID)
	switch status := treatment.PodStatusOf(pod, nil); {
	case status.AtStart:
		d.Reason, d.Message, d.Doubts = pod.Status.Reason, pod.Status.Message, []string{"the kubelet rejected a running pod when it was started again"}
		return true
	case status.Rejected:
		d.Reason, d.Message = pod.Status.Reason, pod.Status.Message
		if !predictable(d.Reason) {
			d.Doubts = []string{"it was rejected for " + cmp.Or(d.Reason, "no reason") + ", which is not predicted"}
		} else if d.Reason == unexpected && !ofManagers(pod.Status.Message) {
			d.Doubts = []string{"it was rejected by a device plugin, or for another reason that no file shows"}
		}
	case podspec.Ended(pod) && !listed && treatment.Owns(shown.State, &d.Pod):
		d.Doubts = []string{"it ended before the kubelet's files with it were seen"}
	case listed || treatment.Started(pod) || podspec.Ended(pod):
	case pod.Status.StartTime == nil || treatment.Owns(shown.State, &d.Pod):
		return false
	}
	for _, doubt := range shown.Doubts(&d.Pod) {
		d.Doubts = append(d.Doubts, doubt.Reason)
	}
	return true
}

// unexpected is the reason of several errors. Those of the CPU and the Memory Manager name what is
// missing, and those of the Device Manager itself are in its own words. Any other error about
// devices is a plugin's, which no file shows.
const unexpected = "UnexpectedAdmissionError"

func ofManagers(message string) bool {
	message = strings.ToLower(message)
	if strings.Contains(message, "device") {
		return strings.Contains(message, "requested number of devices unavailable") || strings.Contains(message, "no healthy devices present")
	}
	return strings.Contains(message, "cpu") || strings.Contains(message, "memory")
}

// trust returns how the predictions compare with what the kubelet did.
func (s *session) trust() view.Trust {
	s.mu.Lock()
	t := view.TrustOf(&s.ledger)
	s.mu.Unlock()
	t.Kubelet, t.Policy, t.Since = "kubelet-"+s.version.String(), s.node.Policy.Text, s.since
	if last := s.shown.Load(); last != nil {
		t.Certainty = last.certainty
	}
	return t
}

// count returns the number of comparisons with a result, for telemetry.
func (s *session) count(result string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := observe.Result(result)
	return s.ledger.Admissions()[r] + s.ledger.Rejections()[r]
}

// takenPages returns the huge pages that the Memory Manager counts as free and that are in use.
func (s *session) takenPages() []telemetry.HugePages {
	if last := s.shown.Load(); last != nil {
		return last.taken
	}
	return nil
}

// warning returns why the state that is shown can be wrong, and which huge pages are not free
// although it has them so.
func (s *session) warning() string {
	last := s.shown.Load()
	if last == nil {
		return ""
	}
	var texts []string
	for _, d := range last.certainty.Doubts {
		texts = append(texts, "unsure: "+d.String())
	}
	for _, p := range last.taken {
		texts = append(texts, textOf(p))
	}
	return strings.Join(texts, "; ")
}
