package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Residue is a part of what a kubelet has assigned and no grant explains. What is free in a state
// is computed with its residue: grants, residue and what is free make up the machine, for CPUs by
// id and for bytes by NUMA node and size (Check). There is no residue where Paddock decides.
type Residue struct {
	// Cause is the fault that left the residue. Pod is the pod at which that happened, as
	// "namespace/name". They are NoFault and empty if that is not known.
	Cause Fault
	Pod   string
	// Likely names the pods whose first pools the CPUs most likely are if Pod is empty; see
	// FirstPools. It can be empty.
	Likely string
	// CPUs are neither assigned to a pod nor free.
	CPUs cpuset.Set
	// Twice has the CPUs of a pod that are also another pod's, reserved or free.
	Twice cpuset.Set
	// Memory is what the accounting has beyond the grants. Negative bytes are assigned and not
	// accounted for.
	Memory []memory.Excess
}

// String returns the name of the entry in an account.
func (r Residue) String() string {
	switch {
	case r.Pod == "" && r.Likely != "":
		return "most likely the first pool of " + r.Likely
	case r.Pod == "":
		return "left of an unknown pod"
	}
	return fmt.Sprintf("left of %s (%s)", r.Pod, r.Cause)
}

// StopsStart reports whether a kubelet does not start on files that have the residue under a
// policy: CPUs that are neither free nor assigned, reserved CPUs that are assigned, or memory that
// does not add up.
func (r *Residue) StopsStart(p *Policy) bool {
	return r.Cause != FaultKeepsRejected && (!r.CPUs.IsEmpty() || r.Twice.Intersects(p.ReservedCPUs) || len(r.Memory) > 0)
}

// Starts reports whether a kubelet starts on files that have the residue of the state.
func (s *State) Starts() bool {
	return !slices.ContainsFunc(s.Residue(), func(r Residue) bool { return r.StopsStart(&s.policy) })
}

func (r *Residue) isEmpty() bool {
	return r.CPUs.IsEmpty() && r.Twice.IsEmpty() && len(r.Memory) == 0
}

// past is what a kubelet keeps between admissions beside its assignments. Everything except stale
// ends with the kubelet's restart.
type past struct {
	// cpus and memory are what the init containers of the pods that were served last left
	// (Behavior.KeepsReuse). cpusOf and memoryOf are the UIDs of these pods.
	cpusOf, memoryOf string
	cpus             cpuset.Set
	memory           memory.Reuse
	// stale is what a rejected pod has until the next pod comes or goes (Behavior.KeepsRejected).
	// It is nil if there is nothing.
	stale *Grant
}

// left is what an admission leaves in a kubelet.
type left struct {
	// on is the state for which the pod was planned: the base after the kubelet's sweep.
	on   *State
	past past
	ledger
}

// swept returns the state after a kubelet released what is left of a rejected pod, which it does
// when the next pod comes or goes. comes is the UID of the pod that comes. If that is the rejected
// pod, it finds what it has.
func (s *State) swept(comes string) *State {
	if s.past == nil || s.past.stale == nil || s.past.stale.Pod.UID == comes && comes != "" {
		return s
	}
	n, k := *s, *s.past
	g := k.stale
	k.stale = nil
	n.past = &k
	n.unassigned = s.unassigned.Union(g.CPUs()).Intersection(s.sharable())
	n.usage = s.usage.Release(g.Charged())
	n.devices = returnDevices(s.devices, g.Devices())
	n.settle(&g.Pod, nil)
	return &n
}

// Swept returns the state after a kubelet's sweep: nothing is left of a rejected pod.
func (s *State) Swept() *State { return s.swept("") }

