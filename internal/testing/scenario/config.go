package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
)

// settings are the values of the keys of the command config. Most keys are fields of a
// KubeletConfiguration under short names:
//
//	topology=none           none, best-effort, restricted, single-numa-node
//	scope=container         container, pod
//	topology-options=…      prefer-closest-numa-nodes, max-allowable-numa-nodes=N; comma-separated
//	cpu=none                none, static
//	options=…               options of the static CPU policy; comma-separated
//	reserved-cpus=0,8       reservedSystemCPUs
//	reserve-cpu=1           kubeReserved; 1 by default if the CPU policy is static
//	memory=None             None, Static
//	reserved-memory=0:1Gi   comma-separated by NUMA node; 512Mi of the lowest NUMA node with memory
//	                        by default if the memory policy is Static
//	gates=…                 comma-separated; append "=false" to turn one off.
//	                        PodLevelResourceManagers is on by default
//	quota=kubelet           Paddock's own cpuQuota.mode, not of the kubelet: isolated, or
//	                        kubelet, which is the rule of the reference
//	max-containers=0        Paddock's own maxContainersPerPod; 0 means no limit
//	as=kubelet-1.36         decide as a kubelet of that version, with its faults; Paddock by default
type settings map[string]string

var settingKeys = [...]string{
	"topology", "scope", "topology-options", "cpu", "options", "reserved-cpus", "reserve-cpu",
	"memory", "reserved-memory", "gates", "quota", "max-containers", "as",
}

// rejectedError is the error for a configuration with which a node does not start.
type rejectedError struct{ err error }

func (e *rejectedError) Error() string { return e.err.Error() }

func (e *rejectedError) Unwrap() error { return e.err }

// runConfig resolves a configuration and removes all pods from the node.
func (n *Node) runConfig(c Command) ([]string, error) {
	if n.machine == nil {
		return nil, errors.New("give the machine first")
	}
	if len(c.Input) > 0 {
		return nil, errors.New("config takes no further lines: a blank line ends a command")
	}
	s, err := keys(c.Args, settingKeys[:]...)
	if err != nil {
		return nil, err
	}
	policy, warnings, err := n.resolve(s)
	if err != nil {
		return nil, &rejectedError{err}
	}
	state, err := node.New(n.machine, policy)
	if err != nil {
		return nil, err
	}
	if state, err = n.equip(state); err != nil {
		return nil, err
	}
	n.use(s, policy)
	n.state, n.offline = state, cpuset.Set{}
	return append(describePolicy(policy), warnings...), nil
}

// equip adds the devices of the node to a new state.
func (n *Node) equip(s *node.State) (*node.State, error) {
	if n.devices == nil {
		return s, nil
	}
	return s.WithDevices(n.devices)
}

func (n *Node) use(s settings, policy node.Policy) {
	n.settings = s
	n.gates = podspec.GatesOf(policy)
}

func (n *Node) resolve(s settings) (policy node.Policy, warnings []string, err error) {
	object, err := n.kubeletConfiguration(s)
	if err != nil {
		return policy, nil, err
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return policy, nil, err
	}
	config, err := kubeletcfg.FromJSON(raw)
	if err != nil {
		return policy, nil, err
	}
	if policy, err = config.Resolve(n.machine); err != nil {
		return policy, nil, err
	}
	switch mode := s["quota"]; mode {
	case "", "kubelet":
	case "isolated":
		policy.Quota = node.QuotaPolicy{Isolated: true, EphemeralMilli: quota.DefaultEphemeralMilli}
	default:
		return policy, nil, fmt.Errorf("quota: %q is unknown; want isolated or kubelet", mode)
	}
	if text, ok := s["max-containers"]; ok {
		if policy.MaxContainers, err = strconv.Atoi(text); err != nil || policy.MaxContainers < 0 {
			return policy, nil, fmt.Errorf("max-containers: %q is not a number of containers", text)
		}
	}
	if text, ok := s["as"]; ok {
		version, err := behavior.Parse(strings.TrimPrefix(text, "kubelet-"))
		if err != nil {
			return policy, nil, fmt.Errorf("as: %w", err)
		}
		as, err := behavior.Of(version)
		if err != nil {
			return policy, nil, fmt.Errorf("as: %w", err)
		}
		policy = policy.As(as)
	}
	for _, w := range config.Warnings(n.machine) {
		warnings = append(warnings, "warning: "+w.String())
	}
	return policy, warnings, nil
}

