package predict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/spec"
)

// PolicySpec is how a node decides, with the names and values of the KubeletConfiguration. The zero
// value is a kubelet's default, under which no pod gets CPUs or memory of its own.
type PolicySpec struct {
	// DecidedBy is who decides on the node. Empty means Paddock. Otherwise it is a kubelet, as
	// "kubelet-1.36", which is the newest recorded patch of that minor, or the kubeletVersion of a
	// Node, such as "v1.36.2+k3s1". Kubelets lists the recorded ones.
	DecidedBy string
	// RulesDigest is the digest of the rules of DecidedBy that the agent of a node publishes in its
	// PaddockNode. It is empty if no agent does. With a digest, a kubelet that is not recorded is
	// not an error: the rules are those of Paddock, and every verdict has the doubt.
	RulesDigest string
	// TopologyManagerPolicy is none, best-effort, restricted or single-numa-node. Empty means none.
	TopologyManagerPolicy string
	// TopologyManagerScope is container or pod. Empty means container.
	TopologyManagerScope string
	// TopologyManagerPolicyOptions are the names of the options that are on:
	// prefer-closest-numa-nodes. The option max-allowable-numa-nodes decides nothing.
	TopologyManagerPolicyOptions []string
	// CPUManagerPolicy is none or static. Empty means none.
	CPUManagerPolicy string
	// CPUManagerPolicyOptions are the names of the options that are on, such as full-pcpus-only.
	CPUManagerPolicyOptions []string
	// ReservedCPUs are the CPUs that are kept for the system, as a list such as "0,64".
	// ReservedCPUCount is their number if they are not named; the kubelet then chooses them. The
	// CPU policy static needs one of the two.
	ReservedCPUs     string
	ReservedCPUCount int
	// IsolatedCPUs is Paddock's option isolated-cpus: only, prefer or empty.
	IsolatedCPUs string
	// MemoryManagerPolicy is None or Static. Empty means None.
	MemoryManagerPolicy string
	// ReservedMemory is the memory that is kept for the system, in bytes, by NUMA node and
	// resource. The memory policy Static needs it.
	ReservedMemory map[int]map[string]int64
	// FeatureGates are the gates that are on, of PodLevelResources and PodLevelResourceManagers.
	// Others decide nothing here, and are accepted.
	FeatureGates []string
	// MaxContainersPerPod is the bound of Paddock's agent. Zero means no bound.
	MaxContainersPerPod int
}

// Kubelets returns the names of the recorded kubelets for PolicySpec.DecidedBy, ascending.
func Kubelets() []string { return behavior.Names() }

// Policy is how the nodes with one machine decide. It is immutable.
type Policy struct {
	machine *Machine
	policy  node.Policy
	// empty is the state of a node without pods, from which all nodes are made: they share what
	// does not change.
	empty *node.State
	gates spec.Gates
	// kubelet is set if a kubelet decides. doubts are why it is not known how it decides.
	kubelet bool
	doubts  []string
}

// NewPolicy checks a policy for a machine. The error wraps ErrInvalid and names the setting with
// which no kubelet starts on that machine.
func NewPolicy(m *Machine, s PolicySpec) (*Policy, error) {
	p := &Policy{machine: m}
	if err := p.set(&s); err != nil {
		return nil, fmt.Errorf("policy: %w: %w", ErrInvalid, err)
	}
	var err error
	if p.empty, err = node.New(m.machine, p.policy); err != nil {
		return nil, fmt.Errorf("policy: %w: %w", ErrInvalid, err)
	}
	return p, nil
}

