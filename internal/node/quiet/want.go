package quiet

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Machine is what a decision needs of the machine.
type Machine struct {
	Online cpuset.Set
	// Partitions are the CPUs of isolated partitions, in cpuset.cpus.isolated of the root.
	Partitions cpuset.Set
	// Boot are the CPUs of the boot parameters isolcpus and nohz_full.
	Boot cpuset.Set
	// Siblings has the threads of the core of each CPU.
	Siblings map[int]cpuset.Set
	// Frequencies has the CPUs of each frequency policy.
	Frequencies map[string]cpuset.Set
}

// Wanted is what a file must contain.
type Wanted struct {
	// Value is in the form of Kind.Value.
	Value string
	// For are the containers for which it differs from the base.
	For []string
}

// Problem is a wish or a setting that cannot be carried out.
type Problem struct {
	// Container is the container that asked, in the form of Container.ID, or empty.
	Container string `json:"container,omitempty"`
	// Annotation is the annotation of the wish, or empty.
	Annotation string `json:"annotation,omitempty"`
	// File is the file that is concerned, or empty.
	File string `json:"file,omitempty"`
	// Text is the whole message.
	Text string `json:"text"`
}

// Want returns what each file of base must contain, and what cannot be had. base has the value of
// each file that is there, as it would be without Paddock. caches is nil if it is not known which
// classes containers have, or if the classes are to be given back.
func Want(m *Machine, containers []Container, caches *Caches, p *Policy, base map[string]string) (map[string]Wanted, []Problem) {
	w := wanting{machine: m, policy: p, base: base, wanted: map[string]Wanted{}}
	for i := range containers {
		w.add(&containers[i])
	}
	w.classes(caches)
	for _, name := range slices.Sorted(maps.Keys(base)) {
		if _, done := w.wanted[name]; !done {
			w.wanted[name] = w.of(name)
		}
	}
	return w.wanted, w.problems
}

// part are the CPUs that one container keeps free of something.
type part struct {
	container string
	cpus      cpuset.Set
}

// wanting is one invocation of Want.
type wanting struct {
	machine  *Machine
	policy   *Policy
	base     map[string]string
	wanted   map[string]Wanted
	problems []Problem

	interrupts, workqueues, queues []part
	// exclusive has the parts of each cgroup and of those above it.
	exclusive map[string][]part
}

func (w *wanting) problem(c *Container, annotation, file, format string, args ...any) {
	w.problems = append(w.problems, Problem{Container: c.ID(), Annotation: annotation, File: file, Text: "container " + c.ID() + ": " + fmt.Sprintf(format, args...)})
}

// add adds what a container gets.
func (w *wanting) add(c *Container) {
	asked, wrong := c.asked()
	if asked != (wishes{}) && !w.policy.allows(c) {
		w.notAllowed(c)
		asked, wrong = wishes{}, nil
	}
	w.problems = append(w.problems, wrong...)
	if asked != (wishes{}) && c.Assigned.IsEmpty() {
		w.problem(c, "", "", "it asks for quiet CPUs and has no exclusive ones: only a container with whole CPUs of a Guaranteed pod has")
		return
	}
	w.off(c, asked)
	g := w.policy.of(c, asked)
	cpus := c.all()
	keep := func(to *[]part, does bool) {
		if does {
			*to = append(*to, part{c.ID(), cpus})
		}
	}
	keep(&w.workqueues, g.workqueues)
	keep(&w.queues, g.queues)
	if g.housekeeping {
		cpus = cpus.Difference(w.core(cpus.Lowest()))
	}
	keep(&w.interrupts, g.interrupts)
	if g.partition {
		w.partition(c)
	}
	if g.latency != "" {
		for cpu := range c.all().All() {
			w.set(c, AskCStates, LatencyFile(cpu), g.latency)
		}
	}
	w.frequency(c, &g)
}

// core returns the threads of a CPU's core.
func (w *wanting) core(cpu int) cpuset.Set {
	return w.machine.Siblings[cpu].Union(cpuset.Of(cpu))
}

