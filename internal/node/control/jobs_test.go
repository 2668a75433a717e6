package control

import (
	"errors"
	"fmt"
	"maps"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// This file implements the jobs of a world: what a source of pods, an engine, a disk and a kernel
// do.

var (
	errLate     = errors.New("no answer in time")
	errDisk     = errors.New("no space left on device")
	errUnlisted = errors.New("the pod is not listed")
	errBlocked  = errors.New("the runtime creates nothing until the container that it stops has ended")
)

// directly is the hook of updates that the agent writes to the cgroups itself.
const directly = "cgroup"

// work does a job. It takes no time. If late is not nil, the time of the job is over.
func (w *world) work(job Job, late error) Occurrence {
	switch a := job.Of.(type) {
	case Write:
		return Written{Releases: a.Releases}
	case Read:
		if late == nil {
			w.read(a.Sights)
			return Saw{Of: &a, Sights: a.Sights}
		}
		return Saw{Of: &a}
	case Inspect:
		return Inspected{Of: a, Seen: w.seen()}
	case Prove:
		return Proven{Of: a, Wrong: w.prove(a.Proofs)}
	case SetQuotas, KeepAlive:
		return nil
	case Find, FindAll, ListGone, LatestPods, ListLatest:
		return w.workOfSource(a, late)
	default:
		w.reserve()
		return w.workOfEngine(a, late)
	}
}

// workOfSource does a job of the source of pods.
func (w *world) workOfSource(a Action, late error) Occurrence {
	switch a := a.(type) {
	case Find:
		uid := a.Of.Box.Pod
		found := Found{Of: a.Of}
		found.Pod, found.Err = w.lookup(uid, late)
		if pod, numbers := w.estimated[uid]; numbers && found.Err != nil {
			return Found{Of: a.Of, Pod: pod, Unlisted: found.Err}
		}
		return found
	case FindAll:
		found := AllFound{Of: a.Of}
		for _, box := range a.Of.Boxes {
			pod, err := w.lookup(box.Pod, late)
			found.Pods, found.Errs = append(found.Pods, pod), append(found.Errs, err)
		}
		return found
	case ListGone:
		if w.onList != nil {
			return w.onList(a)
		}
		return GoneListed{Of: a, Listing: w.listing(a.Traces), Err: late}
	case LatestPods:
		latest := map[string]Latest{}
		for uid, pod := range w.listed {
			latest[uid] = Latest{Pod: pod}
		}
		return LatestListed{latest}
	case ListLatest:
		pod, known := w.listed[a.UID]
		return LatestFound{Of: a, Listing: w.listing(a.Traces), Latest: Latest{Pod: pod}, Known: known, Err: late}
	}
	return nil
}

func (w *world) lookup(uid string, late error) (request.Pod, error) {
	pod, listed := w.listed[uid]
	if late == nil && !listed {
		late = errUnlisted
	}
	return pod, late
}

func (w *world) listing(traces map[string]Trace) Listing {
	gone := map[string]bool{}
	for uid := range traces {
		gone[uid] = w.listed[uid].UID == ""
	}
	return Listing{Pods: maps.Clone(w.listed), Traces: traces, Gone: gone}
}

// workOfEngine does a job of the engine.
func (w *world) workOfEngine(a Action, late error) Occurrence {
	switch a := a.(type) {
	case Preview:
		return Previewed{Of: a.Of, Plan: w.state.Plan(a.Of.Pod), Base: w.state, By: true}
	case FindRoom:
		return RoomFound{Of: a, Set: w.findRoom(a)}
	case Decide:
		plan, err := w.decide(func(s *node.State) *node.Plan { return s.Plan(a.Of.Pod) }, late)
		return Decided{Of: a, Plan: plan, Err: err}
	case AdmitAll:
		done := AllDecided{Of: a.Of}
		for _, c := range a.Pods {
			plan, err := w.decide(func(s *node.State) *node.Plan { return s.Plan(c.Pod) }, late)
			done.Plans, done.Errs = append(done.Plans, plan), append(done.Errs, err)
		}
		return done
	case ResizePod:
		plan, err := w.decide(func(s *node.State) *node.Plan { return s.Resize(a.Pod.UID, a.Pod) }, late)
		return PodResized{Of: a, Plan: plan, Err: err}
	case Follow:
		done := Followed{Of: a}
		for _, pod := range a.Pods {
			plan, err := w.decide(func(s *node.State) *node.Plan { return s.Resize(pod.UID, pod) }, late)
			done.Plans, done.Errs = append(done.Plans, plan), append(done.Errs, err)
		}
		return done
	case BeginSet:
		return SetBegun{Of: a, Err: w.write(func(s *node.State) (*node.State, error) { return moves.Begin(s, a.Left, a.Pod, a.Place) }, late)}
	case BeginMove:
		return NextBegun{Of: a, Err: w.write(func(s *node.State) (*node.State, error) { return s.BeginMove(a.To) }, late)}
	case EndMove:
		return MoveWritten{Of: a, Err: w.write(func(s *node.State) (*node.State, error) { return s.EndMove(a.UID, a.Done), nil }, late)}
	}
	return nil
}

// decide plans, and makes the plan durable.
func (w *world) decide(plan func(*node.State) *node.Plan, late error) (p *node.Plan, err error) {
	if p = plan(w.state); p.Rejection == nil {
		err = w.write(func(s *node.State) (*node.State, error) { return s.Apply(plan(s)) }, late)
	}
	return p, err
}

// write makes a change durable. A write whose time is over goes on, and becomes durable later.
func (w *world) write(change func(*node.State) (*node.State, error), late error) error {
	switch {
	case late != nil:
		w.held = append(w.held, func() { _ = w.write(change, nil) })
		return late
	case w.fail > 0:
		w.fail--
		return errDisk
	}
	next, err := change(w.state)
	if err == nil && next != w.state {
		w.apply(next)
	}
	return err
}

func (w *world) findRoom(a FindRoom) *moves.Set {
	terms := moves.TermsOf(a.Base.Policy().Moves)
	consent := terms.Consent
	terms.Consent = func(g *node.Grant) request.Consent {
		if a.Stay[g.Pod.UID] {
			return request.NeverMoves
		}
		return consent(g)
	}
	return moves.Find(a.Base.WithReservations(nil), a.Of.Pod, terms).Set
}

func (w *world) read(sights []Sight) {
	for i := range sights {
		if r := w.running[sights[i].ID]; r != nil {
			sights[i].Setting = r.setting
		} else {
			sights[i].Absent = true
		}
	}
}

func (w *world) seen() (seen []Seen) {
	for _, r := range w.containers() {
		if r.begun {
			seen = append(seen, Seen{Who: "default/" + r.pod, Path: r.id, Observed: converge.Observed{ID: r.id, Pod: r.pod, Container: r.name, Setting: r.setting}, Deleted: w.ending[r.pod]})
		}
	}
	return seen
}

func (w *world) prove(proofs []Proof) error {
	for _, at := range proofs {
		if r := w.running[at.ID]; r != nil && !Fulfils(r.setting, at.Want) {
			return fmt.Errorf("container %s runs on %s", at.Container, r.setting.CPUs)
		}
	}
	return nil
}