func (p *Policy) set(s *PolicySpec) (err error) {
	out := &p.policy
	if err := p.decidedBy(s); err != nil {
		return err
	}
	if out.Topology, err = named("topologyManagerPolicy", s.TopologyManagerPolicy,
		node.TopologyNone, node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode); err != nil {
		return err
	}
	if out.Scope, err = named("topologyManagerScope", s.TopologyManagerScope, node.ContainerScope, node.PodScope); err != nil {
		return err
	}
	for _, option := range s.TopologyManagerPolicyOptions {
		switch option {
		case "prefer-closest-numa-nodes":
			out.PreferClosest = true
		case "max-allowable-numa-nodes":
		default:
			return fmt.Errorf("topologyManagerPolicyOptions: there is no option %q", option)
		}
	}
	if out.PreferClosest && !p.machine.machine.HasDistances() {
		return fmt.Errorf("topologyManagerPolicyOptions: prefer-closest-numa-nodes needs a machine with distances between its NUMA nodes")
	}
	if err := p.cpus(s); err != nil {
		return err
	}
	if err := p.memory(s); err != nil {
		return err
	}
	out.PodLevelResources = slices.Contains(s.FeatureGates, "PodLevelResources")
	out.PodLevelManagers = slices.Contains(s.FeatureGates, "PodLevelResourceManagers")
	if out.PodLevelManagers && !out.PodLevelResources {
		return fmt.Errorf("featureGates: PodLevelResourceManagers needs PodLevelResources")
	}
	p.gates = spec.Gates{PodLevelResources: out.PodLevelResources, PodLevelManagers: out.PodLevelManagers}
	if out.MaxContainers = s.MaxContainersPerPod; out.MaxContainers < 0 {
		return fmt.Errorf("maxContainersPerPod: %d is negative", out.MaxContainers)
	}
	return nil
}

func (p *Policy) decidedBy(s *PolicySpec) error {
	if s.DecidedBy == "" {
		return nil
	}
	p.kubelet = true
	name := strings.TrimPrefix(s.DecidedBy, "kubelet-")
	if s.RulesDigest != "" {
		_, rules, doubts := behavior.Published(strings.TrimPrefix(name, "v"), s.RulesDigest)
		p.policy, p.doubts = p.policy.As(rules), doubts
		return nil
	}
	version, exact, err := behavior.OfNode(name)
	if err != nil {
		return fmt.Errorf("decidedBy: it is not known how %q decides: expected one of %s", s.DecidedBy, strings.Join(Kubelets(), ", "))
	}
	if !exact {
		p.doubts = []string{fmt.Sprintf("%s is not a recorded release: it is taken to decide as kubelet %s", s.DecidedBy, version)}
	}
	b, err := behavior.Of(version)
	p.policy = p.policy.As(b)
	return err
}

// cpuOptions are the options of the static policy.
func cpuOptions(o *cpu.Options) map[string]*bool {
	return map[string]*bool{
		"full-pcpus-only": &o.FullPCPUsOnly, "strict-cpu-reservation": &o.StrictReservation,
		"prefer-align-cpus-by-uncorecache": &o.PreferUncore, "distribute-cpus-across-numa": &o.DistributeAcrossNUMA,
		"distribute-cpus-across-cores": &o.DistributeAcrossCores, "align-by-socket": &o.AlignBySocket,
	}
}

func (p *Policy) cpus(s *PolicySpec) error {
	out, m := &p.policy, p.machine.machine
	switch s.CPUManagerPolicy {
	case "", "none":
	case "static", "dynamic":
		if p.kubelet && s.CPUManagerPolicy == "dynamic" {
			return fmt.Errorf("cpuManagerPolicy: no kubelet has the policy dynamic of Paddock")
		}
		out.StaticCPU = true
	default:
		return fmt.Errorf("cpuManagerPolicy: there is no policy %q: expected none or static", s.CPUManagerPolicy)
	}
	for _, name := range s.CPUManagerPolicyOptions {
		option := cpuOptions(&out.CPU)[name]
		switch {
		case option == nil && name == "cache-allocation":
			return fmt.Errorf("cpuManagerPolicyOptions: cache-allocation: this package does not plan parts of caches: ask paddock predict serve about such nodes")
		case option == nil:
			return fmt.Errorf("cpuManagerPolicyOptions: there is no option %q: expected some of %s", name, strings.Join(slices.Sorted(maps.Keys(cpuOptions(&out.CPU))), ", "))
		}
		*option = true
	}
	switch {
	case s.IsolatedCPUs == "":
	case p.kubelet:
		return fmt.Errorf("isolatedCPUs: no kubelet has this option of Paddock")
	case s.IsolatedCPUs == "prefer":
		out.CPU.Isolated = cpu.IsolatedFirst
	case s.IsolatedCPUs == "only":
		out.CPU.Isolated = cpu.IsolatedOnly
	default:
		return fmt.Errorf("isolatedCPUs: %q: expected only or prefer", s.IsolatedCPUs)
	}
	for _, c := range out.Conflicts(m) {
		return fmt.Errorf("cpuManagerPolicyOptions: no kubelet starts with %s on this machine", conflicts()[c])
	}
	if !out.StaticCPU {
		return nil
	}
	set, err := cpuset.Parse(s.ReservedCPUs)
	switch {
	case err != nil:
		return fmt.Errorf("reservedCPUs: %w", err)
	case !set.Difference(m.AllCPUs()).IsEmpty():
		return fmt.Errorf("reservedCPUs: the machine has no CPU %s", set.Difference(m.AllCPUs()))
	case set.IsEmpty() && (s.ReservedCPUCount < 1 || s.ReservedCPUCount > m.AllCPUs().Len()):
		return fmt.Errorf("reservedCPUs: cpuManagerPolicy static needs CPUs for the system: give reservedCPUs, or their number from 1 to %d", m.AllCPUs().Len())
	case set.IsEmpty():
		if set, err = cpu.Reserve(m, out.CPU, s.ReservedCPUCount); err != nil {
			return fmt.Errorf("reservedCPUs: %w", err)
		}
	}
	out.ReservedCPUs = set
	return nil
}

