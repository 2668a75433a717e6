package cpu_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// TestScenarios runs the files in testdata, which README.txt explains. Run it with -rewrite to
// update their expectations, then read the diff.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s scenario
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.d = t, d
			return s.run()
		})
	})
}

type scenario struct {
	t *testing.T
	d *datadriven.TestData
	m *machine.Machine
}

func (s *scenario) run() string {
	switch s.d.Cmd {
	case "machine":
		return s.machine()
	case "take":
		return s.cpus(cpu.Take(s.m, s.options(), s.set("from", s.m.AllCPUs()), s.number("n")))
	case "reserve":
		return s.cpus(cpu.Reserve(s.m, s.options(), s.number("n")))
	case "physical":
		return cpu.PhysicalOf(s.m, s.set("of", cpuset.Set{})).String()
	case "allocate":
		nodes, has := s.nodes()
		return s.cpus(cpu.Allocate(s.m, s.options(), s.set("from", s.m.AllCPUs()), nodes, has, s.number("n")))
	case "check-full-cores":
		if err := cpu.CheckFullCores(s.m, s.options(), s.number("available-physical"), s.number("n")); err != nil {
			return err.Error()
		}
		return "ok"
	case "hints":
		return s.hints()
	}
	s.d.Fatalf(s.t, "unknown command %q", s.d.Cmd)
	return ""
}

// machine parses lines such as "NUMA 0 socket 0 uncore 1: 0,4 1,5", which list cores with their
// threads. A NUMA node may have several lines.
func (s *scenario) machine() string {
	var d machine.Description
	if s.d.HasArg("sockets") {
		d.Sockets = s.number("sockets")
	}
	for line := range strings.Lines(s.d.Input) {
		place, cores, _ := strings.Cut(strings.TrimSpace(line), ":")
		at := map[string]int{"uncore": machine.NoUncore}
		words := strings.Fields(place)
		for i := 0; i+1 < len(words); i += 2 {
			at[words[i]] = s.atoi(words[i+1])
		}
		i := slices.IndexFunc(d.Nodes, func(n machine.NodeDescription) bool { return n.ID == at["NUMA"] })
		if i < 0 {
			i = len(d.Nodes)
			d.Nodes = append(d.Nodes, machine.NodeDescription{ID: at["NUMA"]})
		}
		for threads := range strings.FieldsSeq(cores) {
			d.Nodes[i].Cores = append(d.Nodes[i].Cores, machine.CoreDescription{
				Socket: at["socket"], Uncore: at["uncore"], Threads: s.parse(threads).IDs(),
			})
		}
	}
	m, err := machine.New(d)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	s.m = m
	first := "NUMA nodes"
	if m.NumSockets() < len(m.CPUNodes()) {
		first = "sockets"
	}
	return fmt.Sprintf("%d CPUs: %d a core, %d a socket, %d an uncore cache; %s come first",
		m.NumCPUs(), m.CPUsPerCore(), m.CPUsPerSocket(), m.CPUsPerUncore(), first)
}

func (s *scenario) options() cpu.Options {
	var o cpu.Options
	switches := map[string]*bool{
		"full-pcpus-only":                  &o.FullPCPUsOnly,
		"distribute-cpus-across-numa":      &o.DistributeAcrossNUMA,
		"distribute-cpus-across-cores":     &o.DistributeAcrossCores,
		"align-by-socket":                  &o.AlignBySocket,
		"prefer-align-cpus-by-uncorecache": &o.PreferUncore,
	}
	for _, arg := range s.d.CmdArgs {
		if on, known := switches[arg.Key]; known {
			*on = true
		} else if len(arg.Vals) == 0 {
			s.d.Fatalf(s.t, "unknown option %q", arg.Key)
		}
	}
	return o
}

func (s *scenario) atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	return n
}

func (s *scenario) parse(text string) cpuset.Set {
	set, err := cpuset.Parse(text)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	return set
}

func (s *scenario) number(key string) int {
	var text string
	s.d.ScanArgs(s.t, key, &text)
	return s.atoi(text)
}

// set parses a set of CPUs. "-" is the empty set.
func (s *scenario) set(key string, otherwise cpuset.Set) cpuset.Set {
	var text string
	if !s.d.MaybeScanArgs(s.t, key, &text) {
		return otherwise
	}
	if text == "-" {
		return cpuset.Set{}
	}
	return s.parse(text)
}

func (s *scenario) nodes() (mask.Mask, bool) {
	var text string
	if !s.d.MaybeScanArgs(s.t, "numa", &text) {
		return 0, false
	}
	nodes, err := mask.Parse(text)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	return nodes, true
}

// cpus formats a result and where its CPUs are.
func (s *scenario) cpus(got cpuset.Set, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	if got.IsEmpty() {
		return "none"
	}
	text := got.String()
	if len(s.m.CPUNodes()) > 1 {
		for _, n := range s.m.CPUNodes() {
			if c := got.IntersectionLen(n.CPUs); c > 0 {
				text += fmt.Sprintf("\n%d of NUMA node %d", c, n.ID)
			}
		}
	}
	return text
}

func (s *scenario) hints() string {
	f := cpu.Hints(s.m, s.options(), s.set("available", s.m.AllCPUs()), s.set("reusable", cpuset.Set{}), s.number("request"))
	if f.Kind != hint.Fits {
		return strings.TrimSpace(f.Kind.String() + " " + f.Why)
	}
	var hints []mask.Mask
	for a := mask.Mask(1); a <= s.m.NodeMask(); a++ {
		if f.Has(a) {
			hints = append(hints, a)
		}
	}
	slices.SortFunc(hints, func(a, b mask.Mask) int {
		if a.NarrowerThan(b) {
			return -1
		}
		return 1
	})
	lines := make([]string, len(hints))
	for i, a := range hints {
		lines[i] = a.String()
		if prefers(f, a) {
			lines[i] += " preferred"
		}
	}
	return strings.Join(lines, "\n")
}
