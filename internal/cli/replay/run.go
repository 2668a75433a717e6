package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/devicefile"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
)

// Player runs scenarios.
type Player struct {
	// Machine returns the machine for "@name".
	Machine func(name string) (*machine.Machine, error)
	// Now is the clock for elapsed_ns.
	Now func() time.Time
	// Kubelet makes a kubelet of this version, with its faults, answer instead of Paddock.
	// Result.Quirks and Answer.Quirks are then the faults because of which it answers differently.
	// If zero, Paddock answers.
	Kubelet behavior.Version
	// Find returns the state of a scenario's Found. If nil, a scenario with one is an error.
	Find func(*Found, FoundOn) (*node.State, error)
}

func (p *Player) asKubelet() bool { return p.Kubelet != behavior.Version{} }

// run is one scenario in progress.
type run struct {
	player    *Player
	config    *kubeletcfg.Config
	gates     podspec.Gates
	pods      map[string]*v1.Pod
	m         *machine.Machine
	inventory *device.Inventory
	state     *node.State
	kubelet   quirk.Kubelet
	// late is set while the device plugins have not registered since the restart.
	late bool
}

// Run answers a scenario. It returns an error if a machine cannot be found or read. A rejected
// configuration is a result, not an error.
func (p *Player) Run(s *Scenario) (Result, error) {
	return p.Follow(s, &Result{})
}

