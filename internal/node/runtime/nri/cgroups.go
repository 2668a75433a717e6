package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/control"
)

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

// readWithin calls read and returns its result, or nil if ctx ends first. It also returns nil while
// the read of an earlier request still waits for the kernel, because each such read occupies a
// thread.
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

// glance reads the cgroups of the containers whose settings are unknown, before a reply is made. It
// waits at most a quarter of the time for the answer. Settings that are not read by then stay
// unknown.
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
	// leftBehind limits the bytes of a container's anonymous memory that may be outside its NUMA
	// nodes after a move: pages that the kernel uses at that moment. leftPart gives the same limit
	// as a fraction, 1/leftPart, of all its anonymous memory. The larger limit applies.
	leftBehind, leftPart = int64(16 << 20), 100
)

// prove reads the cgroups back and checks that the containers have their settings. If pages is set,
// it also checks that their memory is on their NUMA nodes. It returns an error for the first
// container that differs. It may wait.
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
			return fmt.Errorf("container %s has CPUs %s and memory nodes %s: expected CPUs %s and memory nodes %s", at.Container, has.CPUs, has.Mems, at.Want.CPUs, at.Want.Mems)
		}
		if !pages || ctx.Err() != nil {
			continue
		}
		byNode, err := p.config.Cgroups.Pages(at.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if outside, all := outsideOf(byNode, at.Want.Mems); outside > max(leftBehind, all/int64(leftPart)) {
			return fmt.Errorf("container %s has %s of its %s of anonymous memory outside %s: pinned pages do not move", at.Container, request.RoundedBytes(outside), request.RoundedBytes(all), at.Want.Mems.Text())
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
