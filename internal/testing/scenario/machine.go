package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// maxCPUs is the maximum number of CPUs in a script.
const maxCPUs = 4096

// runMachine sets the machine and removes all pods and devices from the node. The keys of a regular
// machine:
//
//	sockets=1 numa=1 cores=4 threads=1   NUMA nodes per socket, cores per NUMA node, threads per core
//	numbering=interleaved                one thread of each core first, then the second threads;
//	                                     adjacent: siblings have neighbouring ids;
//	                                     round-robin: as interleaved, one core to each NUMA node in turn
//	uncore=2                             cores per uncore cache
//	memory=16Gi hugepages-2Mi=512        memory and number of huge pages of every NUMA node
//	distances=10,21                      distance to itself and to the others
//	caches=ways:11,classes:16            L3 caches that can be divided; needs uncore. More parts: hardware:600 (hexadecimal),
//	                                     least:2, sparse, mb:10 (the least limit and the step of the memory bandwidth)
//	isolated=2-7                         CPUs of the boot parameter isolcpus; also before the lines of an irregular machine
//
// For an irregular machine there is a line for each NUMA node. Another line with the same id adds
// cores to the NUMA node:
//
//	node ID [socket=0] [uncore=0] [cores=0-3+8-11] [memory=16Gi] [hugepages-2Mi=512] [distances=10,21]
//
// Here 0-3+8-11 are four cores with the threads 0 and 8, 1 and 9, and so on.
func (n *Node) runMachine(c Command) ([]string, error) {
	var d machine.Description
	var err error
	args, isolated := cutKey(c.Args, "isolated")
	args, caches := cutKey(args, "caches")
	recorded := len(args) == 1 && strings.HasPrefix(args[0], "file=")
	switch {
	case len(c.Input) > 0 && len(args) > 0:
		return nil, errors.New("machine: either keys, or a line for each NUMA node")
	case recorded && n.machines == nil:
		return nil, errors.New("machine: there are no recorded machines here")
	case len(c.Input) > 0:
		d, err = describedMachine(c.Input)
	case !recorded:
		d, err = regularMachine(args)
	}
	if err == nil && isolated != "" {
		d.Isolation.Isolated, err = cpuset.Parse(isolated)
	}
	if err == nil && caches != "" {
		d.Caches, err = parseCaches(caches)
	}
	var m *machine.Machine
	switch {
	case err != nil:
		return nil, err
	case recorded:
		m, err = n.machines(strings.TrimPrefix(args[0], "file="))
	default:
		m, err = machine.New(d)
	}
	if err != nil {
		return nil, err
	}
	n.machine, n.devices, n.given, n.state, n.offline = m, nil, nil, nil, cpuset.Set{}
	return describeMachine(m), nil
}

// Machine returns the regular machine for the keys of the command machine, such as "sockets=2
// cores=4 memory=16Gi". It is for tests, and panics if the keys are invalid.
func Machine(keys string) *machine.Machine {
	args, isolated := cutKey(strings.Fields(keys), "isolated")
	args, caches := cutKey(args, "caches")
	d, err := regularMachine(args)
	if err == nil && isolated != "" {
		d.Isolation.Isolated, err = cpuset.Parse(isolated)
	}
	if err == nil && caches != "" {
		d.Caches, err = parseCaches(caches)
	}
	if err != nil {
		panic(err)
	}
	m, err := machine.New(d)
	if err != nil {
		panic(err)
	}
	return m
}

// cutKey returns the other arguments, and the value of a key. It is empty if the key is missing.
func cutKey(args []string, key string) (others []string, value string) {
	i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, key+"=") })
	if i < 0 {
		return args, ""
	}
	return slices.Delete(slices.Clone(args), i, i+1), strings.TrimPrefix(args[i], key+"=")
}

func describedMachine(lines []string) (machine.Description, error) {
	var d machine.Description
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "node" {
			return d, fmt.Errorf("machine: %q: want node ID key=value…", line)
		}
		id, err := number(words[1], 1<<20)
		if err != nil {
			return d, fmt.Errorf("machine: %q: %w", line, err)
		}
		at := slices.IndexFunc(d.Nodes, func(n machine.NodeDescription) bool { return n.ID == id })
		if at < 0 {
			at = len(d.Nodes)
			d.Nodes = append(d.Nodes, machine.NodeDescription{ID: id})
		}
		if err := describeNode(&d.Nodes[at], words[2:]); err != nil {
			return d, fmt.Errorf("machine: %q: %w", line, err)
		}
	}
	return d, nil
}

