package nodemap

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Arrow represents a pod that moves from one place to another.
type Arrow struct {
	UID      string
	From, To cpuset.Set
	// FromNodes and ToNodes are the NUMA nodes of the pod's memory. They are used for a pod without
	// exclusive CPUs.
	FromNodes, ToNodes mask.Mask
	// underWay is set while the pod is being moved and has both places.
	underWay bool
}

// ArrowOf returns the arrow of a pod that moves from one grant to another.
func ArrowOf(from, to *node.Grant) Arrow {
	return Arrow{UID: from.Pod.UID, From: from.CPUs(), To: to.CPUs(), FromNodes: from.MemoryNodes(), ToNodes: to.MemoryNodes()}
}

// underWay returns the arrow of a pod that is being moved.
func underWay(g *node.Grant) Arrow {
	a := ArrowOf(g.Staying(), g.Moving)
	a.underWay = true
	return a
}

// places returns both places as text, and what they are: "CPUs " or "NUMA node ".
func (a Arrow) places() (of, from, to string) {
	if a.From.IsEmpty() || a.To.IsEmpty() {
		return "NUMA node ", a.FromNodes.List(), a.ToNodes.List()
	}
	return "CPUs ", a.From.String(), a.To.String()
}

// arrowStyle is the style sheet of arrows. Its colours are readable in light and dark. Arrows of
// moves under way are dashed.
const arrowStyle = `.map .move path { stroke: #c2185b; stroke-width: 2.5; fill: none; pointer-events: none; }
.map .underway path { stroke-dasharray: 7 4; }
.map .move circle, .map .arrowhead path { fill: #c2185b; }
.map .move text { fill: #fff; font-weight: bold; }
`

// WithArrows returns the map with a numbered arrow for each move, in their order. The map shows the
// node before the first move. Moves that are under way have arrows without WithArrows.
func (m Map) WithArrows(arrows []Arrow) Map {
	m.arrows = append(slices.Clip(m.arrows), arrows...)
	return m
}

// number returns the number of an arrow among those that are not under way.
func (m Map) number(at int) int {
	n := 1
	for _, a := range m.arrows[:at] {
		if !a.underWay {
			n++
		}
	}
	return n
}

// pod returns the pod with that UID, or an empty Pod.
func (m Map) pod(uid string) Pod {
	if i := slices.IndexFunc(m.Pods, func(p Pod) bool { return p.UID == uid }); i >= 0 {
		return m.Pods[i]
	}
	return Pod{}
}

// Moves returns a sentence for each move that is under way.
func (m Map) Moves() []string {
	texts := []string{}
	for _, a := range m.arrows {
		if a.underWay {
			of, from, to := a.places()
			texts = append(texts, fmt.Sprintf("%s is being moved from %s%s to %s", m.pod(a.UID).Pod, of, from, to))
		}
	}
	return texts
}

// arrowLines returns the arrows as text for a terminal.
func (m Map) arrowLines(style terminal.Style) string {
	var out strings.Builder
	for i, a := range m.arrows {
		pod := m.pod(a.UID)
		name, word := strings.TrimSpace(pod.Tag+" "+pod.Pod), ""
		if a.underWay {
			word = "is being moved: "
		} else {
			name = fmt.Sprintf("%d  %s:", m.number(i), name)
		}
		of, from, to := a.places()
		out.WriteString(style.Paragraph("", "  ", terminal.Strong.Of(name), terminal.Plain.Of(word+of+from+" → "+to)))
	}
	return out.String()
}

// point is the middle of a cell or of several cells.
type point struct{ x, y int }

// middle returns the middle of some CPUs or, without CPUs, of some NUMA nodes. It returns false if
// none of them is in the picture.
func (w *svgWriter) middle(cpus cpuset.Set, nodes mask.Mask) (p point, found bool) {
	n := 0
	add := func(at point, there bool) {
		if there {
			p.x, p.y, n = p.x+at.x, p.y+at.y, n+1
		}
	}
	for _, id := range cpus.IDs() {
		at, there := w.cells[id]
		add(at, there)
	}
	if cpus.IsEmpty() {
		for id := range nodes.All() {
			at, there := w.frames["numa"+strconv.Itoa(id)]
			add(at, there)
		}
	}
	if n == 0 {
		return p, false
	}
	return point{p.x / n, p.y / n}, true
}

// arrow draws one arrow from the middle of the old cells to the middle of the new ones.
func (w *svgWriter) arrow(at int, a Arrow) {
	from, ok := w.middle(a.From, a.FromNodes)
	to, there := w.middle(a.To, a.ToNodes)
	if !ok || !there {
		return // None of its CPUs is online.
	}
	pod, class := w.m.pod(a.UID), "move"
	of, was, is := a.places()
	mark, places := strconv.Itoa(w.m.number(at)), " from "+of+was+" to "+is
	title := "move " + mark + ": " + strings.TrimSpace(pod.Tag+" "+pod.Pod) + places
	if a.underWay {
		mark, title, class = pod.Tag, pod.Pod+" is being moved"+places, "move underway"
	}
	w.put(`<g class="%s"><title>%s</title><path d="M%d %dL%d %d" marker-end="url(#arrowhead)"/><circle cx="%d" cy="%d" r="8"/><text x="%d" y="%d" text-anchor="middle">%s</text></g>`+"\n",
		class, escape(title), from.x, from.y, to.x, to.y, from.x, from.y, from.x, from.y+4, escape(mark))
}
