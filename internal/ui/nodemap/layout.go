package nodemap

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// metrics are the dimensions of a picture, in pixels or, for a terminal, in characters.
type metrics struct {
	width            int // of the picture, unless one block of cores is wider
	cellW, cellH     int
	threadGap        int // between the threads of a core
	coreGap, rowGap  int // between cores side by side and above each other
	gap              int // between frames, and between paragraphs
	padX, padY       int // between a frame and its content
	title            int // height of a frame's title; 0 if it is on the frame itself
	uncore           int // the same for uncore caches
	line             int // height of a line of text
	letter           int // width of a letter in lines, names and titles
	head             int // the same, and the height, of the headline
	headLine         int
	bar              int // height of a bar without its line of text
	deviceW, deviceH int
	node             int // least width of the content of a NUMA node
	legend           int // least width of a column of the legend
	swatch           int
	way, wayPad      int // width of a way of a cache, and its height beyond a line of text
}

// maxCells is the largest number of devices of a resource that are drawn as cells. More are a bar.
const maxCells = 16

// layout places the boxes of a map.
type layout struct {
	metrics
	m Map
}

// place returns the whole picture.
func (l layout) place() *box {
	body := []*box{l.machine()}
	if extra := l.elsewhere(); len(extra) > 0 {
		body = append(body, flow(extra, l.width, l.gap, l.gap))
	}
	picture := enclose(body)
	width := max(picture.w, min(l.width, 2*l.legend+l.gap))
	parts := slices.Concat([]*box{l.headline(width)}, body, []*box{l.key(width)})
	if !l.m.folded {
		parts = append(parts, l.legendOf(width))
	}
	picture = stack(slices.DeleteFunc(parts, func(b *box) bool { return len(b.inner) == 0 }), l.gap)
	picture.w = max(picture.w, width)
	return picture
}

func (l layout) headline(width int) *box {
	lines := []*box{{kind: boxHead, text: terminal.Fit(l.m.Name, width/l.head), about: l.m.Name, h: l.headLine}}
	for _, text := range terminal.Wrap(l.m.Summary(), width/l.letter) {
		lines = append(lines, &box{kind: boxText, text: text, h: l.line})
	}
	for _, text := range terminal.Wrap("policy: "+l.m.Policy, width/l.letter) {
		lines = append(lines, &box{kind: boxFaint, text: text, h: l.line})
	}
	for _, b := range lines {
		b.w, b.pod = width, noPod
	}
	return stack(lines, 0)
}

// machine returns the units that have CPUs, from the outside to the inside.
func (l layout) machine() *box {
	levels := view.Levels(l.m.state.Machine())
	units := make([]*box, 0, len(levels[0].Units))
	for _, u := range levels[0].Units {
		units = append(units, l.unit(u, levels))
	}
	return flow(units, l.width, l.gap, l.gap)
}

// unit returns one unit of the first level and everything inside it. If sockets divide a NUMA node,
// its memory and devices are in the outer box. If nothing divides it, they are below its cores.
func (l layout) unit(u machine.Unit, levels []view.Level) *box {
	kind := levels[0].Kind
	var inner []*box
	if len(levels) > 1 {
		for _, in := range view.Inside(levels[1].Units, u.CPUs) {
			inner = append(inner, l.unit(in, levels[1:]))
		}
	} else {
		inner = []*box{l.cores(u)}
	}
	switch kind {
	case view.Uncore:
		return l.frame(boxUncore, string(kind)+" "+strconv.Itoa(u.ID), "", inner[0], l.cellW)
	case view.NUMA:
		// If a NUMA node has many uncore caches, place them side by side.
		caches := 8 * (l.cellW + l.coreGap)
		if u.Size > 64 {
			caches = l.width / 2
		}
		content := []*box{flow(inner, max(l.node, caches), l.coreGap*2, l.coreGap*2)}
		width := max(l.node, content[0].w)
		note := view.Count(u.Size, "CPU")
		if l.m.state.Policy().StaticCPU {
			note = strconv.Itoa(l.m.state.AvailableCPUs().IntersectionLen(u.CPUs)) + " of " +
				view.Count(l.m.state.AllocatableCPUs().IntersectionLen(u.CPUs), "CPU") + " free"
		}
		if l.title == 0 { // The frame has no room for the note beside the title.
			line := &box{kind: boxText, w: width, h: l.line, about: note, pod: noPod}
			line.setTexts("CPUs", strings.NewReplacer(" CPUs", "", " CPU", "").Replace(note), width)
			content, note = append(content, line), ""
		}
		content = append(content, l.resources(u.ID, width)...)
		content = append(content, l.caches(u, width)...)
		return l.numaFrame(u.ID, note, stack(content, l.gap/2))
	case view.Socket:
	}
	return l.frame(boxSocket, string(kind)+" "+strconv.Itoa(u.ID), "", flow(inner, l.width-2*l.padX, l.gap, l.gap), l.node)
}

