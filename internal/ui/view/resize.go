package view

import (
	"cmp"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
)

// PlanResize describes what a pod had before it was resized, and the CPUs with which it was
// admitted.
type PlanResize struct {
	// PoolBefore has the CPUs and PoolMemoryBefore the memory of a pod-level pod.
	PoolBefore       string      `json:"poolCPUsBefore,omitempty"`
	PoolMemoryBefore []PlanBlock `json:"poolMemoryBefore,omitempty"`
	PoolCacheBefore  []Share     `json:"poolCacheBefore,omitempty"`
	// PoolBaseline and the baselines of the containers are CPUs that no resize takes away.
	PoolBaseline string        `json:"poolBaselineCPUs,omitempty"`
	Containers   []PlanResized `json:"containers"`
}

// PlanResized describes what one container had before.
type PlanResized struct {
	Name     string      `json:"name"`
	CPUs     string      `json:"cpusBefore,omitempty"`
	Memory   []PlanBlock `json:"memoryBefore,omitempty"`
	Cache    []Share     `json:"cacheBefore,omitempty"`
	Baseline string      `json:"baselineCPUs,omitempty"`
}

func resizeOf(old, now *node.Grant) *PlanResize {
	r := &PlanResize{PoolBefore: old.Pool.String(), PoolMemoryBefore: BlocksOf(old.PoolMemory), PoolBaseline: now.BaselineOfPool().String(), PoolCacheBefore: SharesOf(old.PoolCache)}
	for i := range old.Containers {
		r.Containers = append(r.Containers, PlanResized{
			Name: old.Pod.Containers[i].Name, CPUs: old.Containers[i].CPUs.String(), Memory: BlocksOf(old.Containers[i].Memory), Cache: SharesOf(old.Containers[i].Cache),
			Baseline: now.BaselineOf(i).String(),
		})
	}
	return r
}

// resized returns the number of pods that are resized.
func (p Plan) resized() (n int) {
	for _, pod := range p.Pods {
		if pod.Resize != nil {
			n++
		}
	}
	return n
}

// resizeText formats one sentence for the pool and one for each container, if something changes for
// it.
func (p PlanPod) resizeText(style terminal.Style) string {
	text := ""
	line := func(who string, change string) {
		if change != "" {
			text += style.Paragraph("", "  ", terminal.Good.Of("resized"), terminal.Strong.Of(p.Pod+who+":"), terminal.Plain.Of(change))
		}
	}
	line("", changeText(p.Resize.PoolBefore, p.Pool, p.Resize.PoolMemoryBefore, p.PoolMemory, p.Resize.PoolCacheBefore, p.PoolCache))
	for i, c := range p.Containers {
		was := p.Resize.Containers[i]
		line("/"+c.Name, changeText(was.CPUs, c.CPUs, was.Memory, c.Memory, was.Cache, c.Cache))
	}
	if text == "" { // Only unpinned resources change: shared CPUs and quotas.
		return style.Paragraph("", "  ", terminal.Good.Of("resized"), terminal.Strong.Of(p.Pod+":"), terminal.Plain.Of("its CPUs and NUMA nodes stay as they are"))
	}
	return text
}

// changeText describes how CPUs, memory and the part of the caches change: "gets CPUs 3,11; memory
// 2 GiB, then 4 GiB".
func changeText(was, now string, blocksBefore, blocks []PlanBlock, sharesBefore, shares []Share) string {
	a, errA := cpuset.Parse(was)
	b, errB := cpuset.Parse(now)
	text := ""
	add := func(part string) {
		if text != "" {
			text += "; "
		}
		text += part
	}
	if errA == nil && errB == nil && !a.Equal(b) {
		if more := b.Difference(a); !more.IsEmpty() {
			add("gets CPUs " + CPUs(more))
		}
		if less := a.Difference(b); !less.IsEmpty() {
			add("gives back CPUs " + CPUs(less))
		}
	}
	if from, to := blocksText(blocksBefore), blocksText(blocks); from != to {
		add("memory " + from + ", then " + to)
	}
	if from, to := placesText(blocksBefore), placesText(blocks); from != to {
		add("memory on NUMA nodes " + from + ", then " + to)
	}
	if from, to := SharesText(sharesBefore), SharesText(shares); from != to {
		add(cmp.Or(from, "nothing of the caches") + ", then " + cmp.Or(to, "nothing of the caches"))
	}
	return text
}

// placesText returns the NUMA nodes of blocks. All blocks of one container are on the same NUMA
// nodes.
func placesText(blocks []PlanBlock) string {
	if len(blocks) == 0 {
		return "none"
	}
	return nodeList(blocks[0].NUMANodes)
}
