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

// look reads the cgroups of the containers whose settings they can prove.
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

// sights are the containers whose cgroups look reads. While a reply that changes a container may
// still be applied, the cgroup proves something only if the setting before is certain.
func (l *loop) sights() []*sight {
	now := l.config.Now()
	var sights []*sight
	for _, c := range l.table.containers {
		if c.path == "" || c.phase == creating || c.flying() || c.waits(now) && !c.sure {
			continue
		}
		sights = append(sights, &sight{id: c.id, path: c.path, touched: c.touched})
	}
	return sights
}

// glance reads the cgroups of the containers whose settings are open before a reply is made, so
// that the reply need not assume everything that they may have. It waits at most a quarter of the
// time for the answer; what is not read by then stays open.
func (s *session) glance(ctx context.Context) {
	sights, err := ask(ctx, s.Plugin, "glance", func(l *loop) (open []*sight) {
		if !l.asked(s) {
			return nil
		}
		for _, c := range l.table.containers {
			if c.phase == unknown && c.path != "" {
				open = append(open, &sight{id: c.id, path: c.path, touched: c.touched})
			}
		}
		return open
	})
	if err != nil || len(sights) == 0 {
		return
	}
	within, cancel := context.WithTimeout(ctx, s.timeout/4)
	defer cancel()
	sights = s.readWithin(within, sights)
	s.tell(ctx, "saw", func(l *loop) { l.saw(sights) })
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

// readWithin is read, or nil if ctx ends first. While a read of an earlier request waits for the
// kernel, none is added to it: each takes a thread for as long as it waits.
func (p *Plugin) readWithin(ctx context.Context, sights []*sight) []*sight {
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

// saw notes the settings of the containers that did not change since the look began.
func (l *loop) saw(sights []*sight) {
	now := l.config.Now()
	for _, at := range sights {
		c := l.table.containers[at.id]
		if c == nil || c.touched != at.touched {
			continue
		}
		if at.err == nil {
			c.begun = true
			l.sees(c, at.setting, !c.waits(now))
		}
		c.absent = errors.Is(at.err, fs.ErrNotExist) && (c.begun || now.Sub(c.since) >= creation)
	}
}

// sees notes what a cgroup shows; see container.see. What a learned container owns is known once
// its setting is.
func (l *loop) sees(c *container, file converge.Setting, late bool) {
	learned := c.learned
	if c.see(file, late); learned && !c.learned {
		c.own = l.want().Owns(c.pod, c.name)
	}
}
