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

// session is what an agent knows about a kubelet while its version and configuration stay the same.
type session struct {
	// release is the version in the kubelet's answer. version is the one whose rules the kubelet
	// follows.
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
	// from is the revision that follows those of the previous session. published counts writes of
	// the node's object. observers receive decisions in addition to web.
	from      uint64
	published publication.Observer
	observers []engine.Observer
	// byFile is set if the configuration is not the kubelet's answer. ctx ends with the session.
	byFile bool
	ctx    context.Context
	end    context.CancelFunc
	restarts

	// unsettled maps pods that have not started to what the files have for them, and since when.
	// postponed is the time since which decisions wait for these pods, or zero.
	unsettled map[string]unsettled
	postponed time.Time
	// decided maps the UIDs of the pods about which the kubelet has decided to the time of the last
	// look that listed them. It is nil before the first look.
	decided map[string]time.Time
	// failing is the time since which looks fail, or zero. blind is set if the agent did not see
	// the kubelet for a while since the last comparison.
	failing time.Time
	blind   bool
	// before is the last look whose decisions were compared.
	before reading
	// config is the kubelet's configuration, as it answered.
	config []byte
	// gates are the kubelet's feature gates, or nil. unlike are the gates that its configuration
	// does not explain.
	gates, unlike map[string]bool
	// object is the Node, or nil. configured is what the node has for pods according to the
	// configuration, or nil.
	object     *v1.Node
	configured *request.Totals
	mu         sync.Mutex // guards ledger
	ledger     observe.Ledger
}

// unsettled is what the files have for a pod, and since when.
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
	// signature is that of the files. pods are the UIDs of the pods that have not ended. roster has
	// all pods. node is what the Node has for them, or nil if that is not known.
	signature string
	pods      []string
	roster    inputs.Roster
	node      *v1.Node
}

// torn reports whether a state looks like one between two writes of the kubelet. This is so if it
// has CPUs or memory that nothing explains and that the state of the last comparison did not have,
// or if a pod that has not started has only a part of what it gets.
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

// lose records that the agent does not see the kubelet. Decisions up to the next look are not
// compared.
func (s *session) lose() { s.blind = true }

// fail records that a look has failed. The kubelet still counts as seen for settledAtMost, because
// it can be slow between two files, and few pods come and go in that time.
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
	// sight is what the agent compares.
	sight observe.Sight
	// replaced is set if the kubelet replaced the files in the meantime, and torn if they do not
	// add up.
	replaced, torn bool
}

// see processes the result of a look.
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

// remember records which pods are decided. A kubelet that was started again lists no pods at first,
// and then also those that have ended. A pod is therefore forgotten only after it was not listed
// for a while.
func (s *session) remember(now time.Time, all map[string]observe.Decision) {
	if s.decided == nil {
		s.decided = map[string]time.Time{}
	}
	for uid := range all {
		s.decided[uid] = now
	}
	maps.DeleteFunc(s.decided, func(_ string, seen time.Time) bool { return now.Sub(seen) > startingTime })
}

// keep continues to show what was seen last, with another certainty. What was read since then does
// not belong to a single moment.
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
// container, and can reject the pod after the first one. Therefore the files must have had the same
// for each new pod for settledAfter, unless the pod has started, and only pods that have started
// count as different from their prediction. Decisions wait for each other, because one depends on
// those before it, and they wait for files that add up, but no longer than settledAtMost.
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

// tell shows changes on the page and in the cluster.
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

// decide adds the kubelet's decision about a pod, and reports whether there is one. The kubelet has
// decided about a pod if the pod is in the files, has containers, or has a status that rejects it.
// The files have nothing for other pods; a kubelet gives those that it has admitted a start time.
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

// unexpected is the reason for several errors. The errors of the CPU Manager and the Memory Manager
// name what is missing, and the Device Manager's own errors have its wording. Any other error about
// devices comes from a plugin, and no file shows it.
const unexpected = "UnexpectedAdmissionError"

func ofManagers(message string) bool {
	message = strings.ToLower(message)
	if strings.Contains(message, "device") {
		return strings.Contains(message, "requested number of devices unavailable") || strings.Contains(message, "no healthy devices present")
	}
	return strings.Contains(message, "cpu") || strings.Contains(message, "memory")
}

// trust returns how the predictions compare with the kubelet's decisions.
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

// warning returns why the displayed state may be wrong, and which huge pages are in use although
// the Memory Manager counts them as free.
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
