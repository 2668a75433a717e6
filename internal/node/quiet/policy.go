package quiet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Scope is for which containers a setting is made.
type Scope string

// The scopes.
const (
	// Off leaves the files as they are.
	Off Scope = "off"
	// Asked makes the setting for containers whose pod asks for it and may ask.
	Asked Scope = "asked"
	// Exclusive makes the setting for every container with exclusive CPUs.
	Exclusive Scope = "exclusive"
)

// UnmarshalJSON reads a scope. In YAML, off without quotes is false. Check rejects everything that
// is no scope.
func (s *Scope) UnmarshalJSON(data []byte) error {
	if string(data) == "false" {
		*s = Off
	} else if json.Unmarshal(data, (*string)(s)) != nil {
		*s = Scope(data)
	}
	return nil
}

// Policy is the policy of a node.
type Policy struct {
	// Interrupts is for which containers device interrupts are kept away, with the default for new
	// ones.
	Interrupts Scope `json:"interrupts"`
	// Partition is for which containers the scheduler does not balance load: their cgroup becomes
	// an isolated partition. A container must then pin its threads itself.
	Partition Scope `json:"partition"`
	// Workqueues is for which containers unbound workqueues are kept away, and ReceiveQueues the
	// work of network devices for other CPUs (RPS). Asked means the containers that ask for no
	// interrupts.
	Workqueues    Scope `json:"workqueues"`
	ReceiveQueues Scope `json:"receiveQueues"`
	// CStates is for which containers C-states are limited as the pod asks. With Exclusive,
	// containers that do not ask have the limit Latency.
	CStates Scope `json:"cStates"`
	// Latency is the longest time in microseconds that a CPU of a container may take to wake, for
	// CStates: exclusive. 0 keeps the CPU from sleeping.
	Latency int `json:"latency"`
	// Frequency is for which containers the governor and the frequencies are set as the pod asks:
	// Off or Asked.
	Frequency Scope `json:"frequency"`
	// Caches is whether the groups of resctrl are made for the classes that the agent gives
	// containers, and the default class shrinks: Off or Asked. Which pods may ask is for the agent
	// to decide.
	Caches Scope `json:"caches"`
	// Irqbalance is whether irqbalance learns which CPUs are quiet.
	Irqbalance bool `json:"irqbalance"`
	// Allow is which pods may ask.
	Allow Allow `json:"allow"`
	// MostFights is how often a file is written again that somebody else changes back.
	MostFights int `json:"mostFights"`
}

// Allow is which pods may ask: those in one of the namespaces, and those of one of the runtime
// classes.
type Allow struct {
	Namespaces     []string `json:"namespaces"`
	RuntimeClasses []string `json:"runtimeClasses"`
}

// DefaultPolicy keeps device interrupts, workqueues and receive queues away from every exclusive
// CPU. That costs the container nothing. What a container must be written for, or what costs power,
// is only for pods that ask and may ask, and no pod may.
func DefaultPolicy() Policy {
	return Policy{
		Interrupts: Exclusive, Workqueues: Exclusive, ReceiveQueues: Exclusive,
		Partition: Asked, CStates: Asked, Frequency: Asked, Caches: Asked, Irqbalance: true, MostFights: 5,
		Allow: Allow{Namespaces: []string{}, RuntimeClasses: []string{}},
	}
}

// Check returns an error if the policy is not valid.
func (p *Policy) Check() error {
	var wrong []error
	for _, f := range []struct {
		name  string
		value Scope
		may   []Scope
	}{
		{"interrupts", p.Interrupts, []Scope{Off, Asked, Exclusive}},
		{"partition", p.Partition, []Scope{Off, Asked, Exclusive}},
		{"workqueues", p.Workqueues, []Scope{Off, Asked, Exclusive}},
		{"receiveQueues", p.ReceiveQueues, []Scope{Off, Asked, Exclusive}},
		{"cStates", p.CStates, []Scope{Off, Asked, Exclusive}},
		{"frequency", p.Frequency, []Scope{Off, Asked}},
		{"caches", p.Caches, []Scope{Off, Asked}},
	} {
		if !slices.Contains(f.may, f.value) {
			wrong = append(wrong, fmt.Errorf("quiet.%s: %q: expected one of %v", f.name, f.value, f.may))
		}
	}
	if p.Latency < 0 {
		wrong = append(wrong, fmt.Errorf("quiet.latency: %d: expected microseconds, 0 or more", p.Latency))
	}
	if p.MostFights < 1 {
		wrong = append(wrong, fmt.Errorf("quiet.mostFights: %d: expected 1 or more", p.MostFights))
	}
	return errors.Join(wrong...)
}

// allows reports whether the pod of a container may ask.
func (p *Policy) allows(c *Container) bool {
	return slices.Contains(p.Allow.Namespaces, c.Namespace) || c.RuntimeClass != "" && slices.Contains(p.Allow.RuntimeClasses, c.RuntimeClass)
}

// gets is what a container gets.
type gets struct {
	interrupts, workqueues, queues, partition bool
	housekeeping                              bool
	latency, governor, min, max               string
}

// of returns what a container gets, of what it asks for and of what every container gets.
func (p *Policy) of(c *Container, asked wishes) (g gets) {
	if c.Assigned.IsEmpty() {
		return g
	}
	decide := func(scope Scope, asked choice) bool {
		return scope != Off && (asked == quieter || scope == Exclusive && asked != asUsual)
	}
	g.interrupts, g.housekeeping = decide(p.Interrupts, asked.interrupts), asked.housekeeping
	g.workqueues, g.queues = decide(p.Workqueues, asked.interrupts), decide(p.ReceiveQueues, asked.interrupts)
	g.partition = decide(p.Partition, asked.partition)
	if p.CStates != Off {
		g.latency = asked.latency
		if p.CStates == Exclusive && g.latency == "" {
			g.latency = latencyText(p.Latency)
		}
	}
	if p.Frequency != Off {
		g.governor, g.min, g.max = asked.governor, asked.min, asked.max
	}
	return g
}

func latencyText(limit int) string {
	if limit == 0 {
		return "n/a"
	}
	return fmt.Sprint(limit)
}