func describeNode(d *machine.NodeDescription, words []string) error {
	var pages []string
	words, pages = cutHugePages(words)
	values, err := keys(words, "socket", "uncore", "cores", "memory", "distances")
	if err != nil {
		return err
	}
	socket, uncore := 0, machine.NoUncore
	if err := setNumbers(values, map[string]*int{"socket": &socket, "uncore": &uncore}); err != nil {
		return err
	}
	cores, err := coreList(values["cores"])
	if err != nil {
		return err
	}
	for _, threads := range cores {
		d.Cores = append(d.Cores, machine.CoreDescription{Socket: socket, Uncore: uncore, Threads: threads})
	}
	if _, given := values["distances"]; given {
		if d.Distances, err = numbers(values["distances"]); err != nil {
			return err
		}
	}
	return addMemory(d, values["memory"], pages)
}

// coreList parses a text such as "0-3+8-11,20": comma-separated groups of cores, with the threads
// of a core joined by +.
func coreList(text string) ([][]int, error) {
	if text == "" {
		return nil, nil
	}
	var cores [][]int
	for group := range strings.SplitSeq(text, ",") {
		first := len(cores)
		for i, part := range strings.Split(group, "+") {
			low, high, isRange := strings.Cut(part, "-")
			a, err := number(low, 1<<20)
			if err != nil {
				return nil, fmt.Errorf("cores: %w", err)
			}
			b := a
			if isRange {
				if b, err = number(high, 1<<20); err != nil {
					return nil, fmt.Errorf("cores: %w", err)
				}
			}
			if b < a || b-a >= maxCPUs {
				return nil, fmt.Errorf("cores: %q is not a range of CPUs", part)
			}
			for id := a; id <= b; id++ {
				if i == 0 {
					cores = append(cores, nil)
				}
				if at := first + id - a; at < len(cores) {
					cores[at] = append(cores[at], id)
				}
			}
			if b-a+1 != len(cores)-first {
				return nil, fmt.Errorf("cores: %q: its parts have different lengths", group)
			}
		}
	}
	return cores, nil
}

func cutHugePages(words []string) (others, pages []string) {
	for _, w := range words {
		if strings.HasPrefix(w, request.HugePagesPrefix) {
			pages = append(pages, w)
		} else {
			others = append(others, w)
		}
	}
	return others, pages
}

func addMemory(d *machine.NodeDescription, memory string, pages []string) error {
	if memory != "" {
		q, err := resource.ParseQuantity(memory)
		if err != nil {
			return fmt.Errorf("memory=%s: %w", memory, err)
		}
		d.Memory = q.Value()
	}
	for _, w := range pages {
		name, text, _ := strings.Cut(w, "=")
		size, err := resource.ParseQuantity(strings.TrimPrefix(name, request.HugePagesPrefix))
		if err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
		count, err := number(text, 1<<40)
		if err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
		d.HugePages = append(d.HugePages, machine.HugePages{SizeKiB: size.Value() / 1024, Count: int64(count)})
	}
	return nil
}

// shape is a regular machine.
type shape struct{ sockets, numa, cores, threads, uncore int }

func regularMachine(words []string) (machine.Description, error) {
	words, pages := cutHugePages(words)
	values, err := keys(words, "sockets", "numa", "cores", "threads", "uncore", "numbering", "memory", "distances", "file")
	if err != nil {
		return machine.Description{}, err
	}
	s := shape{sockets: 1, numa: 1, cores: 4, threads: 1}
	err = setNumbers(values, map[string]*int{
		"sockets": &s.sockets, "numa": &s.numa, "cores": &s.cores, "threads": &s.threads, "uncore": &s.uncore,
	})
	if err != nil {
		return machine.Description{}, err
	}
	nodes := s.sockets * s.numa
	if all := nodes * s.cores * s.threads; all <= 0 || all > maxCPUs {
		return machine.Description{}, fmt.Errorf("machine: %d CPUs: want 1 to %d", all, maxCPUs)
	}
	threads, err := s.numbering(values["numbering"])
	if err != nil {
		return machine.Description{}, err
	}
	near, far := 0, 0
	if _, given := values["distances"]; given {
		pair, err := numbers(values["distances"])
		if err != nil || len(pair) != 2 {
			return machine.Description{}, fmt.Errorf("distances=%s: want two numbers, to itself and to the others", values["distances"])
		}
		near, far = pair[0], pair[1]
	}
	var d machine.Description
	for id := range nodes {
		n := machine.NodeDescription{ID: id}
		for k := range s.cores {
			core := machine.CoreDescription{Socket: id / s.numa, Uncore: machine.NoUncore, Threads: threads(id, k)}
			if s.uncore > 0 {
				core.Uncore = (id*s.cores + k) / s.uncore
			}
			n.Cores = append(n.Cores, core)
		}
		for other := range nodes {
			if near > 0 {
				n.Distances = append(n.Distances, far)
				if other == id {
					n.Distances[other] = near
				}
			}
		}
		if err := addMemory(&n, values["memory"], pages); err != nil {
			return d, err
		}
		d.Nodes = append(d.Nodes, n)
	}
	return d, nil
}

