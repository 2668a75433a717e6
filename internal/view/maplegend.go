package view

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/device"
)

// key explains the fillings. Those that are rare are explained where they are.
func (l layout) key(width int) *box {
	type sample struct {
		use  Use
		text string
	}
	samples := []sample{{UseExclusive, "one container's alone"}, {UsePooled, "shared within a pod's pool"}}
	if l.m.hasIdle() {
		samples = append(samples, sample{UseIdle, "in a pool, and no container runs there"})
	}
	samples = append(samples, sample{UseShared, "the node shared pool, free"}, sample{UseReserved, "reserved for the system"})
	if !l.m.state.Policy().StaticCPU {
		samples = []sample{{UseNone, "CPUs are not managed"}, {UseExclusive, "assigned to a pod"}, {UseShared, "free"}, {UseReserved, "reserved for the system"}}
	}
	if l.m.hasUnhealthy() {
		samples = append(samples, sample{UseUnhealthy, "an unhealthy device"})
	}
	entries := make([]*box, len(samples))
	for i, s := range samples {
		swatch := &box{kind: boxSwatch, w: l.swatch, h: l.line, use: s.use, pod: noPod}
		text := &box{kind: boxFaint, x: l.swatch + l.letter, w: l.letter * textWidth(s.text), h: l.line, text: s.text, pod: noPod}
		entries[i] = enclose([]*box{swatch, text})
	}
	return flow(entries, width, 2*l.letter, l.coreGap)
}

func (m Map) hasIdle() bool {
	return slices.ContainsFunc(m.CPUs, func(c MapCPU) bool { return c.Use == UseIdle })
}

func (m Map) hasUnhealthy() bool {
	inventory := m.state.Devices().Inventory()
	return slices.ContainsFunc(inventory.Resources(), func(resource string) bool {
		return slices.ContainsFunc(inventory.Devices(resource), func(d device.Device) bool { return !d.Healthy })
	})
}

// legendOf lists the pods, each with its containers, in as many columns as have room.
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

// legendPod is a pod's line and below it those of the containers that have something to tell
// beside it.
func (l layout) legendPod(at int, p MapPod, width int) *box {
	swatch := &box{kind: boxSwatch, w: l.swatch, h: l.line, use: UseShared, pod: noPod, tag: p.Tag}
	if p.Slot != noPod {
		swatch.use, swatch.pod = UseExclusive, at
	}
	about := "pod " + p.Pod + " (" + p.UID + ")" + ": " + p.holds()
	lines := []*box{enclose([]*box{swatch, l.legendLine(p.Pod, p.holds(), about, boxText, l.swatch+l.letter, width)})}
	if p.Slot != noPod && (len(p.Containers) > 1 || p.Pool != "") {
		for i, c := range p.Containers {
			tag := strings.Repeat(" ", len(p.Tag)) + " "
			if c.Isolation == "container" {
				tag = p.Tag + strconv.Itoa(i+1)
			}
			about := "container " + c.Name + " (" + c.Kind + "): " + c.holds()
			lines = append(lines, l.legendLine(tag+" "+c.Name, c.holds(), about, boxFaint, l.swatch+l.letter, width))
		}
	}
	b := stack(lines, 0)
	b.h += l.line / 4
	return b
}

func (l layout) legendLine(text, note, about string, kind boxKind, x, width int) *box {
	b := &box{kind: kind, x: x, w: width - x, h: l.line, about: about, pod: noPod}
	room := b.w / l.letter
	// The note may take half of the line; a short name leaves it more.
	b.note = fit(note, max(room/2, room-textWidth(clean(text))-1))
	b.text = fit(text, room-textWidth(b.note)-1)
	return enclose([]*box{b})
}

// holds says in short what a pod has.
func (p MapPod) holds() string {
	text := holdsText(p.CPUs, p.Memory)
	if p.Offline != "" {
		text += ", CPUs " + cpuText(p.Offline, false) + " offline"
	}
	if p.Estimated {
		return text + ", estimated from cgroup numbers"
	}
	return text
}

func (c PlanContainer) holds() string {
	text := holdsText(c.CPUs, c.Memory)
	if c.RunsOn != "" {
		return text + ", offline: runs on " + cpuText(c.RunsOn, false)
	}
	if c.CPUs != "" && c.Isolation == "pod" {
		return "shares " + text
	}
	return text
}

// holdsText puts together how many CPUs, which ones, and the memory.
func holdsText(cpus string, memory []PlanBlock) string {
	var words []string
	if cpus != "" {
		n, _ := strconv.Atoi(cpuCount(cpus))
		words = append(words, count(n, "CPU")+" "+cpuText(cpus, false))
	}
	if len(memory) > 0 {
		words = append(words, blocksText(memory))
	}
	if words == nil {
		return "node shared pool"
	}
	return strings.Join(words, ", ")
}
