package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

const statePath = "/var/lib/paddock/state.json"

// life is the life of a node over a file system that loses power. It knows which state files may be
// found after a crash at any moment, and what was promised to which pod. Its methods return an
// error when a promise is broken.
type life struct {
	ctx     context.Context
	machine *machine.Machine
	policy  node.Policy
	disk    *crashfs.FS
	store   *store.Store
	engine  *engine.Engine // nil when there is no agent

	// may are the files that may be found: the file that was written last, and those of later
	// writes that did not certainly fail. The write of the last one may still be under way.
	may []version
	// assigned are the pods that were admitted. ended are those that were released and not admitted
	// again.
	assigned map[string]*promise
	ended    map[string]bool

	looks  uint64 // number of crashes that were checked
	broken error  // the first error
}

// version is one state file. If data is nil, there is no file.
type version struct {
	data   []byte
	grants map[string]*node.Grant
}

// promise is what was promised to a pod.
type promise struct {
	grant *node.Grant
	// leaving is true once the release of the pod has begun. The pod may be gone.
	leaving bool
	// or are other grants that the pod may have, because it is not known whether a resize was
	// written.
	or []*node.Grant
	// resizing is true while the pod may get another grant with the write that is under way.
	resizing bool
	// created is true if memory of init containers may be free.
	created bool
	// claims are the ResourceClaims that may be kept for the pod: the last ones, or several while
	// it is not known which were written.
	claims [][]request.Claim
}

func newLife(ctx context.Context, m *machine.Machine, p node.Policy) *life {
	return &life{
		ctx: ctx, machine: m, policy: p, disk: crashfs.New(), may: []version{{}},
		assigned: map[string]*promise{}, ended: map[string]bool{},
	}
}

// start opens what is on the disk. If the disk fails, there is no agent afterwards.
func (l *life) start() error {
	kept, loaded, err := store.Open(watched{l.disk, l.look}, statePath, statefile.MaxSize, l.validate)
	if err != nil {
		l.disk.Kill()
		if errors.Is(err, store.ErrDamaged) {
			return err
		}
		return l.broken
	}
	v, known := l.recognise(loaded.Data)
	if !known {
		return fmt.Errorf("%v: it is neither the state before nor the one after", loaded)
	}
	s, err := l.adopt(v)
	if err != nil {
		return fmt.Errorf("%v: %w", loaded, err)
	}
	l.may, l.store = []version{v}, kept
	l.settle(v)
	var encoder statefile.Encoder
	l.engine = engine.New(s, engine.Config{
		Store: kept, Now: time.Now, Observer: l, Log: slog.New(slog.DiscardHandler),
		Encode: func(s *node.State) ([]byte, error) {
			data, err := encoder.Encode(s)
			if err == nil {
				err = l.attempt(data)
			}
			return data, err
		},
	})
	return l.verify()
}

// validate decodes only unknown data. A file that may be found was decoded when it was written.
func (l *life) validate(data []byte) error {
	if _, known := l.recognise(data); known {
		return nil
	}
	_, err := statefile.Decode(statePath, data)
	return err
}

func (l *life) recognise(data []byte) (version, bool) {
	for _, v := range l.may {
		if bytes.Equal(v.data, data) && (v.data == nil) == (data == nil) {
			return v, true
		}
	}
	return version{}, false
}

// adopt starts from a version, as the agent does.
func (l *life) adopt(v version) (*node.State, error) {
	inventory, err := device.NewInventory(l.machine, nil)
	if err != nil || v.data == nil {
		return fresh(l.machine, l.policy, err)
	}
	file, err := statefile.Decode(statePath, v.data)
	if err != nil {
		return nil, err
	}
	s, findings, err := node.Adopt(l.machine, l.policy, inventory, file.Grants)
	if err == nil && len(findings) > 0 {
		err = fmt.Errorf("findings: %v", findings)
	}
	if err == nil {
		s = s.Resume(file.Generation)
		err = twice(s)
	}
	return s, err
}

func fresh(m *machine.Machine, p node.Policy, err error) (*node.State, error) {
	if err != nil {
		return nil, err
	}
	return node.New(m, p)
}

