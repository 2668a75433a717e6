package fleet

import (
	"reflect"
	"sync"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// kinds finds the fitting of a node. Most nodes have the machine, the policy and the amounts of
// another one, and a look-up then takes a microsecond and waits for nothing. What is not known yet
// is computed outside of the lock, and once for each key.
type kinds struct {
	mu sync.RWMutex
	// known has the kinds of nodes that were looked up, by machine. count is their number.
	known map[*machine.Machine][]kind
	count int
	// byKey has one fitting for each key. Several kinds can have the same.
	byKey map[string]*weighing
}

// kind is all of a node on which its fitting depends, beside its machine.
type kind struct {
	policy      node.Policy
	inventory   *device.Inventory // nil if no typical request has devices
	allocatable Amounts
	fitting     *fitting
}

// weighing is a fitting that is weighed once.
type weighing struct {
	once    sync.Once
	fitting *fitting
}

// maxKinds is the number of kinds of nodes that a ranking remembers. A scheduler runs for long, and
// what is allocatable on a node can change. A kind that is forgotten is computed again.
const maxKinds = 1024

// fitting returns what is known of a kind of node.
func (r *Ranking) fitting(n *Node) *fitting {
	k := kind{policy: n.State.Policy(), allocatable: n.Allocatable}
	if len(r.shapes) > 0 {
		k.inventory = n.State.Devices().Inventory()
	}
	m := n.State.Machine()
	if f := r.kinds.find(m, &k); f != nil {
		return f
	}
	w := r.kinds.weighing(r.bare(n))
	w.once.Do(func() {
		if len(r.shapes) > 0 && !r.assumed {
			weigh([]*fitting{w.fitting}, []float64{1}, r.shapes)
		}
	})
	k.fitting = w.fitting
	r.kinds.keep(m, k)
	return w.fitting
}

// find returns nil if the kind is not known.
func (ks *kinds) find(m *machine.Machine, like *kind) *fitting {
	ks.mu.RLock()
	defer ks.mu.RUnlock()
	known := ks.known[m]
	for i := range known {
		if k := &known[i]; k.inventory == like.inventory && k.allocatable.Equal(like.allocatable) && reflect.DeepEqual(k.policy, like.policy) {
			return k.fitting
		}
	}
	return nil
}

// keep remembers a kind. Two goroutines may keep the same.
func (ks *kinds) keep(m *machine.Machine, k kind) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if ks.known == nil || ks.count >= maxKinds {
		ks.known, ks.count = map[*machine.Machine][]kind{}, 0
	}
	ks.known[m] = append(ks.known[m], k)
	ks.count++
}

// weighing returns the one fitting with the key of f, which may be f.
func (ks *kinds) weighing(f *fitting) *weighing {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if w := ks.byKey[f.key]; w != nil {
		return w
	}
	return ks.add(f)
}

func (ks *kinds) add(f *fitting) *weighing {
	if ks.byKey == nil || len(ks.byKey) >= maxKinds {
		ks.byKey = map[string]*weighing{}
	}
	w := &weighing{fitting: f}
	ks.byKey[f.key] = w
	return w
}

// price sets the fitting of a key, whose worth the caller computes.
func (ks *kinds) price(f *fitting) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.add(f).once.Do(func() {})
}
