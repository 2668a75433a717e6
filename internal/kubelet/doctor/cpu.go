package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

func hasPools(f *kubeletstate.File) bool {
	return (f.CPU != nil && len(f.CPU.Pools) > 0) || (f.Memory != nil && len(f.Memory.Pools) > 0)
}

// assignment is the CPUs that one container has, or that a pod has as its pool.
type assignment struct {
	uid, container string // if container is empty, it is the pool of the pod
	cpus           cpuset.Set
}

func (h assignment) String() string {
	switch {
	case h.uid == "":
		return "container " + h.container
	case h.container == "":
		return "the pool of pod " + h.uid
	}
	return fmt.Sprintf("container %s of pod %s", h.container, h.uid)
}

// cpuLists is a CPU file with its lists parsed.
type cpuLists struct {
	policy  string
	shared  cpuset.Set
	entries []assignment // ascending by pod and container
	pools   []assignment // ascending by pod
}

// all returns the entries and the pools.
func (b *cpuLists) all() []assignment { return append(slices.Clone(b.entries), b.pools...) }

// readLists parses the lists. The error is the kubelet's own (R-ST-11).
func readLists(c *kubeletstate.CPU) (*cpuLists, error) {
	b := &cpuLists{policy: c.Policy}
	var err error
	if b.shared, err = cpuset.Parse(c.Default); err != nil {
		return nil, &listError{fmt.Sprintf("could not parse default cpu set %q", c.Default), c.Default, err}
	}
	add := func(uid, name, list string) error {
		set, err := cpuset.Parse(list)
		if err != nil {
			return &listError{fmt.Sprintf("could not parse cpuset %q for container %q in pod %q", list, name, uid), list, err}
		}
		b.entries = append(b.entries, assignment{uid, name, set})
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(c.ByID)) {
		if err := add("", id, c.ByID[id]); err != nil {
			return nil, err
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(c.Entries)) {
		for _, name := range slices.Sorted(maps.Keys(c.Entries[uid])) {
			if err := add(uid, name, c.Entries[uid][name]); err != nil {
				return nil, err
			}
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(c.Pools)) {
		b.pools = append(b.pools, assignment{uid: uid, cpus: c.Pools[uid]})
	}
	return b, nil
}

// listError is the error for a list of CPUs that does not parse. It has the kubelet's message and
// the error of our parser.
type listError struct {
	what, list string
	err        error
}

func (e *listError) Error() string {
	for element := range strings.SplitSeq(e.list, ",") {
		for part := range strings.SplitSeq(element, "-") {
			if _, err := strconv.Atoi(part); err != nil {
				return e.what + ": " + err.Error()
			}
		}
	}
	return e.what + ": " + e.err.Error()
}

func (e *listError) Unwrap() error { return e.err }

// cpus returns a text such as "CPU 3" or "CPUs 3-4". are returns the same with its verb.
func cpus(set cpuset.Set) string {
	if set.Len() == 1 {
		return "CPU " + set.String()
	}
	return "CPUs " + set.String()
}

func are(set cpuset.Set) string {
	if set.Len() == 1 {
		return cpus(set) + " is"
	}
	return cpus(set) + " are"
}

func union(list []assignment) cpuset.Set {
	var b cpuset.Builder
	for _, h := range list {
		b.AddSet(h.cpus)
	}
	return b.Set()
}

// has lists which of the assignments have any of the CPUs, as in "CPUs 3 assigned to …".
func has(list []assignment, cpus cpuset.Set) string {
	var parts []string
	for _, h := range list {
		if part := h.cpus.Intersection(cpus); !part.IsEmpty() {
			parts = append(parts, fmt.Sprintf("%s assigned to %s", part, h))
		}
	}
	return strings.Join(parts, ", ")
}

func (d *Diagnosis) verifyCPU(c *kubeletstate.CPU, s Setup) {
	if s.Policy != nil {
		want := "none"
		if s.Policy.StaticCPU {
			want = "static"
		}
		if !d.samePolicy(want, c.Policy, "", s) {
			return
		}
	}
	if len(c.ByID) > 0 {
		d.doubt("R-ST-32", fmt.Sprintf("it is of version V1, which names containers by id; the kubelet does not accept it unless the runtime has each of %s",
			strings.Join(slices.Sorted(maps.Keys(c.ByID)), ", ")), plain(`compare with "crictl ps -a"`))
	}
	b, err := readLists(c)
	if err != nil {
		d.fault("R-ST-11", d.restoring(err.Error()), "a list of CPUs is not one: "+errors.Unwrap(err).Error(), d.repair())
		return
	}
	if c.Policy != "static" {
		return
	}
	for _, h := range b.entries {
		if both := h.cpus.Intersection(b.shared); !both.IsEmpty() {
			d.fault("R-CPU-112", fmt.Sprintf("pod: %s, container: %s cpuset: %q overlaps with default cpuset %q", h.uid, h.container, h.cpus, b.shared),
				fmt.Sprintf("%s assigned to %s and in the node shared pool as well", are(both), h), d.repair())
		}
	}
	d.crossings(b)
	if b.shared.IsEmpty() && len(b.entries) > 0 {
		d.fault("R-CPU-110", "default cpuset cannot be empty",
			fmt.Sprintf("the node shared pool is empty: containers have %s, and the kubelet does not start on a node without shared CPUs", union(b.entries)),
			d.repair().after("delete a pod with CPUs of its own, and then "))
	}
	if s.Policy == nil || s.Machine == nil {
		d.doubt("R-CPU-111", "which CPUs are reserved and which there are is not known, so that leaked CPUs were not looked for",
			plain("name the kubelet's own configuration with --kubelet-config, and its machine with --machine"))
		return
	}
	if !b.shared.IsEmpty() || len(b.entries) > 0 {
		d.reserved(b, s)
		d.complete(b, s)
	}
}

// samePolicy implements R-ST-35.
func (d *Diagnosis) samePolicy(want, have, prefix string, s Setup) bool {
	if want == have {
		return true
	}
	why := fmt.Sprintf("the %s policy is %q in the configuration and was %q when the file was written", d.Manager, want, have)
	do := d.repair().after("set the policy back, or ")
	if have == "" { // There is no policy to set back, and nothing to repair.
		why, do = fmt.Sprintf("the %s policy is %q in the configuration, and the file has none", d.Manager, want), plain(drain)
	}
	d.foreign("R-ST-35", d.restoring(fmt.Sprintf("%sconfigured policy %q differs from state checkpoint policy %q", prefix, want, have)),
		fmt.Sprintf("%s (%s)", why, s.Kubelet), Foreign{Why: why}, do)
	return false
}

// reserved implements R-CPU-111.
func (d *Diagnosis) reserved(b *cpuLists, s Setup) {
	reserved := s.Policy.ReservedCPUs
	if !s.Policy.CPU.StrictReservation {
		missing := reserved.Difference(b.shared)
		if missing.IsEmpty() {
			return
		}
		who, do := has(b.all(), missing), d.repair()
		if who == "" {
			who = "no pod has them"
		}
		if union(b.entries).Intersects(missing) {
			do = do.after("reserve the CPUs that were reserved before; or delete these pods, and then ")
		}
		why := are(missing) + " reserved and not in the node shared pool"
		d.foreign("R-CPU-111", fmt.Sprintf("not all reserved cpus: %q are present in defaultCpuSet: %q", reserved, b.shared), why+": "+who, Foreign{Why: why}, do)
		return
	}
	if shared := reserved.Intersection(b.shared); !shared.IsEmpty() {
		why := are(shared) + " reserved strictly and in the node shared pool"
		d.foreign("R-CPU-111", fmt.Sprintf("some of strictly reserved cpus: %q are present in defaultCpuSet: %q", shared, b.shared),
			why+": strict-cpu-reservation or the reserved CPUs were changed", Foreign{Why: why}, d.repair())
	}
}

// complete implements R-CPU-113.
func (d *Diagnosis) complete(b *cpuLists, s Setup) {
	all := sharable(s)
	known := b.shared.Union(union(b.entries))
	if s.Kubelet.CountsPools() {
		known = known.Union(union(b.pools))
	}
	if known.Equal(all) {
		return
	}
	sentence := fmt.Sprintf("current set of available CPUs %q doesn't match with CPUs in state %q", all, known)
	if extra := known.Difference(all); !extra.IsEmpty() {
		d.extra(b, s, extra, sentence)
	}
	if leaked := all.Difference(known); !leaked.IsEmpty() {
		d.Leaked = leaked
		d.fault("R-CPU-113", sentence, fmt.Sprintf("%s leaked: neither in the node shared pool nor any container's%s", are(leaked), d.lost(b, s, leaked)), d.repair())
	}
}

// extra reports CPUs in the file that neither pods nor the node shared pool can have.
func (d *Diagnosis) extra(b *cpuLists, s Setup, extra cpuset.Set, sentence string) {
	who := has(b.all(), extra)
	switch shared := extra.Intersection(b.shared); {
	case who == "":
		who = " (in the node shared pool)"
	case shared.IsEmpty():
		who = " (" + who + ")"
	default:
		who = fmt.Sprintf(" (%s in the node shared pool, %s)", shared, who)
	}
	absent, reserved := extra.Difference(s.Machine.AllCPUs()), extra.Intersection(s.Machine.AllCPUs())
	if !absent.IsEmpty() {
		why := fmt.Sprintf("%s in the file and not on the machine, which has %s", are(absent), s.Machine.AllCPUs())
		d.foreign("R-CPU-113", sentence, why+who, Foreign{Why: why, Machine: true}, d.repair().after("bring them online if they are offline; else "))
	}
	if !reserved.IsEmpty() {
		why := are(reserved) + " reserved strictly and in use"
		d.foreign("R-CPU-113", sentence, why+who, Foreign{Why: why}, d.repair().after("reserve the CPUs that were reserved before; or delete these pods, and then "))
	}
}

// lost names the pods to which leaked CPUs belong, as far as the file shows: the pods of pools that
// this kubelet does not see.
func (d *Diagnosis) lost(b *cpuLists, s Setup, leaked cpuset.Set) string {
	pools := b.pools
	if d.File != nil && d.File.CPU != nil && len(pools) == 0 {
		if whole, err := readLists(d.File.CPU); err == nil {
			pools = whole.pools
		}
	}
	who := has(pools, leaked)
	switch {
	case who == "" && s.Kubelet.CountsPools() && s.firstPools(b, leaked) != "":
		return fmt.Sprintf("; most likely the first pool of %s: after a restart, a kubelet assigns a second one and does not release the first", s.firstPools(b, leaked))
	case who == "":
		return "; the file does not tell whose they were: most likely those of a pod that is gone"
	case s.Kubelet.CountsPools():
		return "; " + who
	}
	return fmt.Sprintf("; %s, and this kubelet (%s) does not count pools", who, s.Kubelet)
}

// firstPools names the pods of which leaked CPUs most likely are the first pools, or "".
func (s Setup) firstPools(b *cpuLists, leaked cpuset.Set) string {
	pools := make([]node.OwnPool, len(b.pools))
	for i, p := range b.pools {
		pools[i] = node.OwnPool{Pod: "pod " + p.uid, CPUs: p.cpus.Len()}
		if s.Name != nil {
			pools[i].Pod = s.Name(p.uid)
		}
	}
	return node.FirstPools(leaked.Len(), pools)
}

// crossings reports overlaps that the kubelet does not check.
func (d *Diagnosis) crossings(b *cpuLists) {
	for _, p := range b.pools {
		if both := p.cpus.Intersection(b.shared); !both.IsEmpty() {
			d.note("R-CPU-112", fmt.Sprintf("%s in %s and in the node shared pool; the kubelet does not notice", are(both), p), d.repair())
		}
	}
	byPod := byPod(b)
	uids := slices.Sorted(maps.Keys(byPod))
	for i, uid := range uids {
		for _, other := range uids[i+1:] {
			if both := byPod[uid].Intersection(byPod[other]); !both.IsEmpty() {
				d.note("R-CPU-112", fmt.Sprintf("%s assigned to pod %s and to pod %s; the kubelet does not notice, and neither has them alone", are(both), uid, other),
					plain("delete one of the two pods, so that it is created again"))
			}
		}
	}
}

// byPod returns all CPUs of each pod, by UID.
func byPod(b *cpuLists) map[string]cpuset.Set {
	sets := map[string]cpuset.Set{}
	for _, h := range b.all() {
		if h.uid != "" {
			sets[h.uid] = sets[h.uid].Union(h.cpus)
		}
	}
	return sets
}

// sharable returns the node shared pool of a node without pods (R-CPU-30).
func sharable(s Setup) cpuset.Set {
	if s.Policy.CPU.StrictReservation {
		return s.Machine.AllCPUs().Difference(s.Policy.ReservedCPUs)
	}
	return s.Machine.AllCPUs()
}
