// Package layout is the arithmetic of a pod's budget: how much of it each container gets.
//
// It knows one resource at a time, as claims in the order in which containers start,
// and nothing of CPUs, bytes or NUMA nodes: the same walk serves CPUs, memory and huge
// pages (docs/rules/demand.md, sections 5 and 6).
package layout

import "github.com/paddock-project/paddock/internal/core/request"

// Claim is what one container wants of one resource.
type Claim struct {
	Type request.ContainerType
	// Exclusive containers get Amount to themselves, which may be 0; the others share.
	Exclusive bool
	Amount    int64
	// Indifferent marks a container that shares but has no use for the resource, so that
	// an empty pool does not hurt it.
	Indifferent bool
}

// Budget is what containers need together if the pod has no budget of its own: init
// containers run one after the other and are reused, sidecars and apps add up (R-DEM-41).
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

// Part is what kind of piece of the pool a container gets.
type Part int

const (
	// Slice: Amount for itself alone. Slices of standard init containers are reused by
	// later containers.
	Slice Part = iota
	// WholePool: a standard init container that shares has all of the pool but the slices
	// of sidecars that started before it.
	WholePool
	// Rest: it shares what the slices of sidecars and apps leave.
	Rest
)

// Piece is one container's piece.
type Piece struct {
	Part   Part
	Amount int64
}

// Empty reports whether a container that shares would find its pool empty (R-DEM-61, R-DEM-62).
type Empty int

// The ways a pool can be empty.
const (
	NotEmpty Empty = iota
	// EmptyForInit: sidecars take all before a standard init container that shares.
	EmptyForInit
	// EmptyForShared: exclusive containers take all and an app or sidecar shares.
	EmptyForShared
)

// Layout is the division of a budget.
type Layout struct {
	Budget int64
	// Pieces are parallel to the claims.
	Pieces []Piece
	// Rest is what the sharing sidecars and apps share.
	Rest  int64
	Empty Empty
	// Overdrawn reports that an exclusive claim does not fit into what its predecessors left.
	// The API server rejects such a pod (R-DEM-94); one that comes all the same must be
	// rejected before anything is taken. Amounts are then not meaningful.
	Overdrawn bool
}

// Divide lays the claims out in a pool of the given budget (R-CPU-92…94, R-MEM-53, R-MEM-54).
func Divide(budget int64, claims []Claim) Layout {
	l := Layout{Budget: budget, Pieces: make([]Piece, len(claims))}
	left := budget // less the slices of containers that run to the pod's end
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
