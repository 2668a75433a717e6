package nri

import (
	"context"
	"errors"
	"io/fs"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
	"github.com/paddock-project/paddock/internal/node/control"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// begin carries out a job in its own goroutine.
func (e *edge) begin(job control.Job) {
	ctx := e.config.Operation(e.ctx)
	e.jobs.Go(func() { e.tell(ctx, control.Done{Job: job.Name, Outcome: e.work(ctx, job)}) })
}

// work carries out a job and returns its outcome, or nil if it has none. It may wait.
func (p *Plugin) work(ctx context.Context, job control.Job) control.Occurrence {
	until := p.config.Now().Add(p.config.Period)
	if !job.Until.IsZero() {
		until = job.Until
	}
	within, cancel := context.WithTimeout(ctx, until.Sub(p.config.Now()))
	defer cancel()
	switch a := job.Of.(type) {
	case control.Write:
		return control.Written{Releases: a.Releases, Err: p.config.Engine.Tick(within)}
	case control.SetQuotas:
		for _, q := range a.Pods {
			p.setQuota(ctx, q.Grant, q.Want, q.Parents)
		}
	case control.Read:
		if job.Until.IsZero() {
			p.read(ctx, a.Sights)
			return control.Saw{Of: &a, Sights: a.Sights}
		}
		return control.Saw{Of: &a, Sights: p.readWithin(within, a.Sights)}
	case control.Inspect:
		seen, err := p.config.Seen(within, a.Paths)
		for i := range seen {
			seen[i].Absent = errors.Is(seen[i].Err, fs.ErrNotExist)
		}
		return control.Inspected{Of: a, Seen: seen, Err: err}
	case control.KeepAlive:
		p.config.Alive(a.At)
	default:
		return p.workOnPods(ctx, within, job)
	}
	return nil
}

// workOnPods is the part of work for the actions about the source of pods.
func (p *Plugin) workOnPods(ctx, within context.Context, job control.Job) control.Occurrence {
	switch a := job.Of.(type) {
	case control.Find:
		return p.find(within, a.Of)
	case control.FindAll:
		return p.findAll(within, a.Of, job.Until.Sub(p.config.Now()))
	case control.ListGone:
		listed, err := p.config.Pods.List(within)
		return control.GoneListed{Of: a, Listing: p.listing(listed, a.Traces), Err: err}
	case control.LatestPods:
		latest := make(map[string]control.Latest, len(a.UIDs))
		for _, uid := range a.UIDs {
			if pod, pending, known := p.config.Pods.Latest(uid); known {
				latest[uid] = control.Latest{Pod: pod, Pending: pending}
			}
		}
		return control.LatestListed{Pods: latest}
	case control.ListLatest:
		return p.listLatest(within, a)
	default:
		return p.workOnDecisions(ctx, within, job.Of)
	}
}

// workOnDecisions is the part of work for the actions that decide or write.
func (p *Plugin) workOnDecisions(ctx, within context.Context, a control.Action) control.Occurrence {
	switch a := a.(type) {
	case control.Preview:
		v := p.config.Engine.Preview(engine.Candidate{Pod: a.Of.Pod, Handed: a.Of.Box.Grant})
		return control.Previewed{
			Of: a.Of, Plan: v.Plan, Base: v.Base, By: v,
			Applied: v.Handed != nil && v.Handed.Applied(), Contested: v.Handed != nil && v.Handed.Contested(),
			HandsOver: p.config.Handover != nil && p.config.Handover.Used(),
		}
	case control.Decide:
		if v, previewed := a.By.(engine.Preview); previewed {
			d := p.config.Engine.AdmitPreviewed(within, v)
			return control.Decided{Of: a, Plan: d.Plan, Err: d.Err}
		}
		plan, err := p.config.Engine.Admit(within, a.Of.Pod)
		return control.Decided{Of: a, Plan: plan, Err: err}
	case control.AdmitAll:
		pods := make([]engine.Candidate, len(a.Pods))
		for i, c := range a.Pods {
			pods[i] = engine.Candidate{Pod: c.Pod, Handed: c.Handed}
		}
		done := control.AllDecided{Of: a.Of}
		for _, d := range p.config.Engine.AdmitAll(within, pods) {
			done.Plans, done.Errs = append(done.Plans, d.Plan), append(done.Errs, d.Err)
		}
		return done
	case control.ResizePod:
		plan, err := p.config.Engine.Resize(within, a.Pod)
		return control.PodResized{Of: a, Plan: plan, Err: err}
	case control.Follow:
		done := control.Followed{Of: a, Plans: make([]*node.Plan, len(a.Pods)), Errs: make([]error, len(a.Pods))}
		for i, pod := range a.Pods {
			done.Plans[i], done.Errs[i] = p.config.Engine.Resize(within, pod)
		}
		return done
	case control.FindRoom:
		return p.findRoom(within, a)
	case control.BeginSet:
		return control.SetBegun{Of: a, Err: p.beginSet(within, a)}
	case control.BeginMove:
		uid := a.To.Pod.UID
		if why := p.mayNot(uid, a.Cgroups); why != nil {
			return control.NextBegun{Of: a, MayNot: why}
		}
		return control.NextBegun{Of: a, Err: p.config.Engine.Move(within, uid, func(s *node.State) (*node.State, error) { return s.BeginMove(a.To) })}
	case control.Prove:
		return control.Proven{Of: a, Wrong: p.prove(ctx, a.Proofs, a.Pages)}
	case control.EndMove:
		return control.MoveWritten{Of: a, Err: p.config.Engine.Move(within, a.UID, func(s *node.State) (*node.State, error) { return s.EndMove(a.UID, a.Done), nil })}
	}
	return nil
}

// listing returns the answer of the source of pods and, for each trace of a pod that it does not
// list, whether the pod is gone.
func (p *Plugin) listing(listed map[string]request.Pod, traces map[string]control.Trace) control.Listing {
	gone := map[string]bool{}
	for uid, t := range traces {
		if _, there := listed[uid]; !there && listed != nil {
			gone[uid] = p.config.Pods.Gone(uid, absence.Trace{Sandbox: t.Sandbox, Since: t.Since})
		}
	}
	return control.Listing{Pods: listed, Traces: traces, Gone: gone}
}

// listLatest lists the pods, and looks up the latest version of the pod that is being resized.
func (p *Plugin) listLatest(ctx context.Context, a control.ListLatest) control.LatestFound {
	begin := p.config.Now()
	listed, err := p.config.Pods.List(ctx)
	p.config.Observer.Asked(p.config.Now().Sub(begin))
	found := control.LatestFound{Of: a, Listing: p.listing(listed, a.Traces), Err: err}
	found.Latest.Pod, found.Latest.Pending, found.Known = p.config.Pods.Latest(a.UID)
	return found
}
