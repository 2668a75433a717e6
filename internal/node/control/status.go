package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// Status is what readers see of the loop.
type Status struct {
	// Unmanaged is the reason why Paddock does not manage this node: another manager pins
	// containers. If nil, Paddock manages the node.
	Unmanaged error
	// Connected is true from the end of Synchronize until the connection ends.
	Connected bool
	// Unenforced has the UIDs of pods that have CPUs of their own, if it is not certain that all
	// their containers run on them. Such CPUs must not be reported as assigned.
	Unenforced map[string]bool
	// Vetoes has the reason why the last resize of a pod was rejected, by UID.
	Vetoes map[string]string
	// NoVeto is the reason why resizes are not decided before the kubelet carries them out. If nil,
	// they are, as far as the loop knows.
	NoVeto error
	// Moving are the moves that are under way, in the order of the UIDs of the pods.
	Moving []Moving
	// Unverified are the running containers that do not have the setting that they should have.
	Unverified []Unverified
}

// Verified returns an error about the first of the containers that do not have their settings. It
// returns nil if all containers have them, as far as the loop knows.
func (s *Status) Verified() error {
	if len(s.Unverified) == 0 {
		return nil
	}
	u, more := s.Unverified[0], ""
	if n := len(s.Unverified) - 1; n > 0 {
		more = fmt.Sprintf(", and %d others", n)
	}
	return fmt.Errorf("container %s of pod %s%s: %s; the agent tries again, see its log and paddock verify", u.Container, u.Pod, more, u.Why)
}

// publishUnmanaged publishes that this node is not managed, and logs it the first time.
func (s *step) publishUnmanaged(first bool) {
	s.publish()
	if first {
		s.alert("Paddock does not manage this node", "error", s.unmanaged())
	}
}

// unmanaged returns the reason why Paddock does not manage this node, or nil if it does.
func (l *Loop) unmanaged() error {
	if l.foreign.len() == 0 {
		return nil
	}
	names := make([]string, 0, l.foreign.len())
	var one foreigner
	for _, f := range l.foreign.all() {
		name := f.pod + "/" + f.name
		if len(names) == 0 || name < slices.Min(names) {
			one = *f
		}
		names = append(names, name)
	}
	slices.Sort(names)
	more := ""
	if len(names) > 1 {
		more = fmt.Sprintf(" (and %d others: %s)", len(names)-1, strings.Join(names[1:min(len(names), 5)], ", "))
	}
	return fmt.Errorf("container %s of pod %s%s has cpuset.cpus %q and cpuset.mems %q, which are not in Paddock's state: the kubelet's own managers or another NRI plugin manage this node, "+
		"and two managers would overwrite each other's settings. Set cpuManagerPolicy: none and memoryManagerPolicy: None in the kubelet's configuration, remove its "+
		"cpu_manager_state and memory_manager_state, restart the kubelet, and restart these pods. Paddock then manages this node. If an earlier Paddock left these CPUs, set nri.takeOver: true",
		one.name, one.pod, more, one.setting.CPUs, one.setting.Mems.List())
}

// publish shows readers the present status.
func (s *step) publish() {
	unenforced, vetoes := map[string]bool{}, map[string]string{}
	for uid, p := range s.pods.all() {
		if p.adopting {
			unenforced[uid] = true
		}
		if p.vetoed.Err != nil {
			vetoes[uid] = p.vetoed.Err.Error()
		}
	}
	w := s.want()
	for _, c := range s.containers.all() {
		if !unenforced[c.pod] && w.Owns(c.pod, c.name) && !s.enforced(w, c) {
			unenforced[c.pod] = true
		}
	}
	var moving []Moving
	for _, uid := range s.moving() {
		moving = append(moving, s.pod(uid).move.describe())
	}
	s.do(Publish{&Status{
		Unmanaged: s.unmanaged(), Connected: s.link.synchronised(), Unenforced: unenforced, Vetoes: vetoes, NoVeto: s.link.noVeto, Moving: moving, Unverified: s.unverified(),
	}})
}

// enforced reports whether a container runs on the CPUs that it owns.
func (s *step) enforced(w *converge.Wanted, c *container) bool {
	p, has := s.pod(c.pod), c.everything().CPUs
	if !p.sizing.IsZero() && c.own {
		return true // It runs on CPUs of its pod, and soon on others of them.
	}
	if m := p.move; m != nil && !has.IsEmpty() && m.from.CPUs().Union(m.to.CPUs()).Contains(has) {
		return true // It has both places.
	}
	return has.Equal(w.Setting(c.pod, c.name).CPUs)
}

// reportStranded logs the containers for which there are no CPUs.
func (s *step) reportStranded(stranded []converge.Observed) {
	for _, o := range stranded {
		s.alert("the node shared pool is empty: a container keeps the CPUs that it has", "uid", o.Pod, "container", o.Container, "cpus", o.CPUs.String())
	}
}

// Running is a container of the runtime. Path is its cgroup and Parent the cgroup of its pod, as
// the runtime names them.
type Running struct {
	ID, Who, Pod, Container, Path, Parent string
	Phase                                 converge.Phase
}

// Running returns the containers that the loop knows, in no order.
func (l *Loop) Running() []Running {
	list := make([]Running, 0, l.containers.len())
	for _, c := range l.containers.all() {
		r := Running{ID: c.id, Who: l.who(c.pod), Pod: c.pod, Container: c.name, Path: c.path, Phase: c.phase.known()}
		if parents := l.parents(c.pod); len(parents) > 0 {
			r.Parent = parents[0]
		}
		list = append(list, r)
	}
	return list
}
