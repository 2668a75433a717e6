package cache

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Ways is a set of ways of one cache: bit n is way n, as in the kernel's schemata.
type Ways uint32

// Run returns n contiguous ways from first on.
func Run(first, n int) Ways { return Ways((uint64(1)<<n - 1) << first) }

// Len returns the number of ways.
func (w Ways) Len() int { return bits.OnesCount32(uint32(w)) }

// Contiguous reports whether the ways have no gap. No ways have none.
func (w Ways) Contiguous() bool {
	return bits.Len32(uint32(w))-bits.TrailingZeros32(uint32(w)) == w.Len() || w == 0
}

// Hex returns the ways as the kernel writes them.
func (w Ways) Hex() string { return strconv.FormatUint(uint64(w), 16) }

// String returns the ways as people write them: "4-7", "0,10-11", or "none".
func (w Ways) String() string {
	if w == 0 {
		return "none"
	}
	var parts []string
	for left := w; left != 0; {
		first := bits.TrailingZeros32(uint32(left))
		n := bits.TrailingZeros32(^uint32(left >> first))
		if n == 1 {
			parts = append(parts, strconv.Itoa(first))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", first, first+n-1))
		}
		left &^= Run(first, n)
	}
	return strings.Join(parts, ",")
}

// runs yields the maximal runs of contiguous ways, the lowest first.
func (w Ways) runs(yield func(first, n int) bool) {
	for left := w; left != 0; {
		first := bits.TrailingZeros32(uint32(left))
		n := bits.TrailingZeros32(^uint32(left >> first))
		if !yield(first, n) {
			return
		}
		left &^= Run(first, n)
	}
}

// runWith returns the maximal run of contiguous ways of w that contains all of core. It returns
// zero if w does not have them.
func (w Ways) runWith(core Ways) Ways {
	for first, n := range w.runs {
		if run := Run(first, n); run&core == core {
			return run
		}
	}
	return 0
}
