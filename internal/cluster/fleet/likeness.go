package fleet

import (
	"fmt"
	"sync"
	"unique"

	"github.com/paddock-project/paddock/internal/core/machine"
)

// Likeness is equal for two views that give the same answers to all pods: they have the same
// machine, the same policy, and the same free CPUs and memory.
type Likeness struct {
	machine *machine.Machine
	policy  unique.Handle[string]
	free    string
}

// Likeness returns the likeness of the node. It reports false if more decides about its answers:
// which pods it could move, or what node.State.AppendFree excludes.
func (v *View) Likeness() (Likeness, bool) {
	var buffer [256]byte
	free, is := v.State.AppendFree(buffer[:0])
	if !is || v.State.Policy().Moves.Pods > 0 {
		return Likeness{}, false
	}
	return Likeness{v.State.Machine(), v.policy.of(v), string(free)}, true
}

// policyText is the policy of a node as a text. All views of the node share it.
type policyText struct {
	once sync.Once
	text unique.Handle[string]
}

// of returns the text. It has every field of the policy.
func (p *policyText) of(v *View) unique.Handle[string] {
	p.once.Do(func() { p.text = unique.Make(fmt.Sprintf("%+v", v.State.Policy())) })
	return p.text
}

// Basis is what the cost of a pod depends on beside the likeness of the node.
type Basis struct {
	ranking           *Ranking
	fitting           *fitting
	allocatable, used Amounts
}

// Basis returns the basis of the costs of the node.
func (v *View) Basis() Basis { return Basis{v.ranking, v.fitting, v.Allocatable, v.Used} }

// Equal reports whether two bases are the same.
func (b Basis) Equal(c Basis) bool {
	return b.ranking == c.ranking && b.fitting == c.fitting && b.allocatable.Equal(c.allocatable) && b.used.Equal(c.used)
}
