package nodemap

// holder identifies the pod and container of a cell. Neighbouring cells with the same holder are
// inside one outline.
type holder struct {
	pod int
	tag string
}

// outlines draws a line around the cells of each container, and around the cells that the
// containers of a pod share, within one block of cores.
func (w *svgWriter) outlines(block *box) {
	at := map[[2]int]*box{}
	for _, c := range block.inner {
		if c.kind == boxCPU && c.pod != noPod {
			at[[2]int{c.row, c.column}] = c
		}
	}
	if len(at) == 0 {
		return
	}
	w.put(`<path class="outline" d="`)
	for _, c := range block.inner {
		if c.kind == boxCPU && c.pod != noPod {
			w.outline(c, at)
		}
	}
	w.put("\"/>\n")
}

// outline draws the sides of a cell at which another holder begins. A side continues through the
// gap to the next cell of the same holder, so that the line has no holes, not even in inner
// corners.
func (w *svgWriter) outline(c *box, at map[[2]int]*box) {
	near := func(down, right int) (*box, bool) {
		n, there := at[[2]int{c.row + down, c.column + right}]
		return n, there && (holder{n.pod, n.tag}) == (holder{c.pod, c.tag})
	}
	left, top, right, bottom := c.x, c.y, c.x+c.w, c.y+c.h
	before, hasBefore := near(0, -1)
	after, hasAfter := near(0, 1)
	above, hasAbove := near(-1, 0)
	below, hasBelow := near(1, 0)
	if hasBefore {
		left = before.x + before.w
	}
	if hasAfter {
		right = after.x
	}
	if hasAbove {
		top = above.y + above.h
	}
	if hasBelow {
		bottom = below.y
	}
	if !hasAbove {
		w.put("M%d %dH%d", left, top, right)
	}
	if !hasBelow {
		w.put("M%d %dH%d", left, bottom, right)
	}
	if !hasBefore {
		w.put("M%d %dV%d", left, top, bottom)
	}
	if !hasAfter {
		w.put("M%d %dV%d", right, top, bottom)
	}
}
