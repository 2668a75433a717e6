package nri

import (
	"context"
	"errors"
	"io/fs"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// sight is a look at the cgroup of one container.
type sight struct {
	id, path string
	touched  int
	setting  converge.Setting
	err      error
}

// look reads the cgroups of the containers for which nothing is under way, or a reply that should be carried out by now.
func (l *loop) look() {
	sights := l.sights()
	if len(sights) == 0 {
		return
	}
	l.job("look", func(ctx context.Context) func(*loop) {
		l.read(ctx, sights)
		return func(l *loop) {
			l.saw(sights)
			l.push()
		}
	})
}

// sights are the containers that look looks at.
func (l *loop) sights() []*sight {
	now := l.config.Now()
	var sights []*sight
	for _, c := range l.table.containers {
		if overdue := c.phase == updating && !c.flying() && !c.waits(now); c.path != "" && (c.phase == settled || c.phase == unknown || overdue) {
			sights = append(sights, &sight{id: c.id, path: c.path, touched: c.touched})
		}
	}
	return sights
}

// read reads the cgroups. It may wait.
func (p *Plugin) read(ctx context.Context, sights []*sight) {
	for _, at := range sights {
		at.setting, at.err = p.config.Cgroups.Read(at.path)
		if at.err != nil && !errors.Is(at.err, fs.ErrNotExist) {
			p.config.Log.WarnContext(ctx, "a container's cgroup cannot be read", "cgroup", at.path, "error", at.err)
		}
	}
}

// readWithin is read, or nil if ctx ends first.
func (p *Plugin) readWithin(ctx context.Context, sights []*sight) []*sight {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read(ctx, sights)
	}()
	select {
	case <-done:
		return sights
	case <-ctx.Done():
		return nil
	}
}

// saw takes what was read of the containers that did not change meanwhile.
func (l *loop) saw(sights []*sight) {
	for _, at := range sights {
		c := l.table.containers[at.id]
		if c == nil || c.touched != at.touched {
			continue
		}
		if at.err == nil {
			c.begun = true
			c.see(at.setting)
		}
		c.absent = errors.Is(at.err, fs.ErrNotExist) && (c.begun || l.config.Now().Sub(c.since) >= creation)
	}
}
