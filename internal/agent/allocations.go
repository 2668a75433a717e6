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
	// fresh is how long an allocation is used after it was read, because a claim with the same name
	// may later be a different one. A pod that is rejected is tried again within 5 minutes.
	fresh = 10 * time.Minute
	// maxWanted is the maximum number of claims that are requested in one round. Others wait for
	// the next round.
	maxWanted = 64
)

type claimName struct{ namespace, name string }

// allocations caches the allocations of claims from the API server. A hook reads what is cached,
// and requests the rest for its next attempt.
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

// of returns the devices of a claim, or nil if they are not known. It does not block. A nil
// receiver knows none.
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

// want requests a claim in the next round, unless it is known.
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

// round requests the wanted claims. It ends at the first claim for which the API server does not
// answer. It returns the error for the last claim that cannot be read.
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

// wantAll requests the claims of a pod that are not completely known, in the next round. It reports
// whether there are any.
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
