package doctor

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// verifyMemory implements R-MEM-70 to R-MEM-72.
func (d *Diagnosis) verifyMemory(m *kubeletstate.Memory, s Setup) {
	if s.Policy != nil {
		want := "None"
		if s.Policy.StaticMemory {
			want = "Static"
		}
		if !d.samePolicy(want, m.Policy, "[memorymanager] ", s) {
			return
		}
	}
	if m.Policy != "Static" {
		return
	}
	if len(m.Nodes) == 0 {
		if len(m.Entries) > 0 {
			d.fault("R-MEM-70", "[memorymanager] machine state can not be empty when it has memory assignments",
				"the file has memory of pods and no NUMA node", d.repair())
		}
		return
	}
	if s.Policy == nil || s.Machine == nil {
		d.doubt("R-MEM-72", "what is reserved and what the machine has is not known, so the memory accounting was not compared with it",
			plain("name the kubelet's own configuration with --kubelet-config, and its machine with --machine"))
		return
	}
	capacity, err := memory.NewCapacity(s.Machine, s.Policy.ReservedMemory)
	if err != nil {
		d.doubt("R-MEM-11", err.Error(), plain("correct reservedMemory"))
		return
	}
	want := newAccounting(capacity)
	why := accounting(m.Nodes).foreign(want)
	d.SameMemory = accounting(m.Nodes).sameMemory(want)
	if err := want.chargeAll(m, s.Kubelet.CountsPools()); err != nil {
		d.foreign("R-MEM-71", err.Error(), "a pod has memory that this machine does not have: "+strings.TrimPrefix(err.Error(), "[memorymanager] "),
			why, d.repair().after("if the machine was changed for good: "))
		return
	}
	lines := accounting(m.Nodes).differences(want)
	if len(lines) == 0 {
		return
	}
	what := node.Why{Text: "the memory accounting differs from what the machine and the pods' entries make: " + strings.Join(lines, "; "), Rule: "R-MEM-72"}
	what = what.And(d.pooled(m, s))
	d.foreign(what.Rule, "[memorymanager] the expected machine state is different from the real one", what.Text, why, d.repair())
}

// pooled returns another possible cause. The zero value means that there is none.
func (d *Diagnosis) pooled(m *kubeletstate.Memory, s Setup) node.Why {
	var lone []string
	for uid := range m.Pools {
		if len(m.Entries[uid]) == 0 {
			lone = append(lone, uid)
		}
	}
	// Check whether the accounting has more assignments than the entries of the pods.
	overcounted, want := false, accounting(m.Nodes).emptied()
	if want.chargeAll(m, true) == nil {
		for id, n := range m.Nodes {
			overcounted = overcounted || n != nil && n.Assignments > want[id].Assignments
		}
	}
	switch {
	case len(lone) > 0:
		return node.Why{Text: fmt.Sprintf("%d pods have a pool and no container, which the kubelet does not count", len(lone)), Rule: "R-MEM-74"}
	case s.Kubelet.CountsPools() && len(m.Pools) > 0 && overcounted:
		return node.Why{Text: fmt.Sprintf("a kubelet 1.%d that restarts counts the pools of its pods once more (kubernetes#140989)", s.Kubelet.Minor)}
	case !s.Kubelet.CountsPools() && d.File != nil && hasPools(d.File):
		return node.Why{Text: fmt.Sprintf("the file has pools of pods, which this kubelet (%s) does not count", s.Kubelet)}
	}
	return node.Why{}
}
