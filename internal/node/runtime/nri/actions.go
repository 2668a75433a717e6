package nri

import (
	"log/slog"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/control"
)

var levels = map[control.Level]slog.Level{control.Info: slog.LevelInfo, control.Warn: slog.LevelWarn, control.Error: slog.LevelError}

// effect carries out an action that affects other parts of the node.
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

// count carries out an action that updates metrics.
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
	case control.CountUnsettled:
		o.Unsettled(a.Containers)
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

// grant returns the durable grant of a pod, or nil if it has none; see control.Engine.
func (p *Plugin) grant(uid string) *node.Grant {
	now := p.engine()
	return now.Grant(uid)
}
