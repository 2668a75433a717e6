package nodemap

import "github.com/paddock-project/paddock/internal/base/terminal"

// Placed is a box of a layout, for tests that inspect all boxes.
type Placed struct {
	Kind       int
	X, Y, W, H int
	// Texts is the sum of the widths of the box's texts.
	Texts int
	CPU   int // the CPU's id, or -1
	Inner []Placed
}

// CPUCell is the kind of the boxes of CPUs, which must not overlap.
const CPUCell = int(boxCPU)

// Place lays out a map in pixels, or for a terminal of that many characters if terminal is
// positive.
func (m Map) Place(terminal int) Placed {
	if terminal > 0 {
		return placed(m, m.terminal(terminal).place(), 1)
	}
	return placed(m, layout{pixels, m}.place(), pixels.letter)
}

func placed(m Map, b *box, letter int) Placed {
	p := Placed{Kind: int(b.kind), X: b.x, Y: b.y, W: b.w, H: b.h, CPU: -1}
	if b.kind == boxCPU {
		p.CPU = m.CPUs[b.cpu].ID
	} else {
		if b.kind == boxHead && letter > 1 {
			letter = pixels.head
		}
		p.Texts = letter * (terminal.Width(b.text) + terminal.Width(b.note))
	}
	for _, in := range b.inner {
		p.Inner = append(p.Inner, placed(m, in, letter))
	}
	return p
}
