// Package layout divides a pod's budget: it computes how much of it each container gets.
//
// It processes one resource at a time, as claims in the order in which containers start. It knows
// nothing about CPUs, bytes or NUMA nodes: the same algorithm serves CPUs, memory and huge pages
// (docs/rules/demand.md, sections 5 and 6).
package layout

import "github.com/paddock-project/paddock/internal/core/request"

// Claim is what one container claims of one resource.
type Claim struct {
	Type request.ContainerType
	// Exclusive is set if the container gets Amount, which may be 0, to itself. Other containers
	// share.
	Exclusive bool
	Amount    int64
	// Indifferent is set if the container shares but has no use for the resource, so that an empty
	// pool does not affect it.
	Indifferent bool
}

// Budget returns what containers need together if the pod has no budget of its own. Init containers
// run one after the other and their amounts are reused. Amounts of sidecars and apps add up
// (R-DEM-41).
func Budget(claims []Claim) int64 {
	var sidecars, peak, apps int64
	for _, c := range claims {
		if !c.Exclusive {
			continue
		}
		switch c.Type {
		case request.Sidecar:
			sidecars += c.Amount
		case request.Init:
			peak = max(peak, sidecars+c.Amount)
		case request.App:
			apps += c.Amount
		}
	}
	return max(peak, apps+sidecars)
}

// Part is the kind of piece of the pool that a container gets.
type Part int

const (
	// Slice means that the container has Amount to itself. Later containers reuse slices of
	// standard init containers.
	Slice Part = iota
	// WholePool means that the container is a standard init container that shares. It has all of
	// the pool except the slices of sidecars that started before it.
	WholePool
	// Rest means that the container shares what the slices of sidecars and apps leave.
	Rest
)

// Piece is the piece of the pool that one container gets.
type Piece struct {
	Part   Part
	Amount int64
}

// Empty describes whether a container that shares would find its pool empty (R-DEM-61, R-DEM-62).
type Empty int

// The ways a pool can be empty.
const (
	NotEmpty Empty = iota
	// EmptyForInit means that sidecars take everything before a standard init container that
	// shares.
	EmptyForInit
	// EmptyForShared means that exclusive containers take everything and an app or sidecar shares.
	EmptyForShared
)

// Layout is the division of a budget.
type Layout struct {
	Budget int64
	// Pieces is parallel to the claims.
	Pieces []Piece
	// Rest is the amount that the sidecars and apps without a slice share.
	Rest  int64
	Empty Empty
	// Overdrawn is set if an exclusive claim does not fit into what its predecessors left. The API
	// server rejects such a pod (R-DEM-94). If one arrives nevertheless, it must be rejected before
	// anything is taken. The amounts have no meaning then.
	Overdrawn bool
}

// Divide divides a pool of the given budget among the claims (R-CPU-92…94, R-MEM-53, R-MEM-54).
func Divide(budget int64, claims []Claim) Layout {
	l := Layout{Budget: budget, Pieces: make([]Piece, len(claims))}
	left := budget // without the slices of containers that run until the pod ends
	shares := false
	for i, c := range claims {
		switch {
		case c.Exclusive:
			l.Pieces[i] = Piece{Slice, c.Amount}
			l.Overdrawn = l.Overdrawn || c.Amount > left
			if c.Type != request.Init {
				left -= c.Amount
			}
		case c.Type == request.Init:
			l.Pieces[i] = Piece{WholePool, left}
			if left <= 0 && !c.Indifferent && l.Empty == NotEmpty {
				l.Empty = EmptyForInit
			}
		default:
			l.Pieces[i] = Piece{Part: Rest}
			shares = shares || !c.Indifferent
		}
	}
	l.Rest = left
	for i := range l.Pieces {
		if l.Pieces[i].Part == Rest {
			l.Pieces[i].Amount = left
		}
	}
	if shares && left <= 0 && l.Empty == NotEmpty {
		l.Empty = EmptyForShared
	}
	return l
}

// Apart changes a layout in which the containers that share get nothing of what exclusive
// containers have or leave: an amount of the budget is for exclusive containers alone, and the rest
// is for all others (R-CPU-135). The layout of a budget that is not divided stays as it is.
func (l Layout) Apart(exclusive int64, claims []Claim) Layout {
	if l.Overdrawn || l.Empty != NotEmpty {
		return l
	}
	l.Rest = l.Budget - exclusive
	for i := range l.Pieces {
		p := &l.Pieces[i]
		if p.Part == Slice {
			continue
		}
		p.Amount = l.Rest
		if l.Rest > 0 || claims[i].Indifferent || l.Empty != NotEmpty {
			continue
		}
		if l.Empty = EmptyForShared; p.Part == WholePool {
			l.Empty = EmptyForInit
		}
	}
	return l
}
