package sim

import (
	"cmp"
	"fmt"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// Resources are the numbers of a cgroup. The zero value sets nothing.
type Resources struct {
	// CPUs and Mems are cpuset.cpus and cpuset.mems. If empty, they are not written.
	CPUs cpuset.Set
	Mems mask.Mask
	// Shares are the CPU shares of cgroup v1, in which a runtime gets them. If zero, they are not
	// written.
	Shares uint64
	// Quota is the CFS quota, and Period its period, in microseconds. A quota of 0 or less means no
	// quota.
	Quota  int64
	Period uint64
	// Memory is the limit in bytes. Zero means no limit.
	Memory int64
}

// setting returns the part that Paddock sets. A cgroup without a CFS quota has quota.None, as
// package cgroup reads it.
func (r Resources) setting() converge.Setting {
	limit := quota.None
	if r.Quota > 0 {
		limit = quota.In(r.Quota, int64(cmp.Or(r.Period, quota.Period)))
	}
	return converge.Setting{CPUs: r.CPUs, Mems: r.Mems, Quota: limit}
}

// with returns the resources with the part that Paddock sets replaced. quota.Keep keeps the
// quota.
func (r Resources) with(s converge.Setting) Resources {
	r.CPUs, r.Mems = s.CPUs, s.Mems
	if s.Quota != quota.Keep {
		r.Quota, r.Period = int64(s.Quota), quota.Period
	}
	return r
}

// parser parses a list of CPUs or of NUMA nodes.
type parser func(string) (cpuset.Set, error)

// mostSets limits the number of sets that interned keeps.
const mostSets = 64

// interned returns a parser for one goroutine at a time. The parser returns the same set for the
// same text, so that the many containers of a shared pool share one set in memory.
func interned() parser {
	sets := map[string]cpuset.Set{}
	return func(text string) (cpuset.Set, error) {
		if set, there := sets[text]; there {
			return set, nil
		}
		set, err := cpuset.Parse(text)
		if err != nil {
			return set, err
		}
		if len(sets) == mostSets {
			clear(sets)
		}
		sets[text] = set
		return set, nil
	}
}

// merge returns the resources with the fields that a message names changed. An empty cpuset means
// no change, as in every runtime.
func (r Resources) merge(m *api.LinuxResources, parse parser) (Resources, error) {
	cpu := m.GetCpu()
	cpus, err := parse(cpu.GetCpus())
	if err != nil {
		return r, fmt.Errorf("cpuset.cpus: %w", err)
	}
	mems, err := parse(cpu.GetMems())
	if err != nil {
		return r, fmt.Errorf("cpuset.mems: %w", err)
	}
	if mems.Highest() > mask.MaxNode {
		return r, fmt.Errorf("cpuset.mems: %s: the kernel has no NUMA node above %d", mems, mask.MaxNode)
	}
	if !cpus.IsEmpty() {
		r.CPUs = cpus
	}
	if !mems.IsEmpty() {
		r.Mems = mask.Of(mems.IDs()...)
	}
	if cpu.GetShares() != nil {
		r.Shares = cpu.GetShares().GetValue()
	}
	if quota := cpu.GetQuota().GetValue(); quota != 0 {
		r.Quota = quota
	}
	if period := cpu.GetPeriod().GetValue(); period != 0 {
		r.Period = period
	}
	if limit := m.GetMemory().GetLimit(); limit != nil {
		r.Memory = limit.GetValue()
	}
	return r, nil
}

// message returns the numbers as a runtime shows them.
func (r Resources) message() *api.LinuxResources {
	cpu := &api.LinuxCPU{Cpus: r.CPUs.String(), Mems: r.Mems.List()}
	if r.Shares != 0 {
		cpu.Shares = api.UInt64(r.Shares)
	}
	if r.Quota != 0 {
		cpu.Quota = api.Int64(r.Quota)
	}
	if r.Period != 0 {
		cpu.Period = api.UInt64(r.Period)
	}
	m := &api.LinuxResources{Cpu: cpu, Memory: &api.LinuxMemory{}}
	if r.Memory != 0 {
		m.Memory.Limit = api.Int64(r.Memory)
	}
	return m
}