// numaFrame returns the frame of a NUMA node around content.
func (l layout) numaFrame(id int, note string, content *box) *box {
	b := l.frame(boxNode, "NUMA node "+strconv.Itoa(id), note, content, l.node)
	b.id = "numa" + strconv.Itoa(id)
	return b
}

// frame returns a frame with a title around content. width is the least width of the content.
func (l layout) frame(kind boxKind, title, note string, content *box, width int) *box {
	padX, padY, height := l.padX, l.padY, l.title
	if kind == boxUncore {
		padX, padY, height = 0, 0, l.uncore
	}
	b := &box{kind: kind, inner: content.inner, pod: noPod, about: title}
	if note != "" {
		b.about += ", " + note
	}
	for _, in := range content.inner {
		in.move(padX, padY+height)
	}
	b.w, b.h = max(content.w, width)+2*padX, content.h+2*padY+height
	b.setTexts(title, note, (b.w-2*padX)/l.letter)
	return b
}

// setTexts cuts a title and a note to the columns that they share. The title has priority.
func (b *box) setTexts(title, note string, room int) {
	b.text = terminal.Fit(title, room)
	if left := room - terminal.Width(b.text) - 1; note != "" && left >= 4 {
		b.note = terminal.Fit(note, left)
	}
}

// cores returns the cells of a unit's CPUs. A core is a column of its threads, and the number of
// cores in a row depends on their number.
func (l layout) cores(u machine.Unit) *box {
	cores := view.Inside(l.m.state.Machine().Cores(), u.CPUs)
	limit := 8
	if len(cores) > 32 && l.width > 16*(l.cellW+l.coreGap)+4*l.padX {
		limit = 16
	}
	rows := (len(cores) + limit - 1) / limit
	perRow := (len(cores) + rows - 1) / rows
	tallest := 0
	for _, c := range cores {
		tallest = max(tallest, c.Size)
	}
	height := tallest*(l.cellH+l.threadGap) - l.threadGap
	cells := make([]*box, 0, u.Size)
	for i, core := range cores {
		x, y := i%perRow*(l.cellW+l.coreGap), i/perRow*(height+l.rowGap)
		for k, id := range core.CPUs.IDs() {
			at := l.m.byID[id]
			c := l.m.CPUs[at]
			cells = append(cells, &box{
				kind: boxCPU, x: x, y: y + k*(l.cellH+l.threadGap), w: l.cellW, h: l.cellH,
				text: strconv.Itoa(id), tag: c.Tag, use: c.Use, pod: c.pod, about: l.m.about(c),
				loud: loudness(c.Interruptions), interrupted: c.Interruptions > 0, cpu: at, row: i/perRow*tallest + k, column: i % perRow,
			})
		}
	}
	block := enclose(cells)
	return enclose([]*box{block})
}

