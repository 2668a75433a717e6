package nodemap

// boxKind is the kind of thing that a box of the picture shows.
type boxKind int

// The kinds of boxes. A frame surrounds other boxes, from the levels of the machine to the legend.
const (
	boxGroup  boxKind = iota // surrounds other boxes and is not drawn itself
	boxSocket                // frames, with a title
	boxNode
	boxUncore
	boxCPU    // a cell of one thread
	boxDevice // a cell of one device
	boxWay    // a cell of one way of a cache
	boxBar    // a bar with its name and value above it
	boxHead   // lines of text, from large to small
	boxText
	boxFaint
	boxSwatch // a cell of the legend
)

// box is a rectangle of the picture. Positions are in pixels or in characters, from the upper
// left corner of the picture; inner boxes lie within the outer one and do not overlap.
type box struct {
	kind       boxKind
	x, y, w, h int
	// text is on the left and note on the right. Both are cut to the available room.
	text, note string
	// about is the full text, for a tooltip and for screen readers.
	about string
	// id is the id of a NUMA node's frame or of a device, for pages that highlight it.
	id string
	// use and pod decide how a cell is filled. tag is the text in the cell.
	use Use
	pod int
	tag string
	// cpu is the position in Map.CPUs. row and column are the position among the cells of the same
	// block.
	cpu, row, column int
	device           *Device
	// loud is the share of the cell that shows how often its CPU is interrupted, if it is counted.
	loud        float64
	interrupted bool
	parts       []part
	whole       int64
	inner       []*box
}

// move shifts a box and the boxes in it.
func (b *box) move(dx, dy int) {
	b.x, b.y = b.x+dx, b.y+dy
	for _, in := range b.inner {
		in.move(dx, dy)
	}
}

// walk calls visit for b and every box in it, outer boxes first, and calls leave after all boxes
// inside a box.
func (b *box) walk(visit, leave func(*box)) {
	visit(b)
	for _, in := range b.inner {
		in.walk(visit, leave)
	}
	leave(b)
}

// enclose returns a group at 0,0 that is just large enough for the boxes.
func enclose(inner []*box) *box {
	g := &box{kind: boxGroup, inner: inner, pod: noPod}
	for _, in := range inner {
		g.w, g.h = max(g.w, in.x+in.w), max(g.h, in.y+in.h)
	}
	return g
}

// flow places boxes in rows of at most that width, unless a single box is wider. If all boxes have
// the same width, the rows have about the same length.
func flow(boxes []*box, width, gap, rowGap int) *box {
	widest, same := 1, true
	for _, b := range boxes {
		same = same && b.w == boxes[0].w
		widest = max(widest, b.w)
	}
	perRow := len(boxes)
	if fits := max(1, (width+gap)/(widest+gap)); same && fits < len(boxes) {
		rows := (len(boxes) + fits - 1) / fits
		perRow = (len(boxes) + rows - 1) / rows
	}
	x, y, row, first := 0, 0, 0, 0
	for i, b := range boxes {
		if x > 0 && (x+b.w > width || i%max(1, perRow) == 0) {
			even(boxes[first:i], row)
			x, y, row, first = 0, y+row+rowGap, 0, i
		}
		b.move(x-b.x, y-b.y)
		x += b.w + gap
		row = max(row, b.h)
	}
	even(boxes[first:], row)
	return enclose(boxes)
}

// even gives the frames of a row the same height.
func even(row []*box, height int) {
	for _, b := range row {
		if b.kind == boxNode || b.kind == boxSocket {
			b.h = height
		}
	}
}

// stack places boxes below each other.
func stack(boxes []*box, gap int) *box {
	y := 0
	for _, b := range boxes {
		b.move(-b.x, y-b.y)
		y += b.h + gap
	}
	return enclose(boxes)
}

// columns places boxes in n columns of that width and of about the same height. The reading order
// is from the top of the first column to the bottom of the last.
func columns(boxes []*box, n, width, gap int) *box {
	total := 0
	for _, b := range boxes {
		total += b.h
	}
	limit := (total + n - 1) / n
	x, y := 0, 0
	for i, b := range boxes {
		if y > 0 && y+b.h/2 > limit && x < (n-1)*(width+gap) && i > 0 {
			x, y = x+width+gap, 0
		}
		b.move(x-b.x, y-b.y)
		y += b.h
	}
	return enclose(boxes)
}
