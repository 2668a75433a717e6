package nodemap

// boxKind is what a box of the picture shows.
type boxKind int

// The kinds. A frame is around other boxes, from the machine's levels to the legend.
const (
	boxGroup  boxKind = iota // is around others and not drawn itself
	boxSocket                // frames, with a title
	boxNode
	boxUncore
	boxCPU    // a cell of one thread
	boxDevice // a cell of one device
	boxBar    // a bar, its name and value above it
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
	// text is on the left and note on the right, both cut to the room that there is.
	text, note string
	// about is all of it, for a tooltip and for screen readers.
	about string
	// id is that of a NUMA node's frame or of a device, for pages that mark it.
	id string
	// use and pod decide how a cell is filled; tag is in it.
	use Use
	pod int
	tag string
	// cpu is the position in Map.CPUs, row and column those among the cells of the same block.
	cpu, row, column int
	device           *Device
	parts            []part
	whole            int64
	inner            []*box
}

// move shifts a box with the boxes in it.
func (b *box) move(dx, dy int) {
	b.x, b.y = b.x+dx, b.y+dy
	for _, in := range b.inner {
		in.move(dx, dy)
	}
}

// walk calls visit for b and everything in it, outer boxes first, and leave when all of a box
// is done.
func (b *box) walk(visit, leave func(*box)) {
	visit(b)
	for _, in := range b.inner {
		in.walk(visit, leave)
	}
	leave(b)
}

// enclose makes a group that is as large as its boxes need; it begins at 0,0.
func enclose(inner []*box) *box {
	g := &box{kind: boxGroup, inner: inner, pod: noPod}
	for _, in := range inner {
		g.w, g.h = max(g.w, in.x+in.w), max(g.h, in.y+in.h)
	}
	return g
}

// flow places boxes in rows that are at most so wide, unless one alone is wider. Rows of boxes
// of one width are about equally long.
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

// even makes the frames of a row equally high.
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

// columns places boxes in so many columns of that width, of about the same height, in reading
// order from the top of the first to the bottom of the last.
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
