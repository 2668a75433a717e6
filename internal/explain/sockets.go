package explain

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Spread is an admitted pod or container that has CPUs on several sockets although one socket would
// be enough. It has the options that would place it on one socket, which were planned.
type Spread struct {
	// Container is empty for a pod that is aligned as one.
	Container string `json:"container,omitempty"`
	CPUs      int    `json:"cpus"`
	// Sockets are the sockets of its CPUs.
	Sockets  []int     `json:"sockets"`
	Settings []Setting `json:"settings"`
	// Text describes what to do. Outcome describes where the pod would then run, on CPUs of socket
	// Socket.
	Text    string `json:"text"`
	Outcome string `json:"outcome"`
	Socket  int    `json:"socket"`
}

// socketOptions are the options that can place a pod on one socket, the least intrusive first.
var socketOptions = []struct {
	field, to, gate string
	at              func(*node.Policy) *bool
}{
	{"topologyManagerPolicyOptions[prefer-closest-numa-nodes]", "true", "", func(p *node.Policy) *bool { return &p.PreferClosest }},
	{"cpuManagerPolicyOptions[align-by-socket]", "true", "CPUManagerPolicyAlphaOptions", func(p *node.Policy) *bool { return &p.CPU.AlignBySocket }},
	{"cpuManagerPolicyOptions[distribute-cpus-across-numa]", "false", "", func(p *node.Policy) *bool { return &p.CPU.DistributeAcrossNUMA }},
}

// SpreadOf returns nil if the pod was rejected, is on one socket, or cannot be placed on one socket
// by any option. s is the state before the plan, or a state in which the plan found the pod, with
// its grants.
func SpreadOf(s *node.State, p *node.Plan) *Spread {
	if p.Grant == nil || len(s.Machine().Sockets()) < 2 {
		return nil
	}
	before := s.Release(p.Pod.UID)
	for _, set := range alignedSets(s, p.Grant) {
		sockets := socketsOf(s, set.cpus)
		if len(sockets) < 2 {
			continue
		}
		for _, option := range socketOptions {
			policy := before.Policy()
			value := option.at(&policy)
			if *value == (option.to == "true") {
				continue
			}
			*value = !*value
			cured := curedBy(before, policy, p, set.container)
			if cured == nil {
				continue
			}
			from := map[string]string{"true": "false", "false": "true"}[option.to]
			text := fmt.Sprintf("set %s to %s (now %s)", option.field, option.to, from)
			if option.gate != "" {
				text += " with feature gate " + option.gate
			}
			return &Spread{
				Container: set.container, CPUs: set.cpus.Len(), Sockets: sockets,
				Settings: []Setting{{option.field, from, option.to, option.gate}},
				Text:     text, Outcome: outcome(cured.state, cured.plan), Socket: cured.socket,
			}
		}
	}
	return nil
}

// alignedSet is a set of CPUs that were aligned as one.
type alignedSet struct {
	container string
	cpus      cpuset.Set
}

func alignedSets(s *node.State, g *node.Grant) []alignedSet {
	if g.HasPool() || s.Policy().Scope == node.PodScope {
		return []alignedSet{{"", g.CPUs()}}
	}
	var sets []alignedSet
	for i, c := range g.Containers {
		sets = append(sets, alignedSet{g.Pod.Containers[i].Name, c.CPUs})
	}
	return sets
}

func socketsOf(s *node.State, cpus cpuset.Set) []int {
	var ids []int
	for _, u := range s.Machine().Sockets() {
		if u.CPUs.IntersectionLen(cpus) > 0 {
			ids = append(ids, u.ID)
		}
	}
	return ids
}

// cure is the plan of the pod under another policy.
type cure struct {
	state  *node.State
	plan   *node.Plan
	socket int
}

// curedBy plans the pod again under another policy. It returns nil unless everything that is
// aligned as one is then on one socket. It also returns nil if the policy prefers the closest NUMA
// nodes but the machine has no distances, and if the state does not have the grants for everything
// that is not free.
func curedBy(before *node.State, policy node.Policy, p *node.Plan, container string) *cure {
	if len(policy.Conflicts(before.Machine())) > 0 || policy.PreferClosest && !before.Machine().HasDistances() {
		return nil
	}
	s, err := under(before, policy)
	if err != nil || !s.AvailableCPUs().Equal(before.AvailableCPUs()) || !reflect.DeepEqual(s.Memory().Nodes(), before.Memory().Nodes()) {
		return nil
	}
	plan := s.Plan(p.Grant.Pod)
	if plan.Grant == nil {
		return nil
	}
	found := &cure{state: s, plan: plan}
	for _, set := range alignedSets(s, plan.Grant) {
		sockets := socketsOf(s, set.cpus)
		if len(sockets) > 1 {
			return nil
		}
		if set.container == container && len(sockets) == 1 {
			found.socket = sockets[0]
		}
	}
	return found
}

// Sentence returns a sentence that names the sockets.
func (d Spread) Sentence() string {
	who := "the pod"
	if d.Container != "" {
		who = "container " + d.Container
	}
	sockets := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(d.Sockets)), ", "), "[]")
	return fmt.Sprintf("%s has its %d CPUs on sockets %s, although they fit on socket %d", who, d.CPUs, sockets, d.Socket)
}