// leaves returns what the kubelet has after the draft. The draft must not be used afterwards.
func (d *draft) leaves(rejected bool) *left {
	l := &left{on: d.s}
	l.ledger = d.without(d.ledger)
	if d.s.past != nil {
		l.past = *d.s.past
	}
	b := &d.s.policy.Behavior
	if d.served && b.KeepsReuse {
		l.past.cpusOf, l.past.cpus = d.pod.UID, d.reusableCPUs
	}
	if d.pinned && b.KeepsReuse {
		l.past.memoryOf, l.past.memory = d.pod.UID, d.reusableMemory
	}
	l.past.stale = nil
	if rejected {
		l.past.stale = d.stale()
	}
	return l
}

// stale returns what the pod of a draft that ended with a rejection has in the kubelet: what it was
// given, and otherwise what it had. Its sequence is 0 if it was never admitted. stale returns nil
// if the pod has nothing.
func (d *draft) stale() *Grant {
	g := &Grant{Pod: d.pod, Pool: d.pool, PoolMemory: d.poolMemory, Containers: slices.Clone(d.containers)}
	if had := d.had(); had != nil {
		g.Sequence = had.Sequence
		g.keep(had)
	}
	if !g.OwnsAnything() || !d.s.policy.Behavior.KeepsRejected {
		return nil
	}
	return g
}

// keep adds what the pod had and was not given again. A kubelet does not change such an entry, even
// if the pod takes another path than when it was admitted.
func (g *Grant) keep(had *Grant) {
	if g.Pool.IsEmpty() {
		g.Pool = had.Pool
	}
	if len(g.PoolMemory) == 0 {
		g.PoolMemory = had.PoolMemory
	}
	for i := range g.Containers {
		c, old := &g.Containers[i], &had.Containers[i]
		if c.CPUs.IsEmpty() {
			c.CPUs = old.CPUs
		}
		if len(c.Memory) == 0 {
			c.Memory, c.MemoryNodes = old.Memory, old.MemoryNodes
		}
		if len(c.Devices) == 0 {
			c.Devices = old.Devices
		}
	}
}

// applyAs implements Apply for a plan that was made with a Behavior.
func (s *State) applyAs(p *Plan) (*State, error) {
	l := p.left
	if p.Grant == nil && l.past.stale == nil {
		n := *l.on
		n.past = &l.past
		return &n, nil
	}
	if s.generation >= MaxGeneration {
		return nil, fmt.Errorf("%w: %d is the last", ErrExhausted, s.generation)
	}
	n := l.on.next()
	n.past, n.ledger = &l.past, l.ledger
	_, known := l.on.Grant(p.Pod.UID)
	switch {
	case p.Grant != nil:
		n.grants = l.on.grants.with(p.Grant)
	case known:
		n.grants = l.on.grants.without(p.Pod.UID)
	}
	if known || p.Grant == nil || l.on.Stale() != nil || n.Stale() != nil || !n.gave(l.on, p.Grant) {
		n.settle(&p.Pod, p.Trace.Met)
	}
	return n, nil
}

// gave reports whether s differs from the state before in that g has free CPUs and memory of it,
// and in nothing else. The residue is then the same. settle finds it out from all grants of the
// node; this looks at one.
func (s *State) gave(before *State, g *Grant) bool {
	if s.policy.StaticCPU {
		set := g.everything()
		if !before.unassigned.Contains(set) || set.Intersects(s.policy.ReservedCPUs) || !s.unassigned.Equal(before.unassigned.Difference(set)) {
			return false
		}
	}
	return len(s.usage.Beyond(before.usage.Charge(g.Charged(), nil))) == 0
}

// Residue returns what the grants do not explain. What is left of a rejected pod comes last.
func (s *State) Residue() []Residue {
	if s.past == nil || s.past.stale == nil {
		return s.residue
	}
	g := s.past.stale
	nothing := memory.NewUsage(s.capacity)
	return append(slices.Clip(s.residue), Residue{
		Cause: FaultKeepsRejected, Pod: g.Pod.ID(), CPUs: g.CPUs(), Memory: nothing.Charge(g.Charged(), nil).Beyond(nothing),
	})
}

