package discover

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// cpuSummary is the topology in the output of "lscpu -J" without -e.
type cpuSummary struct {
	file            string
	online, offline cpuset.Set
	// cpus are the CPUs of each NUMA node. It is empty if the kernel reports no NUMA nodes.
	cpus map[int]nodeCPUs
	// perCore are the numbers of threads per core, one for each model of CPU. sockets is the number
	// of sockets, or 0 if it is not clear.
	perCore []string
	sockets int
}

// nodeCPUs are the CPUs of a NUMA node. listed is false if the file lists the NUMA node but not its
// CPUs.
type nodeCPUs struct {
	set    cpuset.Set
	listed bool
}

// summaryField is one line of the summary. Newer versions nest them.
type summaryField struct {
	Field    string          `json:"field"`
	Data     json.RawMessage `json:"data"`
	Children []summaryField  `json:"children"`
}

var nodeField = regexp.MustCompile(`^NUMA node(\d{1,9}) CPU\(s\):$`)

// readSummary reads the output of "lscpu -J".
func readSummary(f File) (*cpuSummary, error) {
	var text struct {
		Fields []summaryField `json:"lscpu"`
	}
	if err := json.Unmarshal(f.Data, &text); err != nil {
		return nil, fmt.Errorf("%s: %w: expected the output of %s", f.Name, malformed.JSON(f.Data, err), tableCommand)
	}
	s := &cpuSummary{file: f.Name, cpus: map[int]nodeCPUs{}}
	if err := s.add(text.Fields); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	var listed cpuset.Set
	for id, n := range s.cpus {
		if both := listed.Intersection(n.set); !both.IsEmpty() {
			return nil, fmt.Errorf("%s: CPUs %s of NUMA node %d are on another NUMA node too", f.Name, both, id)
		}
		listed = listed.Union(n.set)
	}
	if len(s.cpus) > 0 && !s.online.IsEmpty() && !s.online.Equal(listed) {
		return nil, fmt.Errorf("%s: its NUMA nodes have CPUs %s, and CPUs %s are online", f.Name, listed, s.online)
	}
	if s.online.IsEmpty() {
		s.online = listed
	}
	return s, nil
}

func (s *cpuSummary) add(fields []summaryField) error {
	for _, f := range fields {
		value := row{"": f.Data}.text("")
		var err error
		switch name := strings.TrimSpace(f.Field); name {
		case "On-line CPU(s) list:":
			s.online, err = cpuset.Parse(dashless(value))
		case "Off-line CPU(s) list:":
			s.offline, err = cpuset.Parse(dashless(value))
		case "Thread(s) per core:":
			s.perCore = append(s.perCore, value)
		case "Socket(s):":
			s.sockets = 0
			if n, wrong := strconv.Atoi(value); wrong == nil && len(s.perCore) <= 1 {
				s.sockets = n
			}
		default:
			if m := nodeField.FindStringSubmatch(name); m != nil {
				err = s.addNode(m[1], value)
			}
		}
		if err != nil {
			return fmt.Errorf("%q: %w", f.Field, err)
		}
		if err := s.add(f.Children); err != nil {
			return err
		}
	}
	return nil
}

func (s *cpuSummary) addNode(text, cpus string) error {
	id, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	if err := checkNode(id); err != nil {
		return err
	}
	if _, ok := s.cpus[id]; ok {
		return fmt.Errorf("NUMA node %d is listed twice", id)
	}
	set, err := cpuset.Parse(dashless(cpus))
	s.cpus[id] = nodeCPUs{set, true}
	return err
}

// dashless returns the empty text for the dash that means no value.
func dashless(text string) string {
	if text == "-" {
		return ""
	}
	return text
}

// list returns the CPUs if the summary determines their cores and sockets. Otherwise it returns
// what the summary lacks.
func (s *cpuSummary) list() (l *cpuList, lacks string) {
	switch {
	case s.online.IsEmpty():
		return nil, "which CPUs are online"
	case len(s.perCore) == 0, slices.ContainsFunc(s.perCore, func(n string) bool { return n != "1" }):
		return nil, "the threads of each core"
	}
	l = &cpuList{file: s.file, offline: s.offline}
	socket := 0
	nodes := map[int]thread{}
	for _, id := range sortedKeys(s.cpus) {
		if s.cpus[id].set.IsEmpty() {
			continue
		}
		nodes[id] = thread{node: id, socket: socket}
		if s.sockets > 1 {
			socket++
		}
	}
	switch {
	case s.sockets < 1, s.sockets > 1 && s.sockets != len(nodes):
		return nil, "the CPUs of each socket"
	case s.sockets > 1:
		l.note("%s has %d sockets and as many NUMA nodes with CPUs, but not their CPUs: each of these NUMA nodes is taken as a socket; the output of %s has them", s.file, s.sockets, tableCommand)
	}
	for id := range s.online.All() {
		t := thread{node: unknown}
		for n, cpus := range s.cpus {
			if cpus.set.Has(id) {
				t = nodes[n]
			}
		}
		t.id, t.core, t.l3 = id, id, unknown
		l.threads = append(l.threads, t)
	}
	l.note("%s is the summary of lscpu: which CPUs share an L3 cache is not known, and a socket counts as one cache; the output of %s has it", s.file, tableCommand)
	return l, ""
}
