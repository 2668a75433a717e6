package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
	"github.com/paddock-project/paddock/internal/node/control"
)

var levels = map[control.Level]slog.Level{control.Info: slog.LevelInfo, control.Warn: slog.LevelWarn, control.Error: slog.LevelError}

// effect carries out an action that has an effect on other parts of the node.
func (e *edge) effect(a control.Action) {
	c := &e.config
	switch a := a.(type) {
	case control.HangUp:
		if s := e.present.Load(); s != nil && s.id == a.Connection {
			s.cancel(a.Cause)
		}
	case control.Publish:
		e.status.Store(a.Status)
	case control.Drop:
		c.Engine.Drop(e.flow, a.UID)
	case control.ContainerCreated:
		c.Engine.ContainerCreated(a.UID, a.Name)
	case control.HandedBack:
		e.handedBack.close()
	case control.Notify:
		c.Notices.Changed(a.Of)
	case control.KeepNotices:
		c.Notices.Keep(a.Pods)
	case control.KeepPlace:
		c.Moves.Promises.Keep(a.UID, a.Place, a.Moved)
	case control.KeepUntil:
		c.Moves.Promises.Until(a.UID, a.At)
	case control.DropPlace:
		c.Moves.Promises.Drop(a.UID)
	case control.MoveBegun:
		if o := c.Moves.Observer; o != nil {
			o.Begun(a.Of)
		}
	case control.MoveEnded:
		if o := c.Moves.Observer; o != nil {
			o.Ended(a.Of, a.Done)
		}
	}
}

// count carries out an action for the metrics.
func (e *edge) count(a control.Action) {
	o := e.config.Observer
	switch a := a.(type) {
	case control.CountConnected:
		o.Connected(a.Connected)
	case control.CountAway:
		o.Away(a.Took)
	case control.CountVetoes:
		o.Vetoes(a.Asked)
	case control.CountRepaired:
		o.Repaired(a.Containers)
	case control.CountUnverified:
		o.Unverified(a.Containers)
	}
}

// update sends an unsolicited update. It ends with its connection at the latest.
func (e *edge) update(a control.Update) {
	s, messages := e.present.Load(), updatesOf(a.Updates)
	e.jobs.Go(func() {
		landed := control.Landed{Number: a.Number}
		failed, err := s.link.UpdateContainers(messages)
		for _, u := range failed {
			landed.Failed = append(landed.Failed, u.GetContainerId())
		}
		landed.Err = err
		e.tell(e.ctx, landed)
	})
}

// begin carries out a job, in a goroutine of its own.
func (e *edge) begin(job control.Job) {
	ctx := e.config.Operation(e.ctx)
	e.jobs.Go(func() { e.tell(ctx, control.Done{Job: job.Name, Outcome: e.work(ctx, job.Of)}) })
}

// work carries out the action of a job, and returns its outcome; nil: there is none. It may wait.
func (p *Plugin) work(ctx context.Context, a control.Action) control.Occurrence {
	within, cancel := context.WithTimeout(ctx, p.config.Period)
	defer cancel()
	asked, cancelAsked := context.WithTimeout(ctx, p.config.Timeout)
	defer cancelAsked()
	switch a := a.(type) {
	case control.Write:
		return control.Written{Releases: a.Releases, Err: p.config.Engine.Tick(within)}
	case control.ListPods:
		listed, err := p.config.Pods.List(asked)
		return control.Listed{Of: p.listing(listed, a.Traces), Err: err}
	case control.LatestPods:
		return p.latestPods(a.UIDs)
	case control.Adopt:
		p.adopt(asked, a.Boxes, p.config.Timeout)
		return control.Adopted{}
	case control.SetQuotas:
		for _, q := range a.Pods {
			p.setQuota(ctx, q.Grant, q.Want, q.Parents)
		}
	case control.Read:
		p.read(ctx, a.Sights)
		return control.Saw{Sights: a.Sights, Push: true}
	case control.Inspect:
		seen, err := p.config.Seen(within, a.Paths)
		for i := range seen {
			seen[i].Absent = errors.Is(seen[i].Err, fs.ErrNotExist)
		}
		return control.Inspected{Of: a, Seen: seen, Err: err}
	case control.Follow:
		return p.followAll(asked, a)
	case control.KeepAlive:
		p.config.Alive(a.At)
	default:
		return p.workOnMoves(ctx, within, a)
	}
	return nil
}

