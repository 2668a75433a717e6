package plugin

import (
	"fmt"
	"strings"
	"sync"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// reasons has the messages of a cycle. Thousands of nodes give the same reason, and the scheduler
// counts equal messages: "0/5 nodes are available: 3 node(s): 48 CPUs do not fit on one NUMA node,
// 2 node(s): …".
type reasons struct {
	mu   sync.Mutex
	text map[reason]string
}

// reason has everything that the message for one pod depends on.
type reason struct {
	fleet.Why
	wanted   int64
	topology node.TopologyPolicy
	// isolated is true if only isolated CPUs become exclusive on the node, and the pod has no pool
	// with CPUs of both kinds (R-CPU-135).
	isolated bool
}

// of returns the message for an answer that rejects the pod.
func (r *reasons) of(a *fleet.Answer, pod *request.Pod, policy node.Policy) string {
	why := reason{a.Why, a.Wanted, policy.Topology, policy.CPU.Isolated == cpu.IsolatedOnly && (pod.BudgetCPUs == 0 || pod.SharesIsolated)}
	r.mu.Lock()
	defer r.mu.Unlock()
	text, known := r.text[why]
	if !known {
		text = "node(s): " + why.sentence(pod)
		if r.text == nil {
			r.text = map[reason]string{}
		}
		r.text[why] = text
	}
	return text
}

// hopeless reports whether a cause remains regardless of which pods on the node end.
func hopeless(c rejection.Cause) bool {
	switch c {
	case rejection.ResourcesOff, rejection.ContainersAboveBound, rejection.PoolEmpty, rejection.PoolNotAligned, rejection.PoolOverdrawn, rejection.PartialCores, rejection.NoMemoryType,
		rejection.CacheUnclear:
		return true
	default:
		return false
	}
}

// sentence returns why a node does not take a pod. It does not name the node, because the scheduler
// puts it behind a number of nodes.
func (r reason) sentence(pod *request.Pod) string {
	what, do, are := r.amount(), "do", "are"
	if what == "" {
		what = r.everything(pod)
	}
	if strings.HasPrefix(what, "1 ") && !strings.Contains(what, " and ") {
		do, are = "does", "is"
	}
	switch r.Cause {
	case rejection.NotAligned:
		if r.topology == node.TopologySingleNUMANode {
			return what + " " + do + " not fit on one NUMA node"
		}
		// Each of them may fit alone, on a different number of NUMA nodes than the others.
		return r.everything(pod) + " do not fit on the fewest NUMA nodes"
	case rejection.GivenApart:
		return "the devices of the pod are near more NUMA nodes than policy " + r.topology.String() + " admits"
	case rejection.GivenElsewhere:
		return what + " " + do + " not fit on the NUMA nodes of the pod's devices"
	case rejection.TooFewCPUs:
		return "fewer than " + what + " can become exclusive"
	case rejection.TooFewCores:
		return what + " need more free cores than there are"
	case rejection.PartialCores:
		return what + " " + are + " no whole number of cores, and the policy wants whole cores"
	case rejection.NoMemoryType:
		return "the machine has no " + r.Resource
	case rejection.NoMemoryRoom, rejection.TooFewDevices:
		return what + " " + are + " not free"
	case rejection.MemoryNotThere, rejection.MemoryNotTogether:
		return what + " " + are + " not free on the NUMA nodes of the pod"
	case rejection.MemoryGroups:
		return what + " are free only on NUMA nodes that serve other groups of memory"
	case rejection.MemoryOutside:
		return what + " do not fit on the NUMA nodes of the CPUs"
	case rejection.NoCache:
		return what + " " + are + " not free in the caches of the free CPUs, or no class of the caches is free"
	case rejection.CacheUnclear:
		return "the pod cannot have the part of the caches that its annotations ask for"
	case rejection.PoolEmpty, rejection.PoolNotAligned, rejection.PoolOverdrawn:
		return "the containers of the pod do not fit into its pod-level " + r.Resource
	case rejection.ResourcesOff:
		return "pod-level resources are off"
	case rejection.ContainersAboveBound:
		return "the pod has more containers than maxContainersPerPod"
	default:
		return string(r.Reason)
	}
}

// amount returns the amount that was short. It is empty if the reason is not about a single amount.
func (r reason) amount() string {
	switch {
	case r.Resource == "" || r.wanted == 0:
		return ""
	case r.Resource == request.CPU:
		return r.cpus(r.wanted)
	case request.IsMemory(r.Resource):
		return request.Bytes(r.wanted) + " of " + r.Resource
	case request.IsCache(r.Resource):
		return request.Words(r.Resource, r.wanted)
	}
	return fmt.Sprintf("%d %s", r.wanted, r.Resource)
}

func (r reason) cpus(n int64) string {
	text := request.Words(request.CPU, n)
	if r.isolated {
		text = strings.Replace(text, " ", " isolated ", 1)
	}
	return text
}

// everything returns all resources that a pod requests.
func (r reason) everything(pod *request.Pod) string {
	whole, memory := pod.BudgetCPUs, pod.BudgetMemory
	if whole == 0 && len(memory) == 0 {
		for i := range pod.Containers {
			c := &pod.Containers[i]
			if c.Type == request.Init {
				continue
			}
			whole += c.CPUs
			memory = memory.Plus(c.Memory)
		}
	}
	var parts []string
	if whole > 0 {
		parts = append(parts, r.cpus(int64(whole)))
	}
	for _, m := range memory {
		if m.Value > 0 {
			parts = append(parts, request.Bytes(m.Value)+" of "+m.Resource)
		}
	}
	if len(parts) == 0 {
		return "the requests of the pod"
	}
	return strings.Join(parts, " and ")
}