func (n *Node) kubeletConfiguration(s settings) (map[string]any, error) {
	gates := map[string]bool{"PodLevelResourceManagers": true}
	object := map[string]any{
		"featureGates": gates,
		"evictionHard": map[string]string{"memory.available": "0%"}, // so that only reserved-memory is reserved
	}
	put := func(key, field string) {
		if v, ok := s[key]; ok {
			object[field] = v
		}
	}
	put("topology", "topologyManagerPolicy")
	put("scope", "topologyManagerScope")
	put("cpu", "cpuManagerPolicy")
	put("memory", "memoryManagerPolicy")
	put("reserved-cpus", "reservedSystemCPUs")
	if v := s["topology-options"]; v != "" {
		object["topologyManagerPolicyOptions"] = optionMap(v)
	}
	if v := s["options"]; v != "" {
		object["cpuManagerPolicyOptions"] = optionMap(v)
	}
	given := optionMap(s["gates"])
	for _, name := range slices.Sorted(maps.Keys(given)) {
		on, err := strconv.ParseBool(given[name])
		if err != nil {
			return nil, fmt.Errorf("gates: %s=%s: want true or false", name, given[name])
		}
		gates[name] = on
	}
	return object, n.reserve(s, object)
}

// reserve sets what is reserved for the system.
func (n *Node) reserve(s settings, object map[string]any) error {
	reserved := map[string]string{}
	cpu, given := s["reserve-cpu"]
	if _, set := s["reserved-cpus"]; !given && !set && s["cpu"] == "static" {
		cpu = "1"
	}
	if cpu != "" {
		reserved["cpu"] = cpu
	}
	memory, given := s["reserved-memory"]
	if !given && s["memory"] == "Static" {
		for _, m := range n.machine.Nodes() {
			if m.Memory > 0 {
				memory = fmt.Sprintf("%d:512Mi", m.ID)
				break
			}
		}
	}
	if memory != "" {
		var entries []any
		var sum resource.Quantity
		for entry := range strings.SplitSeq(memory, ",") {
			id, amount, _ := strings.Cut(entry, ":")
			numa, err := number(id, 1<<20)
			if err != nil {
				return fmt.Errorf("reserved-memory: %w", err)
			}
			q, err := resource.ParseQuantity(amount)
			if err != nil {
				return fmt.Errorf("reserved-memory: %s: %w", entry, err)
			}
			sum.Add(q)
			entries = append(entries, map[string]any{"numaNode": numa, "limits": map[string]string{"memory": amount}})
		}
		object["reservedMemory"] = entries
		reserved["memory"] = sum.String()
	}
	object["kubeReserved"] = reserved
	return nil
}

// optionMap parses a list such as "a,b=3", in which a is true and b is 3.
func optionMap(text string) map[string]string {
	options := map[string]string{}
	if text == "" {
		return options
	}
	for o := range strings.SplitSeq(text, ",") {
		name, value, given := strings.Cut(o, "=")
		if !given {
			value = "true"
		}
		options[name] = value
	}
	return options
}

// describePolicy describes a policy, with one line for each part.
func describePolicy(p node.Policy) []string {
	lines := strings.Split(kubeletcfg.Describe(p), "; ")
	if p.Quota.Isolated {
		lines = append(lines, "CFS quota isolated")
	}
	if p.MaxContainers > 0 {
		lines = append(lines, fmt.Sprintf("at most %d containers in a pod", p.MaxContainers))
	}
	return lines
}

// runRestart rebuilds the state from the grants and admits every pod again in the order of
// admission, as a kubelet does when it starts.
func (n *Node) runRestart(c Command) ([]string, error) {
	changed, err := keys(c.Args, settingKeys[:]...)
	if err != nil {
		return nil, err
	}
	s := maps.Clone(n.settings)
	maps.Copy(s, changed)
	policy, _, err := n.resolve(s)
	if err != nil {
		return nil, &rejectedError{err}
	}
	state, findings, err := n.readopt(policy)
	if err != nil {
		return nil, err
	}
	var lines []string
	if len(changed) > 0 {
		lines = describePolicy(policy)
	}
	lines = append(lines, findings...)
	n.use(s, policy)
	n.state = state
	grants := state.Grants()
	slices.SortFunc(grants, func(a, b *node.Grant) int { return int(int64(a.Sequence - b.Sequence)) })
	for _, g := range grants {
		line, err := n.readmit(g)
		if err != nil {
			return lines, err
		}
		lines = append(lines, line...)
	}
	if len(grants) == 0 {
		lines = append(lines, "no pods")
	}
	return lines, nil
}

func (n *Node) readmit(g *node.Grant) ([]string, error) {
	asked, err := n.request(n.pods[g.Pod.UID])
	if err != nil {
		return nil, err
	}
	plan := n.state.Plan(asked)
	verdict := "is planned again"
	switch {
	case plan.Known:
		verdict = "keeps what it has"
	case n.state.Policy().Behavior.AdmitsAgain:
		if n.state, err = n.state.Apply(plan); err != nil {
			return nil, err
		}
		return append([]string{g.Pod.Name + " is admitted again"}, n.describePlan(plan)...), nil
	}
	lines := []string{g.Pod.Name + " " + verdict}
	for _, note := range plan.Trace.Notes {
		lines = append(lines, "note: "+note)
	}
	return lines, nil
}
