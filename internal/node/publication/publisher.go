package publication

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/reconcile"
)

// Times of a publication.
const (
	// Lazy is the maximum age of a published revision, summary and number of decisions. They are
	// for people.
	Lazy = 30 * time.Second
	// Settling is the maximum age of a published certainty, apart from the start and the end of
	// unsure: each decision of a kubelet is pending first and exact a second later, and a write for
	// that would delay the one with the next grant.
	Settling = 3 * time.Second
	// unlisted is how long the publisher waits for the kubelet's list after a start. Then all
	// grants are published, even those that annotations have.
	unlisted = 30 * time.Second
)

// Observer receives events for metrics. It must not block.
type Observer interface {
	// Published reports one write or attempted write.
	Published(took time.Duration, err error)
}

// Config configures a Publisher.
type Config struct {
	// Node is the name of the Kubernetes node.
	Node   string
	Client *Client
	// View returns what there is to publish. If its State is nil, there is nothing yet. It must not
	// block.
	View func() View
	// Now and After are the functions of package time, or replacements of them.
	Now      func() time.Time
	After    func(time.Duration) <-chan time.Time
	Observer Observer
	Log      *slog.Logger
}

// Publisher keeps the objects of one node up to date. Its methods except Run may be called by
// several goroutines.
type Publisher struct {
	*reconcile.Loop
	config   Config
	rejected rejections
	// foreign is true if the object differs from what was written last.
	foreign atomic.Bool
	// written is the object as the API server has it. Nil means that it is not known.
	written atomic.Pointer[v1alpha1.PaddockNode]

	// The fields below are used by Run's goroutine only.
	machine struct {
		of     *machine.Machine
		object *v1alpha1.PaddockMachine
		added  bool
	}
	begun, checked, wrote time.Time
	// last and counted are the view and the version of the counters that Keep looked at last. due
	// is Lazy or Settling if something of them is not written yet because of that, and zero
	// otherwise.
	last    View
	counted uint64
	due     time.Duration
	looked  map[string]look // by UID
	// before is the revision from which those of an observed kubelet count. See revision.
	before int64
}

// New returns a Publisher. It sends no request.
func New(c Config) *Publisher {
	now := c.Now()
	p := &Publisher{config: c, begun: now, rejected: rejections{since: now}}
	p.Loop = reconcile.New(p, reconcile.Config{Observe: c.Observer.Published, Now: c.Now, After: c.After, Log: c.Log})
	return p
}

// Decided implements engine.Observer.
func (p *Publisher) Decided(d engine.Decision) {
	if p.rejected.count(d, p.config.Now()) {
		p.Changed()
	}
}

// Resized implements engine.ResizeObserver.
func (p *Publisher) Resized(d engine.Decision) { p.Decided(d) }

// Wrote implements engine.Observer.
func (p *Publisher) Wrote(engine.Write) { p.Changed() }

// Released implements engine.Observer.
func (p *Publisher) Released(string) { p.Changed() }

// Run publishes until ctx ends. It returns the cause of ctx.
func (p *Publisher) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { p.config.Client.watch(ctx, p.config.Node, p.seen) })
	return p.Loop.Run(ctx)
}

// seen receives the object as the API server shows it. Nil means that it is gone.
func (p *Publisher) seen(o *v1alpha1.PaddockNode) {
	w := p.written.Load()
	same := o != nil && (w == nil || o.ResourceVersion == w.ResourceVersion || o.UID == w.UID &&
		equality.Semantic.DeepEqual(o.OwnerReferences, w.OwnerReferences) && equality.Semantic.DeepEqual(o.Status, w.Status))
	if !same {
		p.foreign.Store(true)
		p.Changed()
	}
}

// Line implements reconcile.Object.
func (*Publisher) Line(err error) string {
	if err != nil {
		return "the objects of this node cannot be written: schedulers see what was written last"
	}
	return "the objects of this node are written again"
}

// Forget implements reconcile.Object.
func (p *Publisher) Forget() { p.written.Store(nil) }

// Keep implements reconcile.Object.
func (p *Publisher) Keep(ctx context.Context) (wrote bool, err error) {
	now, v := p.config.Now(), p.config.View()
	if v.State == nil || v.Listing == nil && v.Observed == nil && now.Sub(p.begun) < unlisted {
		return false, nil
	}
	if p.foreign.Swap(false) || now.Sub(p.checked) >= reconcile.Recheck {
		// An unused machine may have been deleted at the moment at which it came into use again.
		p.Forget()
		p.machine.added = false
	}
	rejected, version := p.rejected.show()
	have := p.written.Load()
	known := have != nil
	if known && v.same(p.last) && version == p.counted && !p.overdue(now) {
		return false, nil
	}
	next := have
	if !known {
		if have, next, err = p.look(ctx); err != nil {
			return false, err
		}
		p.before = max(p.before, have.Status.Revision-int64(v.State.Generation()))
	}
	status, err := p.status(v, rejected, have.Status.Conditions)
	if err != nil {
		return false, err
	}
	if !p.machine.added {
		if err := p.config.Client.addMachine(ctx, p.machine.object); err != nil {
			return false, err
		}
		p.machine.added = true
	}
	matters := have.ResourceVersion == "" || !equality.Semantic.DeepEqual(have.OwnerReferences, next.OwnerReferences) || !sameMatter(&have.Status, status)
	p.last, p.counted, p.due = v, version, 0
	switch {
	case !sameCertainty(&have.Status, status):
		p.due = Settling
	case have.Status.Revision != status.Revision || !sameCount(&have.Status.Rejections, &status.Rejections):
		p.due = Lazy
	}
	if !matters && !p.overdue(now) {
		p.written.Store(have)
		return false, nil
	}
	next = next.DeepCopy()
	next.Status = *status
	next.Status.Summary = summaryOf(v, status.Conditions)
	made, err := p.config.Client.put(ctx, next)
	if err != nil {
		return false, err
	}
	p.wrote, p.due = now, 0
	p.written.Store(made)
	return true, nil
}

// overdue reports whether something has waited as long as it may.
func (p *Publisher) overdue(now time.Time) bool { return p.due > 0 && now.Sub(p.wrote) >= p.due }

// look reads the object and the Node that owns it. next is the object with that owner.
func (p *Publisher) look(ctx context.Context) (have, next *v1alpha1.PaddockNode, err error) {
	owner, err := reconcile.Owner(ctx, p.config.Client.core, p.config.Node)
	if err != nil {
		return nil, nil, err
	}
	have = &v1alpha1.PaddockNode{}
	there, err := reconcile.Read(ctx, p.config.Client.own.Get().Resource(v1alpha1.PaddockNodes).Name(p.config.Node), have)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("PaddockNode %s: %w", p.config.Node, err)
	case !there:
		have.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PaddockNode"}
		have.Name = p.config.Node
	case have.DeletionTimestamp != nil:
		return nil, nil, fmt.Errorf("PaddockNode %s is being deleted; it is created again then", p.config.Node)
	}
	p.checked = p.config.Now()
	next = have.DeepCopy()
	next.OwnerReferences = []metav1.OwnerReference{owner}
	return have, next, nil
}
