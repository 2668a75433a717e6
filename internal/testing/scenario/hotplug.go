package scenario

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// runHotplug takes CPUs offline or brings them online. The grants do not change, so the answer
// describes the CPUs on which containers run.
func (n *Node) runHotplug(c Command) ([]string, error) {
	if len(c.Args) != 1 {
		return nil, fmt.Errorf("%s: want a list of CPUs, such as 2-3,8", c.Name)
	}
	cpus, err := cpuset.Parse(c.Args[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	if strange := cpus.Difference(n.machine.AllCPUs()); !strange.IsEmpty() {
		return nil, fmt.Errorf("%s: the machine has no CPUs %s", c.Name, strange)
	}
	offline := n.offline.Difference(cpus)
	if c.Name == "offline" {
		offline = n.offline.Union(cpus)
	}
	m, err := n.onlineMachine(offline)
	if err != nil {
		return nil, err
	}
	state, err := n.state.OnMachine(m)
	if err != nil {
		return nil, err
	}
	n.offline, n.state = offline, state
	lines := []string{fmt.Sprintf("online %s; node shared pool %s", m.AllCPUs(), orNone(state.SharedCPUs().String()))}
	return append(lines, describeDegraded(state)...), nil
}

// onlineMachine returns the machine without the offline CPUs.
func (n *Node) onlineMachine(offline cpuset.Set) (*machine.Machine, error) {
	if offline.IsEmpty() {
		return n.machine, nil
	}
	return n.machine.Without(offline)
}

// describeDegraded returns a line for each pod with offline CPUs, and for each of its containers
// that runs on other CPUs.
func describeDegraded(s *node.State) []string {
	var lines []string
	for _, d := range s.Degraded() {
		lines = append(lines, fmt.Sprintf("%s is degraded: CPUs %s are offline", d.Grant.Pod.Name, d.Offline))
		cgroups := s.Cgroups(d.Grant)
		for _, i := range d.Displaced {
			cpus, _ := cgroups.Of(i)
			lines = append(lines, fmt.Sprintf("  %s has no CPU left and runs on %s", d.Grant.Pod.Containers[i].Name, cpus))
		}
	}
	return lines
}

// readopt rebuilds the state from the grants alone, as an agent does when it starts. If no CPUs are
// offline, the grants must be valid by all rules.
func (n *Node) readopt(policy node.Policy) (*node.State, []string, error) {
	m, err := n.onlineMachine(n.offline)
	if err != nil {
		return nil, nil, err
	}
	if policy.Behavior.AdmitsAgain {
		state, err := n.state.RestartedWith(policy)
		if err != nil {
			return nil, nil, &rejectedError{err}
		}
		return state, nil, nil
	}
	if n.offline.IsEmpty() {
		state, err := node.Restore(m, policy, n.state.Grants())
		if err != nil {
			return nil, nil, &rejectedError{err}
		}
		state, err = n.equip(state)
		return state, nil, err
	}
	state, findings, err := node.Adopt(m, policy, n.state.Devices().Inventory(), n.state.Grants())
	lines := make([]string, len(findings))
	for i, f := range findings {
		lines[i] = strings.Replace(f.String(), "pod default/", "pod ", 1)
	}
	return state, lines, err
}