// notAllowed notes the first annotation of a container that may not ask.
func (w *wanting) notAllowed(c *Container) {
	for _, name := range []string{AskInterrupts, AskBalancing, AskCStates, AskGovernor, AskFrequency} {
		if key, value := c.wish(name); value != "" {
			w.problem(c, key, "", "annotation %s: its pod may not ask for it: expected the namespace %s in quiet.allow.namespaces, or the runtime class %q in quiet.allow.runtimeClasses",
				key, c.Namespace, c.RuntimeClass)
			return
		}
	}
}

// off notes wishes for settings that the node does not make.
func (w *wanting) off(c *Container, asked wishes) {
	for _, f := range []struct {
		asked       bool
		scope       Scope
		name, field string
	}{
		{asked.interrupts == quieter, w.policy.Interrupts, AskInterrupts, "interrupts"},
		{asked.partition == quieter, w.policy.Partition, AskBalancing, "partition"},
		{asked.latency != "", w.policy.CStates, AskCStates, "cStates"},
		{asked.governor != "", w.policy.Frequency, AskGovernor, "frequency"},
		{asked.min != "", w.policy.Frequency, AskFrequency, "frequency"},
	} {
		if f.asked && f.scope == Off {
			key, _ := c.wish(f.name)
			w.problem(c, key, "", "annotation %s: this node does not do that: quiet.%s is off", key, f.field)
		}
	}
}

// set wants a value in a file for a container. The first container wins.
func (w *wanting) set(c *Container, annotation, file, value string) {
	before, there := w.base[file]
	already, taken := w.wanted[file]
	switch {
	case !there:
		w.problem(c, annotation, file, "%s: there is no such file: this kernel or this machine does not have the setting", file)
	case taken && already.Value != value:
		w.problem(c, annotation, file, "%s: %s is wanted, and %s already for %s: the file is for CPUs of both", file, value, already.Value, strings.Join(already.For, ", "))
	case taken:
		already.For = append(already.For, c.ID())
		w.wanted[file] = already
	case before != value:
		w.wanted[file] = Wanted{value, []string{c.ID()}}
	}
}

// frequency wants the governor and the frequencies of the policies that have CPUs of a container.
func (w *wanting) frequency(c *Container, g *gets) {
	if g.governor == "" && g.min == "" {
		return
	}
	found := false
	for _, name := range slices.Sorted(maps.Keys(w.machine.Frequencies)) {
		if !w.machine.Frequencies[name].Intersects(c.Assigned) {
			continue
		}
		found = true
		for _, s := range []struct {
			annotation string
			kind       Kind
			value      string
		}{{AskGovernor, Governor, g.governor}, {AskFrequency, MinFrequency, g.min}, {AskFrequency, MaxFrequency, g.max}} {
			if s.value != "" {
				w.set(c, s.annotation, FrequencyFile(name, s.kind), s.value)
			}
		}
	}
	if !found {
		w.problem(c, cmp.Or(map[bool]string{true: AskGovernor}[g.governor != ""], AskFrequency), "",
			"there is no frequency policy for CPUs %s: the hardware or the hypervisor decides about frequencies", c.Assigned)
	}
}

// partition wants an isolated partition for a container. A cgroup gets exactly the CPUs that the
// runtime has written, so that a partition never keeps a container where it no longer belongs.
func (w *wanting) partition(c *Container) {
	switch _, has := w.base[ExclusiveFile(c.Cgroup)]; {
	case c.Cgroup == "" || c.Runs.IsEmpty():
		return // It does not run yet, or no longer.
	case !has:
		w.problem(c, AskBalancing, ExclusiveFile(c.Cgroup), "an isolated partition is not available: it needs cgroup v2 and Linux 6.7, for cpuset.cpus.exclusive")
		return
	}
	taken := cpuset.Set{}
	for _, p := range w.exclusive["/"] {
		taken = taken.Union(p.cpus)
	}
	switch {
	case c.Runs.Intersects(taken):
		w.problem(c, AskBalancing, PartitionFile(c.Cgroup), "no isolated partition: another one has some of its CPUs %s", c.Runs)
		return
	case taken.Union(c.Runs).Contains(w.machine.Online):
		w.problem(c, AskBalancing, PartitionFile(c.Cgroup), "no isolated partition: no online CPU would be left for everything else")
		return
	}
	if w.exclusive == nil {
		w.exclusive = map[string][]part{}
	}
	for group := c.Cgroup; ; group = path.Dir(group) {
		w.exclusive[group] = append(w.exclusive[group], part{c.ID(), c.Runs})
		if group == "/" {
			break
		}
	}
	w.wanted[PartitionFile(c.Cgroup)] = Wanted{"isolated", []string{c.ID()}}
}

