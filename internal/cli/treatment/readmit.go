package treatment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Outcome is what a start does to a pod.
type Outcome string

// The outcomes. All but Keeps and Unknown are changes.
const (
	// Keeps means that the pod keeps its CPUs and memory, or that it has none of its own before and
	// after the start.
	Keeps Outcome = "keeps"
	// Moves means that containers of the pod get other CPUs or memory of other NUMA nodes.
	Moves Outcome = "moves"
	// Gets means that the pod gets CPUs or memory of its own, and has none before.
	Gets Outcome = "gets its own"
	// Doubles means that the pod keeps its CPUs and NUMA nodes, and the kubelet counts more for it
	// than it has.
	Doubles Outcome = "counted twice"
	// Rejected means that the kubelet rejects the running pod: its phase is Failed then.
	Rejected Outcome = "rejected"
	// Stops means that the kubelet panics or hangs at the pod.
	Stops Outcome = "stops the kubelet"
	// Unknown means that it is not known. Why has the reason.
	Unknown Outcome = "unsure"
)

// PodStart is what a start does to one pod.
type PodStart struct {
	// Pod is the namespace and name.
	UID, Pod string
	Outcome  Outcome
	// Now is what the pod has in the files, and Then what it has after the start. They are nil if
	// that is nothing. Then is also nil if it is not known.
	Now, Then *node.Grant
	// Lost is what the pod does not have any more and no other pod gets, until the state files are
	// deleted.
	Lost []node.Residue
	// Quirks are the faults of the kubelet because of which the pod does not keep what it has. Why
	// is the reason if there is none.
	Quirks []quirk.Quirk
	Why    string
	// Give is what to give or to do to be sure, for the outcome Unknown.
	Give string
	// Do is what to do before the start. It is empty for a pod that keeps what it has.
	Do string
	// SameNow is set if a restart of the present kubelet has the same outcome.
	SameNow bool
}

// readmission is a kubelet's start under assumptions about what the files do not show.
type readmission struct {
	all           []quirk.Readmission
	before, after *node.State
	kubelet       quirk.Kubelet
	notes         []string
	doubts        []view.Doubt
	// tied is set if pods were created in the same second, so that their order is not known.
	tied bool
}

// assumptions are what a start assumes about what neither the files nor the pods show.
type assumptions struct {
	// reversed reverses the order of pods that were created in the same second.
	reversed bool
	// late releases what pods have that do not run, and pods that the kubelet rejects, only after
	// all pods are admitted.
	late bool
	// unregistered is set if no device plugin has registered when the pods are admitted.
	unregistered bool
}

// readmit makes the state of the files and admits the pods on it: static pods first, and then by
// their creation.
func readmit(f Found, texts []Text, pods inputs.Roster, n *inputs.Node, as assumptions) (*readmission, error) {
	f.Unreleased = as.late
	shown, err := f.OfFiles(texts, n)
	if err != nil { // A damaged file about devices is shown among the files.
		shown, err = f.Of(texts, n)
	}
	if err != nil {
		return nil, err
	}
	state := shown.State
	if as.unregistered {
		if state, err = state.WithDevices(nil); err != nil {
			return nil, err
		}
	}
	asked, err := pods.Requests(podspec.GatesOf(n.Policy.Policy))
	if err != nil {
		return nil, err
	}
	if as.reversed {
		slices.Reverse(asked)
	}
	order := func(a, b request.Pod) int {
		api := func(p request.Pod) int {
			if podspec.IsMirror(pods[p.UID]) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(api(a), api(b)), cmp.Compare(a.Created, b.Created))
	}
	slices.SortStableFunc(asked, order)
	r := &readmission{before: state, notes: append(shown.FaultNotes(), shown.Notes...), doubts: shown.OfNode()}
	for i := range asked {
		r.tied = r.tied || i > 0 && order(asked[i-1], asked[i]) == 0
	}
	release := quirk.AtNextPod
	if as.late {
		release = quirk.AfterStart
	}
	r.all, r.after, r.kubelet, err = quirk.New(f.Version).Readmit(state, asked, release)
	return r, err
}

// anyDevices reports whether a pod has devices.
func (r *readmission) anyDevices() bool {
	for g := range r.before.AllGrants() {
		if len(g.Devices()) > 0 {
			return true
		}
	}
	return false
}

