package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Machines returns a recorded machine by its name.
type Machines func(name string) (*machine.Machine, error)

// Node is the node on which commands act. It is not safe for concurrent use.
type Node struct {
	machines Machines
	machine  *machine.Machine // with all CPUs
	offline  cpuset.Set
	devices  *device.Inventory // nil before a devices command
	// given has the devices that others choose, by resource or driver. chosen has the devices that
	// a pod has, by pod and container.
	given    map[string][]device.Device
	chosen   map[string]map[string][]request.Given
	settings settings
	gates    podspec.Gates
	state    *node.State
	pods     map[string]*v1.Pod
}

// New returns a node without a machine. If machines is nil, there are no recorded machines.
func New(machines Machines) *Node {
	return &Node{machines: machines, pods: map[string]*v1.Pod{}, chosen: map[string]map[string][]request.Given{}}
}

// State returns the state of the node. It is nil until a configuration is accepted.
func (n *Node) State() *node.State { return n.state }

// Request returns what the pod that was described under that name asks for.
func (n *Node) Request(name string) (request.Pod, error) {
	pod, ok := n.pods[name]
	if !ok {
		return request.Pod{}, fmt.Errorf("no pod %q was described", name)
	}
	return n.request(pod)
}

// Run executes a command and returns the lines of its answer, without a trailing newline. The
// answer is never empty.
func (n *Node) Run(c Command) string {
	answer, err := n.run(c)
	if err == nil && n.state != nil {
		err = n.state.Check()
	}
	var rejected *rejectedError
	switch {
	case errors.As(err, &rejected):
		answer = append(answer, "rejected: "+err.Error())
		if n.state != nil {
			answer = append(answer, "the node stays as it was")
		}
	case err != nil:
		answer = append(answer, "error: "+err.Error())
	}
	return strings.Join(answer, "\n")
}

func (n *Node) run(c Command) ([]string, error) {
	switch c.Name {
	case "machine":
		return n.runMachine(c)
	case "config":
		return n.runConfig(c)
	case "devices":
		return n.runDevices(c)
	case "given":
		return n.runGiven(c)
	case "pod":
		return n.runPod(c)
	}
	if len(c.Input) > 0 {
		return nil, fmt.Errorf("%s takes no further lines: a blank line ends a command", c.Name)
	}
	if n.state == nil {
		return nil, errors.New("give machine and config first")
	}
	switch c.Name {
	case "plan", "admit":
		return n.runAdmission(c)
	case "reserve", "unreserve":
		return n.runReserve(c)
	case "resize":
		return n.runResize(c)
	case "move":
		return n.runMove(c)
	case "created", "remove-container":
		return n.runContainer(c)
	case "remove":
		return n.runRemove(c)
	case "restart":
		return n.runRestart(c)
	case "offline", "online":
		return n.runHotplug(c)
	case "state":
		return n.describeState(), nil
	case "check":
		return []string{"ok"}, nil
	}
	return nil, fmt.Errorf("no command %q; the commands are machine, config, devices, given, pod, plan, admit, reserve, unreserve, resize, move, created, remove-container, remove, restart, offline, online, state, check", c.Name)
}

// keys parses words of the form key=value. Repeated and unknown keys are errors.
func keys(words []string, known ...string) (map[string]string, error) {
	values := map[string]string{}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("%q: want key=value", w)
		case !slices.Contains(known, key):
			return nil, fmt.Errorf("no key %q; the keys are %s", key, strings.Join(known, ", "))
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("key %q is given twice", key)
		}
		values[key] = value
	}
	return values, nil
}
