package inputs

import (
	"cmp"
	"time"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
)

// Policy is the policy of a node, with remarks for the user.
type Policy struct {
	node.Policy
	// Text describes the policy in one line.
	Text string
	// Warnings are about where the policy comes from, and about settings without effect or with a
	// surprising one. Each names the file, and the field if it is about one.
	Warnings []string
	// FlagsNote is a note for the case that a kubelet decides: flags can override its file. It is
	// empty if there are no such flags, or no file.
	FlagsNote string
	// Counted is true if the policy reserves a number of CPUs instead of naming them.
	Counted bool
	// Period is cpuManagerReconcilePeriod.
	Period time.Duration
	// Allocatable is what the Node has for the requests of its pods. Without a
	// KubeletConfiguration, the reserved CPUs and memory of the policy are subtracted.
	Allocatable kubeletcfg.Allocatable
}

// Policy returns the policy that a KubeletConfiguration means on a machine, on which CPUs may be
// offline. If name is empty, it returns kubeletcfg.Default. Quotas are as in the kubelet.
func (r Reader) Policy(name string, found *discover.Found) (Policy, error) {
	if name == "" {
		policy, text := kubeletcfg.Default(found.Machine)
		a := (&kubeletcfg.Config{}).Allocatable(found.Machine)
		a.Milli -= int64(policy.ReservedCPUs.Len()) * 1000
		for _, reserved := range policy.ReservedMemory {
			for name, bytes := range reserved {
				a.Memory[name] -= bytes
			}
		}
		return Policy{Policy: policy, Text: text, Counted: true, Period: (&kubeletcfg.Config{}).ReconcilePeriod(), Allocatable: a}, nil
	}
	config, err := r.KubeletConfig(name)
	if err != nil {
		return Policy{}, err
	}
	policy, err := config.ResolveOffline(found.Machine, found.Offline)
	if err != nil {
		return Policy{}, err
	}
	p := Policy{
		Policy: policy, Text: kubeletcfg.Describe(policy), Warnings: config.Notes(), FlagsNote: config.FlagsNote(),
		Counted: !config.NamesReserved(), Period: config.ReconcilePeriod(),
		Allocatable: config.Allocatable(found.Machine),
	}
	for _, w := range config.Warnings(found.Machine) {
		p.Warnings = append(p.Warnings, cmp.Or(w.File, config.Name())+": "+w.String())
	}
	return p, nil
}

// KubeletPolicy returns the policy that a kubelet's own configuration means on a machine, or nil if
// name is empty, with notes about where the configuration comes from. The error is a
// *kubeletcfg.RejectedError if that kubelet would not start with the configuration.
func (r Reader) KubeletPolicy(name string, m *machine.Machine) (*node.Policy, []string, error) {
	if name == "" {
		return nil, nil, nil
	}
	config, err := r.KubeletConfig(name)
	if err != nil {
		return nil, nil, err
	}
	policy, err := config.Resolve(m)
	if err != nil {
		return nil, nil, err
	}
	if more := config.KubeletRejects(m); len(more) > 0 {
		return nil, nil, &kubeletcfg.RejectedError{Name: config.Name(), Problems: more}
	}
	return &policy, config.Notes(), nil
}
