package node_test

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// history is a node with everything that was done to it, so that a failure prints as a scenario.
type history struct {
	t      *rapid.T
	n      *scenario.Node
	blocks []scenario.Block
	pods   int // how many pods were described
	// tight histories have small NUMA nodes, memory as the only managed resource, and pods of
	// several containers.
	tight bool
	// isolated histories have isolated CPUs. Those with caches have caches that can be divided.
	isolated, caches bool
	// starts is how many restarts were compared.
	starts int
	// given is how many devices others can choose, by resource and driver.
	given map[string]int
	// scratch is that of all verdicts.
	scratch node.Scratch
}

// script returns the history as a scenario file.
func (h *history) script() string {
	parts := make([]string, len(h.blocks))
	for i, b := range h.blocks {
		parts[i] = b.String()
	}
	return strings.Join(parts, "\n")
}

func (h *history) fatalf(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s\n\nas a scenario:\n\n%s", fmt.Sprintf(format, args...), h.script())
}

// do runs one command. Every command of a history is valid, and no invariant may break.
func (h *history) do(line string, input ...string) string {
	h.t.Helper()
	words := strings.Fields(line)
	c := scenario.Command{Name: words[0], Args: words[1:], Input: input}
	answer := h.n.Run(c)
	h.blocks = append(h.blocks, scenario.Block{Command: c, Answer: strings.Split(answer, "\n")})
	if strings.Contains("\n"+answer, "\nerror: ") {
		h.fatalf("%s: %s", line, answer)
	}
	return answer
}

func (h *history) state() *node.State { return h.n.State() }

func (h *history) intn(low, high int, label string) int {
	return rapid.IntRange(low, high).Draw(h.t, label)
}

// chance is true in one of n draws. The shrunk value is false.
func (h *history) chance(n int, label string) bool { return h.intn(0, n-1, label) == n-1 }

func (h *history) pick(label string, values ...string) string {
	return rapid.SampledFrom(values).Draw(h.t, label)
}

// startTight returns a history of a node on which memory is short and the only resource that is
// aligned. Pods that fit on no NUMA nodes together, and groups of NUMA nodes, are frequent.
func startTight(t *rapid.T) *history {
	h := &history{t: t, n: scenario.New(nil), tight: true}
	h.do(fmt.Sprintf("machine sockets=%d numa=%d cores=4 memory=1Gi hugepages-2Mi=%d",
		h.intn(1, 2, "sockets"), h.intn(2, 3, "numa"), h.intn(0, 1, "pages")*64))
	h.do("config topology=" + h.pick("topology", "single-numa-node", "restricted", "best-effort", "none") +
		" scope=" + h.pick("scope", "pod", "pod", "container") + " memory=Static cpu=" + h.pick("cpu", "none", "none", "static"))
	return h
}

// start draws a machine and settings that are valid on it. Some machines have isolated CPUs.
// Some have caches that can be divided.
func start(t *rapid.T) *history {
	h := &history{t: t, n: scenario.New(nil)}
	h.isolated, h.caches = h.chance(5, "isolated"), h.chance(5, "caches")
	h.begin()
	return h
}

func startOn(t *rapid.T, isolated bool) *history {
	h := &history{t: t, n: scenario.New(nil), isolated: isolated}
	h.begin()
	return h
}