// decide fills in what the kubelet does with the pods.
func (s *Start) decide(f Found, texts []Text, pods inputs.Roster, n *inputs.Node) error {
	first, err := readmit(f, texts, pods, n, assumptions{})
	if err != nil {
		s.unsureOf(pods, view.Doubt{Reason: err.Error(), Give: "collect the files, the pods and the configuration at the same time"})
		return nil //nolint:nilerr // The files show the answer for the start, and no state.
	}
	s.Unsure = append(s.Unsure, first.doubts...)
	s.notes = append(s.notes, first.notes...)
	s.Pods = first.pods(pods)
	for i := range s.Pods {
		s.Pods[i].doubt(pods, f.Version, s.Unsure, first)
	}
	if err := s.compare(first, f, texts, pods, n); err != nil {
		return err
	}
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Do != "" {
			p.Do = strings.Replace(p.Do, quirk.DeleteFirst, away(pods[p.UID]), 1)
		}
	}
	s.notes = append(s.notes, first.ended(s.Pods)...)
	if !slices.ContainsFunc(s.Pods, func(p PodStart) bool { return p.Outcome == Stops || p.Outcome == Unknown }) {
		s.NextStart, _ = first.kubelet.Restart(first.after, n.Policy.Policy)
	}
	return nil
}

// compare makes the answer about a pod unsure if it is another one under other assumptions.
func (s *Start) compare(first *readmission, f Found, texts []Text, pods inputs.Roster, n *inputs.Node) error {
	rejects := slices.ContainsFunc(s.Pods, func(p PodStart) bool { return p.Outcome == Rejected })
	released := slices.ContainsFunc(first.notes, func(note string) bool { return strings.Contains(note, releases) })
	for _, c := range []struct {
		matters bool
		as      assumptions
		doubt   view.Doubt
	}{
		{first.tied, assumptions{reversed: true}, view.Doubt{Reason: "it depends on the order in which the kubelet admits pods that were created in the same second", Give: giveNothing}},
		{first.anyDevices(), assumptions{unregistered: true}, view.Doubt{Reason: "it depends on whether the device plugins have registered again by then", Give: giveNothing}},
		{rejects || released, assumptions{late: true}, view.Doubt{Reason: "it depends on when the kubelet releases what pods have that do not run, or that it rejects", Give: giveNothing}},
	} {
		if !c.matters {
			continue
		}
		other, err := readmit(f, texts, pods, n, c.as)
		if err != nil {
			return err
		}
		others := other.pods(pods)
		for i := range s.Pods {
			p := &s.Pods[i]
			at := slices.IndexFunc(others, func(o PodStart) bool { return o.UID == p.UID })
			switch {
			case p.Outcome == Unknown:
			case others[at].Outcome != p.Outcome:
				p.unsure(c.doubt)
			case !samePlace(others[at].Then, p.Then):
				p.Then = nil
			}
		}
	}
	return nil
}

// pods returns what the start does to the pods.
func (r *readmission) pods(pods inputs.Roster) []PodStart {
	var all []PodStart
	done := map[string]bool{}
	for i := range r.all {
		p := r.pod(&r.all[i])
		all, done[p.UID] = append(all, p), true
		if p.Outcome != Stops {
			continue
		}
		for _, uid := range alive(pods) {
			if !done[uid] {
				rest := PodStart{UID: uid, Pod: pods.Name(uid)}
				rest.Now, _ = r.before.Grant(uid)
				rest.unsure(view.Doubt{Reason: "the kubelet stops at " + p.Pod + " before it decides about this pod", Give: "ask again without " + p.Pod})
				all = append(all, rest)
			}
		}
	}
	return all
}