// numbering returns the thread ids of core k of NUMA node id.
func (s shape) numbering(name string) (func(id, k int) []int, error) {
	nodes := s.sockets * s.numa
	all := nodes * s.cores
	var first func(id, k int) int
	step := all
	switch name {
	case "", "interleaved":
		first = func(id, k int) int { return id*s.cores + k }
	case "round-robin":
		first = func(id, k int) int { return k*nodes + id }
	case "adjacent":
		first = func(id, k int) int { return (id*s.cores + k) * s.threads }
		step = 1
	default:
		return nil, fmt.Errorf("numbering=%s: want interleaved, adjacent or round-robin", name)
	}
	return func(id, k int) []int {
		threads := make([]int, s.threads)
		for t := range threads {
			threads[t] = first(id, k) + t*step
		}
		return threads
	}, nil
}

func setNumbers(values map[string]string, into map[string]*int) error {
	for _, key := range slices.Sorted(maps.Keys(into)) {
		text, given := values[key]
		if !given {
			continue
		}
		v, err := number(text, 1<<20)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		*into[key] = v
	}
	return nil
}

func numbers(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		v, err := number(part, 1<<20)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func number(text string, most int) (int, error) {
	v, err := strconv.Atoi(text)
	if err != nil || v < 0 || v > most {
		return 0, fmt.Errorf("%q: want a number from 0 to %d", text, most)
	}
	return v, nil
}

// describeMachine returns a line for each NUMA node. If there are many, those that have neither
// CPUs nor memory share a line, and distances are those between the others.
func describeMachine(m *machine.Machine) []string {
	lines := []string{fmt.Sprintf("%s, %s, %s, %s", count(len(m.Sockets()), "socket"), count(len(m.Nodes()), "NUMA node"),
		count(len(m.Cores()), "core"), count(len(m.CPUs()), "CPU"))}
	var empty mask.Mask
	for _, n := range m.Nodes() {
		if len(m.Nodes()) > fewNodes && n.CPUs.IsEmpty() && n.Memory == 0 {
			empty = empty.With(n.ID)
		}
	}
	var t table
	for _, n := range m.Nodes() {
		if empty.Has(n.ID) {
			continue
		}
		row := []string{fmt.Sprintf("node %d", n.ID), "CPUs " + orNone(n.CPUs.String()), "memory " + request.Bytes(n.Memory)}
		for _, p := range n.HugePages {
			row = append(row, fmt.Sprintf("%s %s", machine.HugePageType(p.SizeKiB), request.Bytes(p.Count*p.SizeKiB*1024)))
		}
		if m.HasDistances() {
			var far []string
			for other := range (m.NodeMask() &^ empty).All() {
				far = append(far, strconv.Itoa(m.Distance(n.ID, other)))
			}
			row = append(row, "distances "+strings.Join(far, ","))
		}
		t.add(row...)
	}
	lines = append(lines, t.lines()...)
	if !empty.IsEmpty() {
		lines = append(lines, fmt.Sprintf("nodes %s have neither CPUs nor memory", strings.Trim(empty.String(), "{}")))
	}
	if isolated := m.Isolation().Isolated; !isolated.IsEmpty() {
		lines = append(lines, fmt.Sprintf("isolated CPUs %s", isolated))
	}
	if c := m.Caches(); !c.IsEmpty() {
		lines = append(lines, fmt.Sprintf("L3 caches: %s of %d ways, %d classes, hardware uses %s, memory bandwidth from %d%% on",
			count(len(m.L3s()), "cache"), c.Ways, c.Classes, cache.Ways(c.HardwareWays), c.LeastBandwidth))
	}
	return lines
}

// parseCaches parses the value of the key caches.
func parseCaches(text string) (machine.Caches, error) {
	c := machine.Caches{Classes: 16, LeastWays: 1}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, ":")
		if name == "sparse" {
			c.Sparse = true
			continue
		}
		base := 10
		if name == "hardware" {
			base = 16
		}
		n, err := strconv.ParseUint(value, base, 32)
		if err != nil {
			return c, fmt.Errorf("caches=%s: %q is no number", text, part)
		}
		switch name {
		case "ways":
			c.Ways = int(n)
		case "classes":
			c.Classes = int(n)
		case "least":
			c.LeastWays = int(n)
		case "hardware":
			c.HardwareWays = uint32(n)
		case "mb":
			c.LeastBandwidth, c.BandwidthStep = int(n), int(n)
		default:
			return c, fmt.Errorf("caches=%s: want ways, classes, hardware, least, sparse and mb", text)
		}
	}
	return c, nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