// Stale returns what is left of a rejected pod in a kubelet until the next pod comes or goes. It
// returns nil if there is nothing.
func (s *State) Stale() *Grant {
	if s.past == nil {
		return nil
	}
	return s.past.stale
}

// As returns Paddock's state as the state of a kubelet with the behavior. There is no way back to a
// state of Paddock, which has no residue. PlanAs gives Paddock's answer on such a state.
func (s *State) As(b Behavior) *State {
	n := *s
	n.basis = s.under(s.policy.As(b))
	if b != (Behavior{}) {
		n.usage = s.usage.Kept()
	}
	n.settle(&request.Pod{}, nil)
	return &n
}

// Found returns the state of a kubelet whose files have this node shared pool, and this accounting
// of memory, which has the NUMA nodes of the machine, ascending. Nil means the accounting of the
// pods' blocks. Memory and CPUs that are neither free nor assigned are residue of a pod that is not
// known: no pod gets them.
func (s *State) Found(shared cpuset.Set, accounting []memory.NodeUsage) *State {
	n := *s
	n.unassigned, n.residue = shared.Intersection(s.sharable()), nil
	if accounting != nil {
		n.usage = s.usage.Found(accounting)
	}
	n.settle(&request.Pod{}, nil)
	if len(n.residue) > 0 && s.policy.Behavior.AdmitsAgain {
		var pools []OwnPool
		for g := range s.grants.all() {
			pools = append(pools, OwnPool{g.Pod.ID(), g.Pool.Len()})
		}
		n.residue[0].Likely = FirstPools(n.residue[0].CPUs.Len(), pools)
	}
	return &n
}

// OwnPool is how many CPUs the pool of a pod has, or 0 if it has none.
type OwnPool struct {
	Pod  string
	CPUs int
}

// FirstPools names the pods whose first pools lost CPUs most likely are: at its start, a kubelet
// can assign a second pool of the same size to a pod, and not release the first (FaultAdmitsAgain).
// It returns "" if the number of lost CPUs is neither that of a pool nor that of all pools.
func FirstPools(lost int, pools []OwnPool) string {
	var same, all []string
	sum := 0
	for _, p := range pools {
		if p.CPUs > 0 {
			all, sum = append(all, p.Pod), sum+p.CPUs
		}
		if p.CPUs == lost && lost > 0 {
			same = append(same, p.Pod)
		}
	}
	switch {
	case len(same) > 0:
		return strings.Join(same, " or ")
	case lost > 0 && lost == sum:
		return strings.Join(all, " and ")
	}
	return ""
}

// Restarted returns the state after the restart of a kubelet with the same configuration: what it
// kept for its pods beside their assignments is gone.
func (s *State) Restarted() *State {
	if s.past == nil {
		return s
	}
	n := *s
	n.past = nil
	if s.past.stale != nil {
		n.past = &past{stale: s.past.stale}
	}
	return &n
}

// RestartedWith is Restarted with another policy. It returns the error of Restore for a grant that
// is not valid under the policy. A state with a residue keeps it. A kubelet that checks its files
// does not start on such a state.
func (s *State) RestartedWith(p Policy) (*State, error) {
	n := s.Restarted()
	if len(n.residue) > 0 {
		with := *n
		with.basis = n.under(p)
		return &with, nil
	}
	restored, err := Restore(s.machine, p, n.Grants())
	if err != nil {
		return nil, err
	}
	if restored, err = restored.WithDevices(s.devices.Inventory()); err != nil {
		return nil, err
	}
	if restored.past = n.past; n.past != nil {
		restored.unassigned = restored.unassigned.Difference(n.past.stale.CPUs())
		restored.usage = restored.usage.Charge(n.past.stale.Charged(), nil)
	}
	if restored.capacity.Equal(s.capacity) { // The kubelet reads its accounting from its file.
		restored.usage = s.usage
	}
	return restored, nil
}