// twice checks without the product's code that no CPU is lost or given to two pods.
func twice(s *node.State) error {
	holder := map[int]string{}
	for _, g := range s.Grants() {
		for id := range g.CPUs().All() {
			if other, taken := holder[id]; taken {
				return fmt.Errorf("CPU %d is given to %s and %s", id, other, g.Pod.UID)
			}
			holder[id] = g.Pod.UID
		}
	}
	for id := range s.Machine().AllCPUs().All() {
		if _, taken := holder[id]; !taken && !s.SharedCPUs().Has(id) {
			return fmt.Errorf("CPU %d is lost", id)
		}
	}
	return s.Check()
}

// settle makes the found version what is assigned. verify has checked before whether that version
// may be found.
func (l *life) settle(v version) {
	l.assigned = map[string]*promise{}
	for uid, g := range v.grants {
		l.assigned[uid] = promised(g)
		delete(l.ended, uid)
	}
}

// attempt gets the bytes of a write before the write begins.
func (l *life) attempt(data []byte) error {
	file, err := statefile.Decode(statePath, data)
	if err != nil {
		return l.fail(fmt.Errorf("what is written cannot be read: %w", err))
	}
	v := version{data: bytes.Clone(data), grants: map[string]*node.Grant{}}
	for _, g := range file.Grants {
		v.grants[g.Pod.UID] = g
	}
	if _, err := l.adopt(v); err != nil {
		return l.fail(fmt.Errorf("what is written does not hold: %w", err))
	}
	for uid, p := range l.assigned {
		if g := v.grants[uid]; p.resizing && g != nil && g.Resized > p.grant.Resized {
			p.or = append(p.or, g)
		}
	}
	l.may = append(l.may, v)
	return l.verify()
}

// Wrote notes the outcome of the write that was attempted last.
func (l *life) Wrote(w engine.Write) {
	last := len(l.may) - 1
	switch {
	case w.Err == nil:
		l.may = l.may[last:]
	case errors.Is(w.Err, store.ErrUncertain), errors.Is(w.Err, crashfs.ErrCrashed):
	default:
		l.may = l.may[:last]
	}
}

func (l *life) Decided(engine.Decision) {}

// Released notes that a pod is gone for good.
func (l *life) Released(uid string) {
	delete(l.assigned, uid)
	l.ended[uid] = true
}

func (l *life) fail(err error) error {
	if l.broken == nil {
		l.broken = err
	}
	return l.broken
}

// verify compares everything that may be found with what was promised.
func (l *life) verify() error {
	for _, v := range l.may {
		for uid, p := range l.assigned {
			if err := p.keptIn(v.grants[uid]); err != nil {
				return l.fail(fmt.Errorf("pod %s: a file that may be found after a crash: %w", uid, err))
			}
		}
		for uid := range v.grants {
			if l.ended[uid] {
				return l.fail(fmt.Errorf("pod %s was released and comes back after a crash", uid))
			}
		}
	}
	return l.broken
}

func promised(g *node.Grant) *promise {
	return &promise{grant: g, claims: [][]request.Claim{g.Pod.ResourceClaims}}
}

// keptIn returns an error if a grant is not what was promised.
func (p *promise) keptIn(g *node.Grant) error {
	for _, other := range p.or {
		alternative := promise{grant: other, leaving: p.leaving, created: p.created, claims: p.claims}
		if alternative.keptIn(g) == nil {
			return nil
		}
	}
	switch {
	case g == nil && p.leaving:
		return nil
	case g == nil:
		return errors.New("it was admitted and is lost")
	case !g.Pool.Equal(p.grant.Pool):
		return fmt.Errorf("its pool is %q, was %q", g.Pool, p.grant.Pool)
	case !slices.ContainsFunc(p.claims, func(c []request.Claim) bool { return request.SameClaims(c, g.Pod.ResourceClaims) }):
		return fmt.Errorf("its claims are %v, were one of %v", g.Pod.ResourceClaims, p.claims)
	}
	for i, was := range p.grant.Containers {
		c, is := g.Pod.Containers[i], g.Containers[i]
		switch {
		case is.Removed != was.Removed || !is.CPUs.Equal(was.CPUs) || is.MemoryNodes != was.MemoryNodes:
			return fmt.Errorf("container %s has %q on %s, had %q on %s", c.Name, is.CPUs, is.MemoryNodes, was.CPUs, was.MemoryNodes)
		case len(is.Memory) != len(was.Memory) && !(p.created && c.Type == request.Init):
			return fmt.Errorf("container %s has memory %v, had %v", c.Name, is.Memory, was.Memory)
		}
	}
	return nil
}