// workOnMoves is work for the actions of moves.
func (p *Plugin) workOnMoves(ctx, within context.Context, a control.Action) control.Occurrence {
	switch a := a.(type) {
	case control.Prove:
		return control.Proven{Of: a, Wrong: p.prove(ctx, a.Proofs, a.Pages)}
	case control.EndMove:
		return control.MoveWritten{Of: a, Err: p.config.Engine.Move(within, a.UID, func(s *node.State) (*node.State, error) { return s.EndMove(a.UID, a.Done), nil })}
	case control.BeginMove:
		uid := a.To.Pod.UID
		if why := p.mayNot(uid); why != nil {
			return control.NextBegun{Of: a, MayNot: why}
		}
		return control.NextBegun{Of: a, Err: p.config.Engine.Move(within, uid, func(s *node.State) (*node.State, error) { return s.BeginMove(a.To) })}
	}
	return nil
}

// listing is what the source of pods answered, with what it makes of the traces of pods that it
// does not list.
func (p *Plugin) listing(listed map[string]request.Pod, traces map[string]control.Trace) control.Listing {
	gone := map[string]bool{}
	for uid, t := range traces {
		if _, there := listed[uid]; !there && listed != nil {
			gone[uid] = p.config.Pods.Gone(uid, absence.Trace{Sandbox: t.Sandbox, Since: t.Since})
		}
	}
	return control.Listing{Pods: listed, Traces: traces, Gone: gone}
}

func (p *Plugin) latestPods(uids []string) control.LatestListed {
	latest := make(map[string]control.Latest, len(uids))
	for _, uid := range uids {
		if pod, pending, known := p.config.Pods.Latest(uid); known {
			latest[uid] = control.Latest{Pod: pod, Pending: pending}
		}
	}
	return control.LatestListed{Pods: latest}
}

// read reads the cgroups. It may wait.
func (p *Plugin) read(ctx context.Context, sights []control.Sight) {
	for i := range sights {
		at := &sights[i]
		at.Setting, at.Err = p.config.Cgroups.Read(at.Path)
		if at.Absent = errors.Is(at.Err, fs.ErrNotExist); at.Absent {
			at.Err = nil
		}
		if at.Err != nil {
			p.config.Log.WarnContext(ctx, "a container's cgroup cannot be read", "cgroup", at.Path, "error", at.Err)
		}
	}
}

// readWithin is read, or nil if ctx ends first. While a read of an earlier request waits for the
// kernel, none is added to it: each takes a thread for as long as it waits.
func (p *Plugin) readWithin(ctx context.Context, sights []control.Sight) []control.Sight {
	select {
	case p.glances <- struct{}{}:
	default:
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer func() { <-p.glances; close(done) }()
		p.read(ctx, sights)
	}()
	select {
	case <-done:
		return sights
	case <-ctx.Done():
		return nil
	}
}

// glance reads the cgroups of the containers whose settings are open before a reply is made. It
// waits at most a quarter of the time for the answer; what is not read by then stays open.
func (s *session) glance(ctx context.Context) {
	sights, err := ask[[]control.Sight](ctx, s.Plugin, control.Glance{Connection: s.id})
	if err != nil || len(sights) == 0 {
		return
	}
	within, cancel := context.WithTimeout(ctx, s.timeout/4)
	defer cancel()
	s.tell(ctx, control.Saw{Sights: s.readWithin(within, sights)})
}

const (
	// leftBehind is how much of a container's anonymous memory may be outside its NUMA nodes after
	// a move: pages that are in use by the kernel at that moment. leftPart is the same as a part of
	// all of it.
	leftBehind, leftPart = int64(16 << 20), 100
)

// prove reads back that the containers have their settings and, with pages, that their memory is
// on their NUMA nodes. It returns what is wrong, nil if nothing is. It may wait.
func (p *Plugin) prove(ctx context.Context, proofs []control.Proof, pages bool) error {
	for _, at := range proofs {
		if at.Path == "" {
			continue
		}
		has, err := p.config.Cgroups.Read(at.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // It has ended.
		case err != nil:
			return err
		case !control.Fulfils(has, at.Want):
			return fmt.Errorf("container %s has CPUs %s and memory nodes %s: want CPUs %s and memory nodes %s", at.Container, has.CPUs, has.Mems, at.Want.CPUs, at.Want.Mems)
		}
		if !pages || ctx.Err() != nil {
			continue
		}
		byNode, err := p.config.Cgroups.Pages(at.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if outside, all := outsideOf(byNode, at.Want.Mems); outside > max(leftBehind, all/int64(leftPart)) {
			return fmt.Errorf("container %s has %s of its %s of anonymous memory outside NUMA nodes %s: pinned pages do not move", at.Container, request.RoundedBytes(outside), request.RoundedBytes(all), at.Want.Mems)
		}
	}
	return nil
}

func outsideOf(byNode map[int]int64, nodes mask.Mask) (outside, all int64) {
	for id, bytes := range byNode {
		if all += bytes; !nodes.Has(id) {
			outside += bytes
		}
	}
	return outside, all
}

// grant is the durable grant of a pod, or nil; see control.Engine.
func (p *Plugin) grant(uid string) *node.Grant {
	now := p.engine()
	return now.Grant(uid)
}
