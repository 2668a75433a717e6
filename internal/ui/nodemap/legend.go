package nodemap

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// key explains the fillings. It explains rare fillings only if they occur.
func (l layout) key(width int) *box {
	type sample struct {
		use  Use
		text string
	}
	samples := []sample{{UseExclusive, "exclusive to one container"}, {UsePooled, "shared within a pod's pool"}}
	if slices.ContainsFunc(l.m.CPUs, func(c CPU) bool { return c.Use == UseIdle }) {
		samples = append(samples, sample{UseIdle, "in a pool, and no container runs there"})
	}
	if slices.ContainsFunc(l.m.CPUs, func(c CPU) bool { return c.Use == UseMoving }) {
		samples = append(samples, sample{UseMoving, "the new place of a pod that is being moved"})
	}
	samples = append(samples, sample{UseShared, "the node shared pool, free"}, sample{UseReserved, "the node shared pool, reserved for the system"})
	if slices.ContainsFunc(l.m.CPUs, func(c CPU) bool { return c.Use == UseIsolated }) {
		samples = append(samples, sample{UseIsolated, "isolated and free, in no shared pool"})
	}
	if slices.ContainsFunc(l.m.CPUs, func(c CPU) bool { return c.Use == UseLost }) {
		samples = append(samples, sample{UseLost, "neither free nor assigned: no pod gets it"})
	}
	if !l.m.state.Policy().StaticCPU {
		samples = []sample{{UseNone, "CPUs are not managed"}, {UseExclusive, "assigned to a pod"}, {UseShared, "free"}, {UseReserved, "reserved for the system"}}
	}
	if l.m.hasUnhealthy() {
		samples = append(samples, sample{UseUnhealthy, "an unhealthy device"})
	}
	entries := make([]*box, len(samples))
	for i, s := range samples {
		swatch := &box{kind: boxSwatch, w: l.swatch, h: l.line, use: s.use, pod: noPod}
		text := l.faint(s.text, width-l.swatch-l.letter)
		text.move(l.swatch+l.letter, 0)
		entries[i] = enclose([]*box{swatch, text})
	}
	const about = "“free” counts what pods can have, without what is reserved"
	notes := []string{about}
	if len(l.m.Devices) > 0 {
		notes = append(notes, "a device: its container @ its NUMA nodes")
	}
	if slices.ContainsFunc(l.m.Devices, func(d Device) bool { return d.remote() }) {
		notes = append(notes, "≠ remote: its container's CPUs or memory are on another NUMA node")
	}
	if l.m.Caches != nil {
		notes = append(notes, "a cell below L3: one of its ways; hardware or the default class always uses those with the filling of reserved CPUs")
	}
	for _, text := range notes {
		entries = append(entries, l.faint(text, width))
	}
	return flow(entries, width, 2*l.letter, l.coreGap)
}

// faint returns a text in lines of the width.
func (l layout) faint(text string, width int) *box {
	var lines []*box
	for _, line := range terminal.Wrap(text, width/l.letter) {
		lines = append(lines, &box{kind: boxFaint, w: l.letter * terminal.Width(line), h: l.line, text: line, pod: noPod})
	}
	return stack(lines, 0)
}

func (m Map) hasUnhealthy() bool {
	inventory := m.state.Devices().Inventory()
	return slices.ContainsFunc(inventory.Resources(), func(resource string) bool {
		return slices.ContainsFunc(inventory.Devices(resource), func(d device.Device) bool { return !d.Healthy })
	})
}

// legendOf lists the pods with their containers, in as many columns as fit.
func (l layout) legendOf(width int) *box {
	n := max(1, (width+l.gap)/(l.legend+l.gap))
	n = min(n, max(1, len(l.m.Pods)))
	column := min((width-(n-1)*l.gap)/n, 2*l.legend)
	var pods, others []*box
	for i, p := range l.m.Pods {
		b := l.legendPod(i, p, column)
		if p.Slot == noPod {
			others = append(others, b)
		} else {
			pods = append(pods, b)
		}
	}
	return columns(append(pods, others...), n, column, l.gap)
}

// legendPod returns a pod's line and, if the pod has several containers or a pool, a line below it
// for each container.
func (l layout) legendPod(at int, p Pod, width int) *box {
	swatch := &box{kind: boxSwatch, w: l.swatch, h: l.line, use: UseShared, pod: noPod, tag: p.Tag}
	if p.Slot != noPod {
		swatch.use, swatch.pod = UseExclusive, at
	}
	about := "pod " + p.Pod + " (" + p.UID + ")" + ": " + p.assigned()
	lines := []*box{enclose([]*box{swatch, l.legendLine(p.Pod, p.assigned(), about, boxText, l.swatch+l.letter, width)})}
	if p.Slot != noPod && (len(p.Containers) > 1 || p.Pool != "") {
		for i, c := range p.Containers {
			tag := strings.Repeat(" ", len(p.Tag)) + " "
			if c.Isolation == "container" {
				tag = p.Tag + strconv.Itoa(i+1)
			}
			about := "container " + c.Name + " (" + c.Kind + "): " + c.Assigned()
			lines = append(lines, l.legendLine(tag+" "+c.Name, c.Assigned(), about, boxFaint, l.swatch+l.letter, width))
		}
	}
	b := stack(lines, 0)
	b.h += l.line / 4
	return b
}

func (l layout) legendLine(text, note, about string, kind boxKind, x, width int) *box {
	b := &box{kind: kind, x: x, w: width - x, h: l.line, about: about, pod: noPod}
	room := b.w / l.letter
	// The note may take half of the line, and more if the name is short.
	b.note = terminal.Fit(note, max(room/2, room-terminal.Width(terminal.Clean(text))-1))
	b.text = terminal.Fit(text, room-terminal.Width(b.note)-1)
	return enclose([]*box{b})
}

// assigned describes briefly what is assigned to a pod.
func (p Pod) assigned() string {
	text := view.Assigned(p.CPUs, p.Memory)
	if len(p.Containers) == 1 && len(p.Containers[0].Cache) > 0 { // Several containers have lines of their own.
		text += ", " + view.SharesText(p.Containers[0].Cache)
	}
	if len(p.PoolCache) > 0 {
		text += ", its pool has " + view.SharesText(p.PoolCache)
	}
	if p.moving != "" {
		text += ", being moved to " + p.moving
	}
	if p.Offline != "" {
		text += ", CPUs " + view.ShortCPUs(p.Offline) + " offline"
	}
	if p.Remote != "" {
		text += ", remote from a device"
	}
	if p.Estimated {
		return text + ", estimated from cgroup numbers"
	}
	return text
}
