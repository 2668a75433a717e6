package zones

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/reconcile"
)

// Uninstalled is the time between two attempts while the definition of the object is not installed.
const Uninstalled = 5 * time.Minute

// Observer receives events for metrics. It must not block.
type Observer interface {
	// Exported reports one write or one failed attempt. missing is true if it failed because the
	// definition of the object is not installed.
	Exported(err error, missing bool)
}

// Config configures a Keeper.
type Config struct {
	// Node is the name of the Kubernetes node.
	Node   string
	Client *Client
	// State returns the state to show. It returns nil if there is none yet. It must not block.
	State func() *node.State
	// Listing returns the kubelet's last list, and nil before the first one. It must not block.
	Listing func() *handover.Listing
	// Now and After are the functions of package time, or replacements of them.
	Now      func() time.Time
	After    func(time.Duration) <-chan time.Time
	Observer Observer
	Log      *slog.Logger
}

// Keeper keeps the NodeResourceTopology of a node up to date. Its methods except Run may be called
// by several goroutines.
type Keeper struct {
	*reconcile.Loop
	config Config

	// The fields below are used by Run's goroutine only. have is the object as it was last read or
	// written, and nil if it is not known. shown and listed are the state and the list that have
	// shows.
	have    *Object
	owners  []metav1.OwnerReference
	shown   *node.State
	listed  *handover.Listing
	checked time.Time
}

// New returns a Keeper. It sends no request.
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

// Line implements reconcile.Object.
func (*Keeper) Line(err error) string {
	switch {
	case errors.Is(err, ErrNotInstalled):
		return "the NodeResourceTopology of this node is not written: its definition is not installed"
	case err != nil:
		return "the NodeResourceTopology of this node cannot be written: schedulers see what was written last"
	}
	return "the NodeResourceTopology of this node is written again"
}

// Decided implements engine.Observer.
func (k *Keeper) Decided(engine.Decision) {}

// Wrote implements engine.Observer.
func (k *Keeper) Wrote(engine.Write) { k.Changed() }

// Released implements engine.Observer.
func (k *Keeper) Released(string) { k.Changed() }

// Forget implements reconcile.Object.
func (k *Keeper) Forget() { k.have = nil }

// Keep implements reconcile.Object. It writes the object if it does not show the present state and
// list. Before the kubelet's first list, it writes nothing: the fingerprint of no list fits.
func (k *Keeper) Keep(ctx context.Context) (wrote bool, err error) {
	// The list is read first. So a state that does not have the grant of a listed pod is not older
	// than the list.
	listing := k.config.Listing()
	state, now := k.config.State(), k.config.Now()
	known := k.have != nil && now.Sub(k.checked) < reconcile.Recheck
	if state == nil || listing == nil || known && state == k.shown && listing == k.listed {
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
	next.Content, next.OwnerReferences = Of(state, listing), k.owners
	if k.have.ResourceVersion != "" && reflect.DeepEqual(next, *k.have) {
		k.shown, k.listed = state, listing
		return false, nil
	}
	made, err := k.config.Client.put(ctx, &next)
	if err != nil {
		return false, err
	}
	k.have, k.shown, k.listed = made, state, listing
	return true, nil
}
