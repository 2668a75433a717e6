package record

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// describe adds the state to an answer, and what follows from the state for every active pod.
func (k *kubelet) describe(a *answer) {
	if k.live && a.Op == "reconcile" { // It gives nothing to a pod, and happens all the time.
		return
	}
	a.view = k.view()
	if k.live {
		return
	}
	a.Checkpoints = k.checkpoints()
	a.Exclusive = map[string]map[string]bool{}
	a.Isolation = map[string]map[string]isolation{}
	a.PodQuotaDisabled = map[string]bool{}
	liftsQuota := Enabled("DisableCPUQuotaWithExclusiveCPUs")
	for _, uid := range k.active {
		pod := k.pods[uid]
		a.Exclusive[uid], a.Isolation[uid] = map[string]bool{}, map[string]isolation{}
		for _, c := range containers(pod) {
			a.Exclusive[uid][c.Name] = k.exclusive(pod, c)
			a.Isolation[uid][c.Name] = isolation{k.managers.Isolation(pod, c), liftsQuota && k.hasOwnCPUs(pod, c)}
		}
		a.PodQuotaDisabled[uid] = liftsQuota && k.podHasOwnCPUs(pod)
	}
}

func (k *kubelet) exclusive(pod *v1.Pod, c *v1.Container) bool {
	cpus := k.managers.ExclusiveCPUs(string(pod.UID), c.Name)
	return !cpus.IsEmpty()
}

// hasOwnCPUs and podHasOwnCPUs decide about the CFS quota. The kubelet uses methods that are not
// exported: with pod-level managers they decide by the isolation level, and without by the CPUs
// alone (docs/rules/state.md).
func (k *kubelet) hasOwnCPUs(pod *v1.Pod, c *v1.Container) bool {
	if !Enabled("PodLevelResourceManagers") {
		return k.exclusive(pod, c)
	}
	return k.managers.Isolation(pod, c) == "container"
}

func (k *kubelet) podHasOwnCPUs(pod *v1.Pod) bool {
	all := containers(pod)
	if Enabled("PodLevelResourceManagers") && resourcehelper.IsPodLevelResourcesSet(pod) {
		return !slices.ContainsFunc(all, func(c *v1.Container) bool { return !k.hasOwnCPUs(pod, c) })
	}
	return slices.ContainsFunc(all, func(c *v1.Container) bool { return k.exclusive(pod, c) })
}

func (k *kubelet) view() view { return view{k.cpuView(), k.memoryView(), k.deviceView()} }

func (k *kubelet) cpuView() *cpuView {
	shared, containers, pools := k.managers.CPUs()
	v := &cpuView{Default: shared.String(), Entries: map[string]map[string]string{}, PodEntries: map[string]string{}}
	for uid, of := range containers {
		v.Entries[uid] = map[string]string{}
		for name, cpus := range of {
			v.Entries[uid][name] = cpus.String()
		}
	}
	for uid, pool := range pools {
		v.PodEntries[uid] = pool.String()
	}
	return v
}

func (k *kubelet) memoryView() *memoryView {
	numa, containers, pools := k.managers.Memory()
	v := &memoryView{Entries: map[string]map[string][]block{}, PodEntries: map[string][]block{}, MachineState: map[string]nodeView{}}
	for uid, of := range containers {
		v.Entries[uid] = map[string][]block{}
		for name, assigned := range of {
			v.Entries[uid][name] = blocks(assigned)
		}
	}
	for uid, pool := range pools {
		v.PodEntries[uid] = blocks(pool)
	}
	for id, n := range numa {
		types := map[string]memoryType{}
		for name, t := range n.MemoryMap {
			types[string(name)] = memoryType{t.TotalMemSize, t.SystemReserved, t.Allocatable, t.Reserved, t.Free}
		}
		v.MachineState[strconv.Itoa(id)] = nodeView{n.NumberOfAssignments, slices.Clone(n.Cells), types}
	}
	return v
}

// blocks sorts blocks by type, because their order in the state is random.
func blocks(assigned []state.Block) []block {
	sorted := []block{}
	for _, b := range assigned {
		sorted = append(sorted, block{string(b.Type), b.Size, slices.Clone(b.NUMAAffinity)})
	}
	slices.SortStableFunc(sorted, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Size, b.Size))
	})
	return sorted
}

func affinityOf(hint topologymanager.TopologyHint) affinity {
	a := affinity{Preferred: hint.Preferred}
	if hint.NUMANodeAffinity != nil {
		// An empty mask is not the same as none.
		a.NUMA = append([]int{}, hint.NUMANodeAffinity.GetBits()...)
	}
	return a
}

// stateFiles are the files that the CPU and Memory Managers keep in the kubelet's directory.
var stateFiles = []string{"cpu_manager_state", "memory_manager_state"}

func (k *kubelet) checkpoints() map[string]string {
	texts := map[string]string{}
	for _, name := range stateFiles {
		if text, err := os.ReadFile(filepath.Join(k.dir, name)); err == nil {
			texts[name] = string(text)
		}
	}
	if text, err := os.ReadFile(filepath.Join(k.dir, devicePlugins, deviceFile)); err == nil {
		texts[deviceFile] = string(text)
	}
	return texts
}

// The device manager has its file in a directory of its own.
const (
	devicePlugins = "device-plugins"
	deviceFile    = "kubelet_internal_checkpoint"
)
