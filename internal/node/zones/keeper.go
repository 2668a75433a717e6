package zones

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/reconcile"
)

// Uninstalled is the time between two tries while there is no definition of the object: it must be
// installed first.
const Uninstalled = 5 * time.Minute

// Observer gets what happens, for metrics. It must not wait.
type Observer interface {
	// Exported is one write, or a try that failed; missing: because there is no definition of the
	// object.
	Exported(err error, missing bool)
}

// Config is the environment of a Keeper.
type Config struct {
	// Node is the name of the Kubernetes node.
	Node   string
	Client *Client
	// State is what there is to show; nil: nothing yet. It must not wait.
	State func() *node.State
	// Now and After are those of package time.
	Now      func() time.Time
	After    func(time.Duration) <-chan time.Time
	Observer Observer
	Log      *slog.Logger
}

// Keeper keeps the NodeResourceTopology of a node. Its methods but Run may be called by several
// goroutines.
type Keeper struct {
	*reconcile.Loop
	config Config

	// The fields below are those of Run's goroutine. have is the object as it was read or written
	// last, nil: unknown; shown is the state of which it is.
	have    *Object
	owners  []metav1.OwnerReference
	shown   *node.State
	checked time.Time
}

// New makes a Keeper. It sends no request.
func New(c Config) *Keeper {
	k := &Keeper{config: c}
	k.Loop = reconcile.New(k, reconcile.Config{
		Now: c.Now, After: c.After, Log: c.Log,
		Observe: func(_ time.Duration, err error) { c.Observer.Exported(err, errors.Is(err, ErrNotInstalled)) },
		Pause: func(err error) time.Duration {
			if errors.Is(err, ErrNotInstalled) {
				return Uninstalled
			}
			return 0
		},
	})
	return k
}

// Line is reconcile.Object's.
func (*Keeper) Line(err error) string {
	switch {
	case errors.Is(err, ErrNotInstalled):
		return "the NodeResourceTopology of this node is not written: its definition is not installed"
	case err != nil:
		return "the NodeResourceTopology of this node cannot be written: schedulers see what was written last"
	}
	return "the NodeResourceTopology of this node is written again"
}

// Decided is engine.Observer's.
func (k *Keeper) Decided(engine.Decision) {}

// Wrote is engine.Observer's.
func (k *Keeper) Wrote(engine.Write) { k.Changed() }

// Released is engine.Observer's.
func (k *Keeper) Released(string) { k.Changed() }

// Forget is reconcile.Object's.
func (k *Keeper) Forget() { k.have = nil }

// Keep is reconcile.Object's: it writes if the object differs from the state.
func (k *Keeper) Keep(ctx context.Context) (wrote bool, err error) {
	state, now := k.config.State(), k.config.Now()
	known := k.have != nil && now.Sub(k.checked) < reconcile.Recheck
	if state == nil || known && state == k.shown {
		return false, nil
	}
	if !known {
		var owner metav1.OwnerReference
		if k.have, owner, err = k.config.Client.look(ctx, k.config.Node); err != nil {
			return false, err
		}
		k.owners, k.checked = []metav1.OwnerReference{owner}, now
	}
	next := *k.have
	next.Content, next.OwnerReferences = Of(state), k.owners
	if k.have.ResourceVersion != "" && reflect.DeepEqual(next, *k.have) {
		k.shown = state
		return false, nil
	}
	made, err := k.config.Client.put(ctx, &next)
	if err != nil {
		return false, err
	}
	k.have, k.shown = made, state
	return true, nil
}
