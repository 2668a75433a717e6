package agent

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/paddock-project/paddock/internal/codec/claims"
	"github.com/paddock-project/paddock/internal/core/request"
)

const (
	// fresh is how long an allocation is used after it was read: a claim of the same name may be
	// another one later. A pod that is rejected is tried again within 5 minutes.
	fresh = 10 * time.Minute
	// maxWanted is how many claims are asked for at a time. Others wait for the next round.
	maxWanted = 64
)

type claimName struct{ namespace, name string }

// allocations are what the API server has of claims, as far as it was asked. A hook reads what is
// there, and wants the rest for its next attempt.
type allocations struct {
	ask func(ctx context.Context, namespace, name string) ([]claims.Allocated, error)
	now func() time.Time

	mu     sync.Mutex
	known  map[claimName]allocation
	wanted map[claimName]bool
}

type allocation struct {
	devices []claims.Allocated
	at      time.Time
}

func newAllocations(ask func(context.Context, string, string) ([]claims.Allocated, error), now func() time.Time) *allocations {
	return &allocations{ask: ask, now: now, known: map[claimName]allocation{}, wanted: map[claimName]bool{}}
}

// of returns the devices of a claim; nil: not known. It does not wait. A nil value knows none.
func (a *allocations) of(namespace, name string) []claims.Allocated {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.known[claimName{namespace, name}]; a.now().Sub(found.at) < fresh {
		return found.devices
	}
	return nil
}

// want asks for a claim in the next round, unless it is known.
func (a *allocations) want(namespace, name string) {
	if a == nil || a.of(namespace, name) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.wanted) < maxWanted {
		a.wanted[claimName{namespace, name}] = true
	}
}

// round asks for the claims that are wanted. It ends with the first one for which the API server
// does not answer. The error is of the last one that cannot be read.
func (a *allocations) round(ctx context.Context) (err error) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	now := a.now()
	maps.DeleteFunc(a.known, func(_ claimName, found allocation) bool { return now.Sub(found.at) >= fresh })
	wanted := a.wanted
	a.wanted = map[claimName]bool{}
	a.mu.Unlock()
	for of := range wanted {
		devices, problem := a.ask(ctx, of.namespace, of.name)
		if apierrors.IsNotFound(problem) {
			continue // It was deleted with its pod.
		}
		if problem != nil {
			err = problem
			var status apierrors.APIStatus
			if errors.As(problem, &status) || errors.Is(problem, claims.ErrClaim) {
				continue
			}
			return err
		}
		a.mu.Lock()
		a.known[of] = allocation{devices, a.now()}
		a.mu.Unlock()
	}
	return err
}

// wantAll asks for the claims of a pod of which something is not known, in the next round. It
// reports whether there are any.
func (a *allocations) wantAll(pod *request.Pod) bool {
	incomplete := false
	for i := range pod.ResourceClaims {
		if c := &pod.ResourceClaims[i]; !c.Complete() {
			incomplete = true
			a.want(pod.Namespace, c.Name)
		}
	}
	return incomplete
}