// alive returns the UIDs of the pods that have not ended, in ascending order.
func alive(pods inputs.Roster) []string {
	var uids []string
	for uid := range pods {
		if pods.Alive(uid) {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

func (r *readmission) pod(a *quirk.Readmission) PodStart {
	p := PodStart{UID: a.Pod.UID, Pod: a.Pod.ID(), Now: a.Had, Then: a.Plan.Grant, Lost: r.lost(a.Pod.ID()), Quirks: a.Quirks}
	switch {
	case a.Plan.Trace.Cause.Down():
		p.Outcome = Stops
	case a.Plan.Rejection != nil:
		p.Outcome, p.Why = Rejected, a.Plan.Rejection.Error()
	case a.Had == nil && a.Plan.Grant.OwnsAnything():
		p.Outcome, p.Why = Gets, "its files have no CPUs and no memory of it, and this kubelet assigns them"
	case a.Had == nil:
		p.Outcome = Keeps
	case !samePlace(a.Had, a.Plan.Grant):
		p.Outcome, p.Why = Moves, "this kubelet assigns CPUs or memory to the pod again"
	case len(p.Lost) > 0:
		p.Outcome, p.Why = Doubles, "this kubelet assigns CPUs or memory to the pod again"
	default:
		p.Outcome = Keeps
	}
	switch {
	case p.Outcome == Keeps:
	case len(p.Quirks) > 0:
		p.Do = p.Quirks[0].BeforeStart()
	default:
		p.Do = quirk.DeleteFirst
	}
	return p
}

// giveNothing is for a doubt that no input can remove. Only then is it right to delete the pod
// before the start although the answer is unsure.
const giveNothing = "no file of the node shows it: treat the pod as one that changes"

// ended returns a note about pods whose init containers have ended and get memory again.
func (r *readmission) ended(pods []PodStart) []string {
	var names []string
	for i := range pods {
		at := slices.IndexFunc(r.all, func(a quirk.Readmission) bool { return a.Pod.UID == pods[i].UID })
		met := func(m node.Met) bool { return m.Fault == node.FaultEndedInits }
		if pods[i].Outcome == Keeps && at >= 0 && slices.ContainsFunc(r.all[at].Plan.Trace.Met, met) {
			names = append(names, pods[i].Pod)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: the kubelet assigns memory again to init containers that have ended: new pods have less memory until these pods end", strings.Join(names, ", "))}
}

// lost returns what the start takes from a pod and gives to no pod. Memory that an ended init
// container gets again is not lost: it is free when the pod ends.
func (r *readmission) lost(pod string) []node.Residue {
	var lost []node.Residue
	for _, x := range r.after.Residue() {
		if x.Cause == node.FaultAdmitsAgain && x.Pod == pod {
			lost = append(lost, x)
		}
	}
	return lost
}

// samePlace reports whether the containers that run, and the pool, have the same CPUs and their
// memory on the same NUMA nodes. Init containers that have nothing before have ended.
func samePlace(had, now *node.Grant) bool {
	if had == nil || now == nil {
		return had == now
	}
	if !had.Pool.Equal(now.Pool) || on(had.PoolMemory) != on(now.PoolMemory) {
		return false
	}
	for i := range had.Containers {
		old, is := &had.Containers[i], &now.Containers[i]
		ended := had.Pod.Containers[i].Type == request.Init
		if !old.CPUs.Equal(is.CPUs) && (!old.CPUs.IsEmpty() || !ended) {
			return false
		}
		if on(old.Memory) != on(is.Memory) && (len(old.Memory) > 0 || !ended) {
			return false
		}
	}
	return true
}

// on returns the NUMA nodes of blocks.
func on(blocks []memory.Block) mask.Mask {
	var nodes mask.Mask
	for _, b := range blocks {
		nodes |= b.Nodes
	}
	return nodes
}

// unsure makes the answer about the pod unsure.
func (p *PodStart) unsure(d view.Doubt) {
	p.Outcome, p.Then, p.Lost, p.Quirks, p.Why, p.Give = Unknown, nil, nil, nil, d.Reason, d.Give
	if p.Do = d.Give; d.Give == giveNothing {
		p.Do = "treat it as a pod that changes: " + quirk.DeleteFirst
	}
}

// unsureOf makes the answer about every pod unsure.
func (s *Start) unsureOf(pods inputs.Roster, why view.Doubt) {
	s.Pods = nil
	for _, uid := range alive(pods) {
		p := PodStart{UID: uid, Pod: pods.Name(uid)}
		p.unsure(why)
		s.Pods = append(s.Pods, p)
	}
}

// doubt makes the answer about a pod unsure if it depends on something that the inputs do not show.
func (p *PodStart) doubt(pods inputs.Roster, version behavior.Version, groups []view.Doubt, r *readmission) {
	if p.Outcome == Unknown {
		return
	}
	i := slices.IndexFunc(r.all, func(a quirk.Readmission) bool { return a.Pod.UID == p.UID })
	again := p.Outcome != Keeps || i >= 0 && len(r.all[i].Plan.Trace.Met) > 0
	pod := pods[p.UID]
	switch why := amountsInStatus(pod, version); {
	case why != "" && r.before.Policy().StaticCPU || why != "" && r.before.Policy().StaticMemory:
		p.unsure(view.Doubt{Reason: why, Give: "collect the pods again when the kubelet has written their status"})
	case again && len(groups) > 0:
		p.unsure(groups[0])
	case p.Now == nil && p.Outcome != Keeps && waits(pod):
		p.unsure(view.Doubt{Reason: "it is not in the files and has not started: the present kubelet can decide about it before", Give: "collect the files and the pods again when the pod has started or failed"})
	case slices.ContainsFunc(p.Quirks, func(q quirk.Quirk) bool { return !q.Certain }) && p.Outcome != Keeps:
		p.unsure(view.Doubt{Reason: p.Quirks[0].Reason(), Give: giveNothing})
	case restartedDevices(pod, version):
		p.unsure(view.Doubt{Reason: fmt.Sprintf("a container with devices has restarted, and kubelet %s can reject such a pod at its start; a newer patch does not", version), Give: "choose a newer patch of this minor"})
	}
}