// begin draws the machine, the settings and the devices.
func (h *history) begin() {
	if h.chance(2, "irregular machine") {
		h.irregularMachine()
	} else {
		h.regularMachine()
	}
	topology := "topology=" + h.pick("topology", "best-effort", "restricted", "single-numa-node", "best-effort", "restricted", "single-numa-node", "none")
	scope := " scope=" + h.pick("scope", "pod", "pod", "container")
	cpu := " cpu=static" + h.pick("reservation", "", " reserve-cpu=2", " reserved-cpus=0")
	if h.chance(8, "no CPU policy") {
		cpu = " cpu=none"
	}
	memory := h.pick("memory", " memory=Static", " memory=Static", "")
	options := h.options()
	gates := " gates=CPUManagerPolicyAlphaOptions" + h.pick("gate", "", "", "", "", "", "", "", ",PodLevelResourceManagers=false")
	for _, config := range []string{
		topology + scope + cpu + memory + options + gates,
		topology + scope + cpu + memory + h.onlyIsolated(options) + gates,
		topology + scope + cpu + memory + h.onlyCaches(options) + gates,
		topology + scope + cpu + memory + gates,
		topology + scope + cpu + gates,
		scope + " cpu=none",
	} {
		if h.do("config " + config); h.state() != nil {
			if h.chance(2, "with devices") {
				h.plugIn()
			}
			if h.chance(3, "with given devices") {
				h.give()
			}
			return
		}
	}
	h.fatalf("no settings are legal")
}

func (h *history) options() string {
	all := []string{
		"full-pcpus-only", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache",
		"distribute-cpus-across-numa", "align-by-socket", "distribute-cpus-across-cores",
	}
	var some []string
	for _, o := range all {
		if h.chance(5, o) {
			some = append(some, o)
		}
	}
	if h.caches {
		some = append(some, "cache-allocation")
	}
	if h.isolated {
		some = append(some, "isolated-cpus="+h.pick("isolated-cpus", "only", "only", "prefer"))
	}
	text := ""
	if len(some) > 0 {
		text = " options=" + strings.Join(some, ",")
	}
	if h.chance(3, "prefer-closest") {
		text += " topology-options=prefer-closest-numa-nodes"
	}
	return text
}

// onlyIsolated returns the option isolated-cpus of options alone, for settings with options that
// exclude each other.
func (h *history) onlyIsolated(options string) string {
	if _, value, has := strings.Cut(options, "isolated-cpus="); has {
		value, _, _ = strings.Cut(value, " ")
		return " options=isolated-cpus=" + value
	}
	return ""
}

func (h *history) regularMachine() {
	sockets, numa, cores, threads := h.intn(1, 2, "sockets"), h.intn(1, 4, "numa"), h.intn(1, 8, "cores"), []int{1, 2, 4}[h.intn(0, 2, "threads")]
	h.do(fmt.Sprintf("machine sockets=%d numa=%d cores=%d threads=%d numbering=%s uncore=%d memory=%dGi hugepages-2Mi=%d distances=10,%d",
		sockets, numa, cores, threads,
		h.pick("numbering", "interleaved", "adjacent", "round-robin"), h.intn(0, 3, "uncore"),
		h.intn(1, 8, "memory"), h.intn(0, 2, "pages")*128, h.intn(11, 31, "distance")) + h.isolate(sockets*numa*cores*threads) + h.divide())
}

// irregularMachine draws NUMA nodes with gaps in their ids and of different sizes. Some have only
// memory, some have fewer threads per core.
func (h *history) irregularMachine() {
	nodes, next, id := h.intn(1, 8, "nodes"), 0, -1
	lines := make([]string, nodes)
	for i := range lines {
		id += 1 + h.intn(0, 7, "gap")
		cores, threads := h.intn(0, 6, "cores"), []int{1, 2, 4}[h.intn(0, 2, "threads")]
		if i == 0 {
			cores++
		}
		text := make([]string, cores)
		for k := range text {
			siblings := make([]string, threads)
			for s := range siblings {
				siblings[s] = fmt.Sprint(next)
				next++
			}
			text[k] = strings.Join(siblings, "+")
		}
		lines[i] = fmt.Sprintf("node %d socket=%d memory=%dMi", id, i/h.intn(1, 4, "nodes a socket"), h.intn(0, 8, "memory")*1024)
		if cores > 0 {
			lines[i] += " cores=" + strings.Join(text, ",")
		}
		if pages := h.intn(0, 2, "pages") * 64; pages > 0 && !strings.Contains(lines[i], " memory=0Mi") {
			lines[i] += fmt.Sprintf(" hugepages-2Mi=%d", pages)
		}
	}
	h.do("machine"+h.isolate(next)+h.divide(), lines...)
}