// of returns what a file must contain that no container has a value for.
func (w *wanting) of(name string) Wanted {
	base := w.base[name]
	switch KindOf(name) {
	case Interrupt, NewInterrupts:
		return w.without(base, w.interrupts)
	case Workqueues:
		return w.without(base, w.workqueues)
	case Queue, NewQueues:
		return w.without(base, w.queues)
	case Balancer:
		return w.banned(base)
	case ExclusiveCPUs:
		group := "/" + strings.TrimPrefix(path.Dir(name), Cgroups+"/")
		return with(base, w.exclusive[group])
	case Partition, Latency, Governor, MinFrequency, MaxFrequency, DefaultClass, CacheClass:
	}
	return Wanted{Value: base}
}

// without returns a set without the CPUs of the containers that it intersects. If no online CPU is
// left, it returns those that are in no part, and of these the ones that are not isolated at boot,
// if there are any. An empty set stays empty: it turns RPS off.
func (w *wanting) without(base string, parts []part) Wanted {
	before := setOf(base)
	var all cpuset.Builder
	var of []string
	for _, p := range parts {
		all.AddSet(p.cpus)
		if before.Intersects(p.cpus) {
			of = append(of, p.container)
		}
	}
	if len(of) == 0 {
		return Wanted{Value: base}
	}
	quiet := all.Set()
	left := before.Difference(quiet)
	if !left.Intersects(w.machine.Online) {
		others := w.machine.Online.Difference(quiet)
		if left = others.Difference(w.machine.Boot); left.IsEmpty() {
			left = others
		}
	}
	if left.IsEmpty() {
		w.note(fmt.Sprintf("no online CPU is left for interrupts, workqueues and receive queues: CPUs %s are online, and all are exclusive", w.machine.Online))
		return Wanted{Value: base}
	}
	return Wanted{left.String(), of}
}

// note adds a problem of the node once.
func (w *wanting) note(text string) {
	if !slices.Contains(w.problems, Problem{Text: text}) {
		w.problems = append(w.problems, Problem{Text: text})
	}
}

// with returns a set with the CPUs of the containers.
func with(base string, parts []part) Wanted {
	if len(parts) == 0 {
		return Wanted{Value: base}
	}
	all := cpuset.BuilderOf(setOf(base), nil)
	var of []string
	for _, p := range parts {
		all.AddSet(p.cpus)
		of = append(of, p.container)
	}
	return Wanted{all.Set().String(), of}
}

// banned returns the ban list of irqbalance. Without a list, irqbalance bans the CPUs of isolcpus
// and nohz_full; a list replaces these (irqbalance, cputree.c, setup_banned_cpus). As without, it
// leaves the list as it is if it would have all online CPUs.
func (w *wanting) banned(base string) Wanted {
	if !w.policy.Irqbalance || len(w.interrupts) == 0 {
		return Wanted{Value: base}
	}
	if base == "" {
		base = w.machine.Boot.String()
	}
	if list := with(base, w.interrupts); !setOf(list.Value).Contains(w.machine.Online) {
		return list
	}
	w.note(fmt.Sprintf("irqbalance gets no ban list: CPUs %s are online, and all are exclusive, isolated, or banned already", w.machine.Online))
	return Wanted{Value: w.base[BalancerFile]}
}
