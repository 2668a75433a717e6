package discover

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// numaList is the output of "numactl -H" (numactl(8)).
type numaList struct {
	file  string
	nodes mask.Mask
	cpus  map[int]nodeCPUs
	// mib is the memory in MiB, including huge pages, rounded down.
	mib map[int]uint64
	// distances are the distances from each NUMA node to all of nodes, ascending. It is empty if
	// the kernel reports none.
	distances map[int][]uint64
}

// The lines of the output. The sizes are in units of 1024*1024 bytes, which numactl writes as MB.
var (
	nodeLine      = regexp.MustCompile(`(?m)^node +(\d{1,9}) +(cpus|size):(.*)$`)
	availableLine = regexp.MustCompile(`^available: +(\d{1,9}) +nodes?\b`)
	distanceLine  = regexp.MustCompile(`^ *(\d{1,9}):((?: +\d{1,9})+) *$`)
	sizeText      = regexp.MustCompile(`^(\d{1,12}) MB$`)
)

// readNumactl reads the output of "numactl -H".
func readNumactl(f File) (*numaList, error) {
	l := &numaList{file: f.Name, cpus: map[int]nodeCPUs{}, mib: map[int]uint64{}, distances: map[int][]uint64{}}
	available := -1
	distances := false // whether the lines with distances have begun
	for line := range bytes.Lines(f.Data) {
		text := strings.TrimRight(string(line), " \t\r\n")
		var err error
		if m := availableLine.FindStringSubmatch(text); m != nil {
			available, err = strconv.Atoi(m[1])
		} else if m := nodeLine.FindStringSubmatch(text); m != nil {
			err = l.addNode(m[1], m[2], strings.TrimSpace(m[3]))
		} else if m := distanceLine.FindStringSubmatch(text); m != nil && distances {
			err = l.addDistances(m[1], m[2])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", f.Name, text, err)
		}
		distances = distances || text == "node distances:"
	}
	if err := l.check(available); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return l, nil
}

func (l *numaList) addNode(node, what, value string) error {
	id, err := strconv.Atoi(node)
	if err != nil {
		return err
	}
	if err := checkNode(id); err != nil {
		return err
	}
	l.nodes = l.nodes.With(id)
	n := l.cpus[id]
	if what == "size" {
		l.cpus[id] = n
		if m := sizeText.FindStringSubmatch(value); m != nil { // Otherwise it is "<not available>".
			l.mib[id], err = strconv.ParseUint(m[1], 10, 64)
		}
		return err
	}
	if n.listed {
		return fmt.Errorf("NUMA node %d is listed twice", id)
	}
	var set cpuset.Builder
	for field := range strings.FieldsSeq(value) {
		cpu, err := strconv.Atoi(field)
		if err != nil || cpu < 0 || cpu > cpuset.MaxID {
			return fmt.Errorf("CPU %q is not a number from 0 to %d", field, cpuset.MaxID)
		}
		set.Add(cpu)
	}
	l.cpus[id] = nodeCPUs{set.Set(), true}
	return nil
}

func (l *numaList) addDistances(node, values string) error {
	id, err := strconv.Atoi(node)
	if err != nil {
		return err
	}
	var row []uint64
	for field := range strings.FieldsSeq(values) {
		n, err := strconv.ParseUint(field, 10, 31)
		if err != nil {
			return err
		}
		row = append(row, n)
	}
	l.distances[id] = row
	return nil
}

// check returns an error if the output is incomplete.
func (l *numaList) check(available int) error {
	again := ": it is cut off; run " + numaCommand + " again"
	if n := l.nodes.Len(); available >= 0 && n != available {
		return fmt.Errorf("%d NUMA nodes are available, and it lists %s%s", available, l.nodes.List(), again)
	}
	if len(l.distances) == 0 {
		return nil
	}
	if !slices.Equal(sortedKeys(l.distances), l.nodes.Nodes()) {
		return errors.New("it does not have the distances of each NUMA node" + again)
	}
	for _, id := range l.nodes.Nodes() {
		if n := len(l.distances[id]); n != l.nodes.Len() {
			return fmt.Errorf("NUMA node %d has %d distances, and there are %d NUMA nodes%s", id, n, l.nodes.Len(), again)
		}
	}
	return nil
}

func sortedKeys[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }
