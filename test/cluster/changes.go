package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/test/cluster/hollow"
	"github.com/paddock-project/paddock/test/cluster/load"
)

// scheduler is a paddock-scheduler that can be started.
type scheduler struct {
	program, config string
	// inspect is the address at which it shows its states. If empty, it does not show them.
	inspect string
}

// changes replaces the scheduler by that of another version after a third of the placements, and
// that by the first one after two thirds. Pods come and go all the time.
type changes struct {
	*cluster
	first, other scheduler
	placements   int
	bound        atomic.Int64
	ended        chan error
	// made counts the changes. kept is how many pods ran before a change and until the next one, or
	// until the end. moved lists those that had other assignments then.
	made, kept int
	moved      []string
}

// begin starts to follow a load. The load must not have started.
func (ch *changes) begin(ctx context.Context, config *load.Config) {
	config.Progress = func(bound int) { ch.bound.Store(int64(bound)) }
	ch.ended = make(chan error, 1)
	go func() { ch.ended <- ch.run(ctx) }()
}

func (ch *changes) run(ctx context.Context) error {
	var before []hollow.NodeState
	running, next := ch.first, ch.other
	for part := 1; ; part++ {
		if err := ch.await(ctx, part*ch.placements/3); err != nil {
			return err
		}
		now, err := ch.hollow.states(ctx)
		if err != nil {
			return err
		}
		kept, moved, err := movedBetween(before, now)
		if err != nil {
			return err
		}
		ch.kept += kept
		ch.moved = append(ch.moved, moved...)
		if part == 3 {
			return nil
		}
		say("the scheduler %s takes the place of %s, with %d placed", next.program, running.program, ch.bound.Load())
		if err := errors.Join(ch.plane.Kill(running.program), ch.startPaddock(ctx, next)); err != nil {
			return err
		}
		ch.made++
		before, running, next = now, next, running
	}
}

// await waits until so many pods were bound.
func (ch *changes) await(ctx context.Context, bound int) error {
	for ch.bound.Load() < int64(bound) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// end makes the changes that are left, and waits for the last look at the nodes. The load must have
// ended.
func (ch *changes) end() error {
	ch.bound.Store(int64(ch.placements))
	return <-ch.ended
}

// movedBetween counts the pods that have assignments at both times, and lists those that were moved.
func movedBetween(before, now []hollow.NodeState) (kept int, moved []string, err error) {
	has := map[string]string{}
	for _, s := range now {
		maps.Copy(has, s.Grants)
	}
	for _, s := range before {
		for _, uid := range slices.Sorted(maps.Keys(s.Grants)) {
			text, there := has[uid]
			if !there {
				continue // It has ended.
			}
			was, err := grantform.Decode([]byte(s.Grants[uid]))
			if err != nil {
				return 0, nil, err
			}
			is, err := grantform.Decode([]byte(text))
			if err != nil {
				return 0, nil, err
			}
			if samePlace(was, is) {
				kept++
			} else {
				moved = append(moved, fmt.Sprintf("%s: pod %s had %s, and has %s", s.Name, uid, s.Grants[uid], text))
			}
		}
	}
	return kept, moved, nil
}

// samePlace reports whether all containers of a pod have the CPUs and the NUMA nodes that they had.
// The bytes of an init container end with it (R-MEM-63), and it keeps its NUMA nodes.
func samePlace(was, is *node.Grant) bool {
	return was.Pool.Equal(is.Pool) && slices.EqualFunc(was.Containers, is.Containers, func(a, b node.ContainerGrant) bool {
		return a.CPUs.Equal(b.CPUs) && a.MemoryNodes == b.MemoryNodes
	})
}

// String formats the figures.
func (ch *changes) String() string {
	return fmt.Sprintf("  another version          %d changes of the scheduler; %d pods ran across them, %d of them were moved\n", ch.made, ch.kept+len(ch.moved), len(ch.moved))
}

// check returns an error if a change moved a pod, or if no pod ran across one.
func (ch *changes) check() error {
	var errs []error
	for _, m := range ch.moved[:min(len(ch.moved), 20)] {
		errs = append(errs, errors.New(m))
	}
	if ch.made != 2 || ch.kept == 0 {
		errs = append(errs, fmt.Errorf("%d changes of the scheduler, across which %d pods ran: expected two, and some", ch.made, ch.kept))
	}
	return errors.Join(errs...)
}