// describePod describes a pod under a new name or, rarely, a known pod again. It returns the name,
// or "" if the API server would reject the pod.
func (h *history) describePod() string {
	name := fmt.Sprintf("p%d", h.pods)
	if h.pods > 0 && h.chance(8, "known name") {
		name = fmt.Sprintf("p%d", h.intn(0, h.pods-1, "which"))
	} else {
		h.pods++
	}
	level := !h.tight && !h.chance(3, "plain")
	most := max(1, len(h.state().Machine().CPUs())/h.intn(3, 12, "part"))
	var lines []string
	cpus, mib, pages := 0, 0, 0
	for i := range h.intn(0, 3, "inits") {
		containerType := h.pick("lane", "init", "sidecar")
		lines = append(lines, h.container(containerType, fmt.Sprintf("i%d", i), level, most, &cpus, &mib, &pages))
	}
	for i := range h.intn(1, 3, "apps") {
		lines = append(lines, h.container("app", fmt.Sprintf("c%d", i), level, most, &cpus, &mib, &pages))
	}
	lines = append(lines, h.givenLines(lines)...)
	words, limit := "pod "+name, ""
	if level && h.chance(10, "burstable") {
		limit = ".."
	}
	if level {
		if h.chance(10, "unvalidated") {
			words += " unvalidated"
			cpus, mib = cpus/2, mib/2
		}
		if h.isolated && h.chance(4, "shares isolated CPUs") {
			words += " shared-pool=isolated"
		}
		words += h.poolCache()
		cpus, mib = cpus+h.intn(0, 3, "more cpus"), mib+h.intn(0, 3, "more memory")*512
		words += fmt.Sprintf(" cpu=%d%s%s memory=%dMi", max(1, cpus), h.pick("fraction", "", "", "", "", "", ".5"), limit, max(1, mib))
		if pages += h.intn(0, 1, "more pages"); pages > 0 && h.chance(2, "pages at pod level") {
			words += fmt.Sprintf(" hugepages-2Mi=%dMi", pages*2)
		}
	}
	if answer := h.do(words, lines...); strings.HasPrefix(answer, "invalid") {
		return ""
	}
	return name
}

// container returns a line for one container. It adds to the sums what the pod level must have at
// least.
func (h *history) container(containerType, name string, level bool, most int, cpus, mib, pages *int) string {
	kind := "whole"
	if level {
		kind = h.pick("kind", "shared", "whole", "whole", "fraction", "range")
	} else if h.chance(5, "fraction") {
		kind = "fraction"
	}
	text := containerType + " " + name + h.cacheRequest(containerType, kind) + h.deviceRequests()
	if kind == "shared" {
		return text
	}
	memory := 40
	if h.tight {
		kind, memory = "fraction", 14
	}
	n, m := h.intn(1, most, "cpus"), 64*h.intn(1, h.intn(1, memory, "most memory"), "memory")
	*cpus, *mib = *cpus+n, *mib+m
	switch kind {
	case "fraction":
		text += fmt.Sprintf(" cpu=%dm", n*1000-500)
	case "range":
		text += fmt.Sprintf(" cpu=%dm..%d", n*1000-500, n)
	default:
		text += fmt.Sprintf(" cpu=%d", n)
	}
	text += fmt.Sprintf(" memory=%dMi", m)
	if h.chance(4, "huge pages") {
		p := h.intn(1, 40, "pages")
		if h.tight && h.chance(3, "more pages than a NUMA node has") {
			p += 64
		}
		*pages += p
		text += fmt.Sprintf(" hugepages-2Mi=%dMi", 2*p)
	}
	return text
}