// unexplained returns, as one entry, what the state has beyond its grants and what is left of a
// rejected pod.
func (s *State) unexplained() Residue {
	var once, twice cpuset.Builder
	fresh := memory.NewUsage(s.capacity)
	add := func(set cpuset.Set) {
		for id := range set.All() {
			if once.Has(id) {
				twice.Add(id)
			}
		}
		once.AddSet(set)
	}
	hold := func(g *Grant) {
		add(g.everything())
		fresh = fresh.Charge(g.Charged(), nil)
	}
	for g := range s.grants.all() {
		hold(g)
	}
	if stale := s.Stale(); stale != nil {
		hold(stale)
	}
	add(s.unassigned.Union(s.policy.ReservedCPUs))
	r := Residue{Memory: s.usage.Beyond(fresh)}
	if s.policy.StaticCPU {
		r.CPUs, r.Twice = s.machine.AllCPUs().Difference(once.Set()), twice.Set()
	}
	return r
}

// everything returns all CPUs of the pod. A kubelet can cut slices out of a pool that are not in
// the pool.
func (g *Grant) everything() cpuset.Set {
	set := g.CPUs()
	for i := range g.Containers {
		set = set.Union(g.Containers[i].CPUs)
	}
	return set
}

// settle updates the residue of the state after a change at a pod. met has the faults of the
// decision. What earlier entries do not explain becomes a new entry for the pod.
func (s *State) settle(pod *request.Pod, met []Met) {
	if s.policy.Behavior == (Behavior{}) {
		return
	}
	now := s.unexplained()
	var entries []Residue
	for _, r := range s.residue {
		r.CPUs, r.Twice = r.CPUs.Intersection(now.CPUs), r.Twice.Intersection(now.Twice)
		now.CPUs, now.Twice = now.CPUs.Difference(r.CPUs), now.Twice.Difference(r.Twice)
		r.Memory, now.Memory = memory.Shared(r.Memory, now.Memory)
		if !r.isEmpty() {
			entries = append(entries, r)
		}
	}
	if !now.isEmpty() {
		if now.Cause = causeOf(met); pod.UID != "" {
			now.Pod = pod.ID()
		}
		if now.Cause == NoFault && len(s.residue) > 0 {
			now.Cause, now.Pod = s.residue[0].Cause, s.residue[0].Pod
		}
		entries = append(entries, now)
	}
	s.residue = entries
}

// causeOf returns the first fault in met that leaves a residue.
func causeOf(met []Met) Fault {
	for _, m := range met {
		switch m.Fault {
		case FaultAdmitsAgain, FaultKeepsReuse, FaultAverageUnits, FaultSingleOfGroup, FaultEndedInits:
			return m.Fault
		default:
		}
	}
	return NoFault
}

// checkResidue proves that the residue is what the grants do not explain, and that it is empty
// where Paddock decides.
func (s *State) checkResidue() error {
	if s.policy.Behavior == (Behavior{}) {
		if len(s.residue) > 0 || s.past != nil {
			return broken("it has a residue, %s, where Paddock decides", s.Residue()[0])
		}
		return nil
	}
	now := s.unexplained()
	var cpus, twice cpuset.Set
	usage := s.usage.Less(now.Memory)
	for _, r := range s.residue {
		if r.isEmpty() || cpus.Intersects(r.CPUs) {
			return broken("its residue has an entry without an amount, or CPUs %s twice: %s", cpus.Intersection(r.CPUs), r)
		}
		cpus, twice = cpus.Union(r.CPUs), twice.Union(r.Twice)
		usage = usage.Plus(r.Memory)
	}
	switch {
	case !cpus.Equal(now.CPUs):
		return broken("its residue has CPUs %q, and grants and free CPUs leave %q", cpus, now.CPUs)
	case !twice.Equal(now.Twice):
		return broken("its residue has CPUs %q as assigned twice, and %q are", twice, now.Twice)
	case !usage.Equal(s.usage):
		return broken("the memory accounting is not the sum of the grants and the residue")
	}
	return nil
}