// conflicts describes settings that exclude each other.
func conflicts() map[node.Conflict]string {
	return map[node.Conflict]string{
		node.FullCoresAcrossCores:  "full-pcpus-only and distribute-cpus-across-cores together",
		node.AcrossNUMAAcrossCores: "distribute-cpus-across-numa and distribute-cpus-across-cores together",
		node.UncoreAcrossCores:     "prefer-align-cpus-by-uncorecache and distribute-cpus-across-cores together",
		node.UncoreAcrossNUMA:      "prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa together",
		node.SocketsSingleNUMANode: "align-by-socket under topologyManagerPolicy single-numa-node",
		node.SocketsAboveNodes:     "align-by-socket, because it has more sockets than NUMA nodes with CPUs,",
		node.OptionsWithoutStatic:  "these options under cpuManagerPolicy none",
	}
}

func (p *Policy) memory(s *PolicySpec) error {
	switch s.MemoryManagerPolicy {
	case "", "None":
		return nil
	case "Static":
	default:
		return fmt.Errorf("memoryManagerPolicy: there is no policy %q: expected None or Static", s.MemoryManagerPolicy)
	}
	p.policy.StaticMemory, p.policy.ReservedMemory = true, map[int]map[string]int64{}
	some := false
	for id, limits := range s.ReservedMemory {
		n, ok := p.machine.machine.Node(id)
		if !ok {
			return fmt.Errorf("reservedMemory: the machine has no NUMA node %d", id)
		}
		copied := map[string]int64{}
		for name, bytes := range limits {
			switch {
			case p.machine.machine.MemoryType(name) < 0:
				return fmt.Errorf("reservedMemory: the machine has no %s", name)
			case bytes < 0 || bytes > n.Memory:
				return fmt.Errorf("reservedMemory: %d bytes of %s on NUMA node %d, which has %d", bytes, name, id, n.Memory)
			}
			copied[name] = bytes
			some = some || bytes > 0
		}
		p.policy.ReservedMemory[id] = copied
	}
	if !some {
		return fmt.Errorf("reservedMemory: memoryManagerPolicy Static needs memory for the system")
	}
	return nil
}

// named returns the value of the given name, the first one for "".
func named[T fmt.Stringer](field, name string, values ...T) (T, error) {
	var names []string
	for _, v := range values {
		if v.String() == name {
			return v, nil
		}
		names = append(names, v.String())
	}
	if name == "" {
		return values[0], nil
	}
	return values[0], fmt.Errorf("%s: there is no %q: expected %s", field, name, strings.Join(names, ", "))
}

// Certainty returns how sure answers under the policy are at best.
func (p *Policy) Certainty() Certainty {
	switch {
	case len(p.doubts) > 0:
		return Unsure
	case p.kubelet:
		return Predicted
	}
	return Certain
}
