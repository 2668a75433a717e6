package packing

// grid rounds sizes down to whole numbers of units, so that a table over all sizes is small enough.
// What fits exactly also fits on the grid.
type grid struct {
	units []int64
	// up rounds the sizes of parts up: what fits on the grid also fits exactly.
	up     bool
	levels []int // per resource: the largest size of a cell, in units, plus 1
}

// The largest numbers of states of a table over the sizes of a cell. Coarser tables round sizes up.
// They find patterns sooner.
const (
	coarseStates = 1 << 12
	mediumStates = 1 << 14
	fineStates   = 1 << 17
)

var states = [...]int{coarseStates, mediumStates, fineStates}

// newGrid returns a grid for cells and the sizes of parts. If the greatest common divisor of the
// sizes of a resource is a large enough unit, nothing is lost.
func newGrid(cells, sizes []Size, maxStates int) grid {
	g := grid{units: make([]int64, len(cells[0])), levels: make([]int, len(cells[0]))}
	largest := make(Size, len(cells[0]))
	for r := range g.units {
		for _, c := range cells {
			largest[r] = max(largest[r], c[r])
		}
		for _, s := range sizes {
			g.units[r] = gcd(s[r], g.units[r])
		}
		if g.units[r] == 0 { // Nothing asks for the resource.
			g.units[r] = largest[r] + 1
		}
	}
	for {
		states, widest := 1, 0
		for r, unit := range g.units {
			g.levels[r] = int(largest[r]/unit) + 1
			states *= g.levels[r]
			if g.levels[r] > g.levels[widest] {
				widest = r
			}
		}
		if states <= maxStates {
			return g
		}
		g.units[widest] += (g.units[widest] + 7) / 8
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// floor returns a size on the grid, rounded down.
func (g *grid) floor(s Size) []int {
	out := make([]int, len(s))
	for r := range s {
		out[r] = int(max(0, s[r]) / g.units[r])
	}
	return out
}

// of returns the size of a part on the grid.
func (g *grid) of(s Size) []int {
	out := g.floor(s)
	for r := range out {
		if g.up && int64(out[r])*g.units[r] < s[r] {
			out[r]++
		}
	}
	return out
}

// exact reports whether no size is rounded.
func (g *grid) exact(sizes []Size) bool {
	for _, s := range sizes {
		for r := range s {
			if s[r]%g.units[r] != 0 {
				return false
			}
		}
	}
	return true
}