// resources returns boxes for the memory and the devices of a NUMA node.
func (l layout) resources(id, width int) []*box {
	var out []*box
	at := slices.IndexFunc(l.m.state.Machine().Nodes(), func(n machine.Node) bool { return n.ID == id })
	for _, bar := range l.m.memoryOf(at) {
		out = append(out, l.barOf(bar, width))
	}
	return append(out, l.devices(id, width)...)
}

func (l layout) barOf(a amounts, width int) *box {
	b := &box{kind: boxBar, w: width, h: l.line + l.bar, whole: a.whole, parts: a.parts, about: a.about, pod: noPod}
	b.setTexts(a.name, a.value, width/l.letter)
	return b
}

// devices returns boxes for the devices near a NUMA node, grouped by resource or driver. With
// device.NoNode it returns those near no NUMA node.
func (l layout) devices(id, width int) []*box {
	var out []*box
	for rest := l.m.Devices; len(rest) > 0; {
		n := 0
		var near []*Device
		for ; n < len(rest) && rest[n].Of == rest[0].Of; n++ {
			if d := &rest[n]; d.nodes.Has(id) || id == device.NoNode && d.nodes.IsEmpty() {
				near = append(near, d)
			}
		}
		bar := l.m.deviceBar(rest[0].Of, near)
		switch {
		case len(near) == 0:
		case len(near) > maxCells:
			out = append(out, l.barOf(bar, width))
		default:
			out = append(out, l.deviceCells(bar, near, id, width))
		}
		rest = rest[n:]
	}
	return out
}

func (l layout) deviceCells(a amounts, devices []*Device, id, width int) *box {
	line := &box{kind: boxText, w: width, h: l.line, about: a.about, pod: noPod}
	line.setTexts(a.name, a.value, width/l.letter)
	at := "none"
	if id != device.NoNode {
		at = strconv.Itoa(id)
	}
	cells := make([]*box, len(devices))
	for i, d := range devices {
		digest := fnv.New64a()                                                // The names can be long.
		_, _ = digest.Write([]byte(d.Of + "\x00" + d.Pool + "\x00" + d.Name)) // It never fails.
		cells[i] = &box{
			kind: boxDevice, w: l.deviceW, h: l.deviceH, use: d.Use, pod: d.owner(), about: l.m.aboutDevice(d),
			id: fmt.Sprintf("device%s-%016x", at, digest.Sum64()), tag: l.m.deviceTag(d), device: d,
		}
	}
	return stack([]*box{line, flow(cells, width, l.coreGap, l.coreGap)}, 0)
}

// elsewhere returns boxes for NUMA nodes without CPUs and for devices without a NUMA node.
func (l layout) elsewhere() []*box {
	var out []*box
	var empty mask.Mask
	for _, n := range l.m.state.Machine().Nodes() {
		switch {
		case view.IsEmpty(n):
			empty = empty.With(n.ID)
			for _, b := range l.devices(n.ID, l.node) {
				out = append(out, l.numaFrame(n.ID, "", b))
			}
		case n.CPUs.IsEmpty():
			text := view.MemoryOnly(l.m.state.Machine(), n)
			near := &box{kind: boxFaint, text: terminal.Fit(text, l.node/l.letter), about: text, w: l.node, h: l.line, pod: noPod}
			content := stack(append([]*box{near}, l.resources(n.ID, l.node)...), l.gap/2)
			out = append(out, l.numaFrame(n.ID, "", content))
		}
	}
	if free := l.devices(device.NoNode, l.node); len(free) > 0 {
		out = append(out, l.frame(boxNode, "no NUMA node", "", stack(free, l.gap/2), l.node))
	}
	if !empty.IsEmpty() {
		text := view.Plural(empty.Len(), "NUMA node") + " " + empty.List() + ": neither CPUs nor memory"
		out = append(out, &box{kind: boxGroup, pod: noPod, w: l.letter * terminal.Width(text), h: l.line, inner: []*box{
			{kind: boxFaint, text: text, about: text, w: l.letter * terminal.Width(text), h: l.line, pod: noPod},
		}})
	}
	return out
}