// Follow runs a scenario beside recorded answers, so that as many events as possible begin with the
// same state. If the recorded answer rejects a pod that Paddock admits, Follow releases the pod
// after the event. It ends where the recording ends because of a rejected restart or a panic.
//
// This is the only case in which Paddock adopts the recorded state. Other states after a fault of
// the reference violate the invariants: a CPU is assigned twice, or memory is assigned but not
// accounted for. With Kubelet nothing is adopted, because the states are the kubelet's.
func (p *Player) Follow(s *Scenario, recorded *Result) (Result, error) {
	p, err := p.decider(s)
	if err != nil {
		return Result{}, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	r := &run{player: p, pods: map[string]*v1.Pod{}, kubelet: quirk.New(p.Kubelet)}
	if r.m, err = p.machine(s.Machine); err != nil {
		return Result{}, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	for _, pod := range s.Pods {
		r.pods[string(pod.UID)] = pod
	}
	result := Result{Name: s.Name}
	if r.inventory, err = inventory(r.m, s.Devices); err != nil {
		return Result{}, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	if err := r.start(s.KubeletConfig); err != nil {
		result.StartError = err.Error()
		return result, nil //nolint:nilerr // a rejected configuration is a result
	}
	if p.asKubelet() {
		if result.Quirks, err = r.startKubelet(); err != nil {
			return Result{}, fmt.Errorf("scenario %s: %w", s.Name, err)
		}
		if slices.ContainsFunc(result.Quirks, func(q quirk.Quirk) bool { return q.Effect == quirk.NoStart }) {
			result.StartError = result.Quirks[0].Text
			return result, nil
		}
	}
	if s.Found != nil {
		if err := r.find(s.Found); err != nil {
			return Result{}, fmt.Errorf("scenario %s: %w", s.Name, err)
		}
	}
	view := ViewOf(r.state)
	result.Start, result.AllocatableCPUs = &view, r.state.AllocatableCPUs().String()
	for i, e := range s.Events {
		answer, err := r.answer(e)
		if err != nil {
			return Result{}, fmt.Errorf("scenario %s: %w", s.Name, err)
		}
		result.Answers = append(result.Answers, answer)
		if answer.ends() {
			break
		}
		if i >= len(recorded.Answers) || p.asKubelet() {
			continue
		}
		want := &recorded.Answers[i]
		if want.ends() {
			break
		}
		if answer.admitted() && !want.admitted() {
			r.state = r.state.Release(e.Pod)
		}
	}
	return result, nil
}

func (p *Player) machine(raw json.RawMessage) (*machine.Machine, error) {
	var name string
	if err := json.Unmarshal(raw, &name); err == nil {
		bare, ok := strings.CutPrefix(name, "@")
		if !ok {
			return nil, fmt.Errorf("machine %q: expected \"@name\" or a MachineInfo", name)
		}
		return p.Machine(bare)
	}
	found, err := discover.Read("machine", raw)
	if err != nil {
		return nil, err
	}
	return found.Machine, nil
}

func (r *run) start(config json.RawMessage) error {
	var err error
	if r.config, err = kubeletcfg.FromJSON(config); err != nil {
		return err
	}
	if r.player.asKubelet() {
		r.config = r.config.For(r.player.Kubelet.Minor)
	}
	policy, err := r.policy(r.config)
	if err != nil {
		return err
	}
	if r.state, err = node.New(r.m, policy); err != nil {
		return err
	}
	r.state, err = r.state.WithDevices(r.inventory)
	return err
}

// startKubelet replaces the state by that of a kubelet, and returns the quirks of its start.
func (r *run) startKubelet() ([]quirk.Quirk, error) {
	ours := r.state.Policy()
	policy, setup := r.asKubelet(r.config, ours)
	state, err := node.New(r.m, policy)
	if err != nil {
		return nil, err
	}
	r.state, err = state.WithDevices(r.inventory)
	return r.kubelet.Start(r.m, ours, setup), err
}

// asKubelet returns the policy of a kubelet with the configuration for a policy of Paddock.
func (r *run) asKubelet(c *kubeletcfg.Config, ours node.Policy) (node.Policy, quirk.Setup) {
	setup := quirk.Setup{ByNumber: !c.NamesReserved(), TooManyNodes: len(c.KubeletRejects(r.m)) > 0}
	policy := r.kubelet.Policy(r.m, ours, setup)
	r.gates.MarkFractions = policy.Behavior.UnreadFractions
	return policy, setup
}

// inventory reads the scenario's devices.
func inventory(m *machine.Machine, raw json.RawMessage) (*device.Inventory, error) {
	if len(raw) == 0 {
		return device.NewInventory(m, nil)
	}
	return devicefile.Reported(m, "devices", raw)
}

// policy resolves a configuration. Scenarios show what the managers decide, so a pod-level pod
// reaches them even if its gate is off (R-DEM-2).
func (r *run) policy(c *kubeletcfg.Config) (node.Policy, error) {
	policy, err := c.Resolve(r.m)
	if err != nil {
		return policy, err
	}
	r.gates = podspec.GatesOf(policy)
	policy.PodLevelResources = true
	return policy, nil
}

func (r *run) answer(e Event) (Answer, error) {
	a := Answer{Op: e.Op, Pod: e.Pod, Container: e.Container}
	if err := r.register(e); err != nil {
		return a, err
	}
	switch e.Op {
	case Admit:
		r.admit(r.pods[e.Pod], &a)
	case RemovePod:
		if r.player.asKubelet() {
			a.Quirks, r.kubelet = r.kubelet.Remove(r.state, e.Pod)
		}
		r.state = r.state.Release(e.Pod)
	case RemoveContainer:
		r.state = r.state.RemoveContainer(e.Pod, e.Container)
	case Restart:
		if err := r.restart(e, &a); err != nil {
			a.StartError = err.Error()
			return a, nil //nolint:nilerr // a restart that is rejected is a result
		}
	case DropStale:
		r.state = r.state.Swept()
	case StopContainer, Reconcile:
		// A stopped container may start again, and nothing drifts here.
	}
	if a.ends() {
		return a, nil
	}
	if err := r.state.Check(); err != nil {
		return a, fmt.Errorf("after %s %s: %w", e.Op, e.Pod, err)
	}
	a.watch(r.state)
	return a, nil
}

// restart rebuilds the state from the grants alone, with a configuration that may have changed.
func (r *run) restart(e Event, a *Answer) error {
	config, err := r.config.Patch(e.ConfigPatch, e.FeatureGates)
	if err != nil {
		return err
	}
	policy, err := r.policy(config)
	if err != nil {
		return err
	}
	if r.player.asKubelet() {
		policy, _ = r.asKubelet(config, policy)
		a.Quirks, r.kubelet = r.kubelet.Restart(r.state, policy)
		for _, q := range a.Quirks {
			if q.Certain {
				return errors.New(q.Text)
			}
		}
	}
	state, err := r.state.RestartedWith(policy)
	if err != nil {
		return err
	}
	r.config, r.late = config, e.Plugins == "late"
	inventory := r.inventory
	if r.late {
		inventory = nil
	}
	r.state, err = state.WithDevices(inventory)
	return err
}

// register lets device plugins that are late register before an event, unless the event admits a
// pod again.
func (r *run) register(e Event) error {
	_, known := r.state.Grant(e.Pod)
	if !r.late || e.Op == Restart || e.Op == Admit && known {
		return nil
	}
	var err error
	r.late = false
	r.state, err = r.state.WithDevices(r.inventory)
	return err
}

// ignoresBudget reports whether the kubelet passes over pod-level resources, because the feature
// gate is off. From 1.36 on, its managers look at the pod alone.
func (r *run) ignoresBudget() bool {
	return r.player.asKubelet() && r.player.Kubelet.Minor < 36 && !r.gates.PodLevelResources
}

// admit plans a pod and, if it is admitted, creates and starts its containers in their order.
func (r *run) admit(pod *v1.Pod, a *Answer) {
	admitted := false
	a.Admitted = &admitted
	if r.ignoresBudget() {
		pod = pod.DeepCopy()
		pod.Spec.Resources = nil
	}
	asked, err := podspec.Request(pod, r.gates)
	a.QoS = asked.QoS.String()
	if err != nil {
		a.Reason, a.Message = string(rejection.UnexpectedAdmissionError), err.Error()
		return
	}
	_, known := r.state.Grant(asked.UID)
	before := r.player.Now()
	var plan *node.Plan
	if r.player.asKubelet() {
		plan, a.Quirks, r.kubelet = r.kubelet.Admit(r.state, asked)
	} else {
		plan = r.state.Plan(asked)
	}
	next, err := r.state.Apply(plan)
	a.ElapsedNS = r.player.Now().Sub(before).Nanoseconds()
	switch {
	case err != nil:
		a.Reason, a.Message = string(rejection.UnexpectedAdmissionError), err.Error()
		return
	case plan.Trace.Cause.Down():
		if a.Endless = plan.Trace.Cause == rejection.KubeletHangs; !a.Endless {
			a.Panic = plan.Rejection.Error()
		}
		return
	case plan.Rejection != nil:
		a.Reason, a.Message = string(plan.Rejection.Reason), plan.Rejection.Error()
		r.state = next
		return
	}
	admitted = true
	r.state = next
	if known && r.player.asKubelet() {
		return // Its containers are already running.
	}
	r.create(plan.Grant, a)
}

func (r *run) create(g *node.Grant, a *Answer) {
	a.Affinity, a.Cgroup = map[string]Affinity{}, map[string]Cgroup{}
	for _, c := range g.Pod.Containers {
		if c.Type != request.App && a.AtAdmit == nil {
			view := ViewOf(r.state)
			a.AtAdmit = &view
		}
	}
	for i, c := range g.Pod.Containers {
		choice := g.Containers[i].Affinity
		affinity := Affinity{Preferred: choice.Preferred}
		if choice.HasMask {
			affinity.NUMA = choice.Mask.Nodes()
		}
		a.Affinity[c.Name] = affinity
		if r.lacksDevices(g, i, a) {
			continue
		}
		cpus, mems := r.state.Cgroup(g, i)
		a.Cgroup[c.Name] = Cgroup{CPUs: cpus.String(), Mems: memsText(mems)}
		r.state = r.state.ContainerCreated(g.Pod.UID, c.Name)
	}
}

// lacksDevices reports whether a kubelet cannot create container i, because no devices were left
// for it.
func (r *run) lacksDevices(g *node.Grant, i int, a *Answer) bool {
	if !r.player.asKubelet() {
		return false
	}
	name := g.Pod.Containers[i].Name
	for _, want := range r.state.Demand(&g.Pod).Containers[i].Devices {
		has := slices.IndexFunc(g.Containers[i].Devices, func(h device.Assigned) bool { return h.Resource == want.Resource })
		if has >= 0 || !r.inventory.Has(want.Resource) {
			continue
		}
		if a.Uncreated == nil {
			a.Uncreated = map[string]string{}
		}
		a.Uncreated[name] = fmt.Sprintf("no %d %s are left", want.Value, want.Resource)
		return true
	}
	return false
}
