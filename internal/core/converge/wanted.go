package converge

import (
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// Wanted answers what containers should run on in one state. It computes each pod once, on the
// first request about it, so the cost of answers about all containers is linear in their number. It
// is not safe for concurrent use.
type Wanted struct {
	state *node.State
	pods  map[string]*pod // by UID; nil for one without a grant
}

// pod is what the containers of one grant should run on.
type pod struct {
	grant   *node.Grant
	quotas  quota.Quotas
	cgroups *node.Cgroups
	kubelet []quota.Quota // see KubeletQuota; nil until needed
	// places has the indexes of containers by name. It is nil if there are few containers.
	places map[string]int
}

// few is the number of containers up to which a linear search is used.
const few = 16

// Want returns the Wanted of a state. It computes nothing yet.
func Want(s *node.State) *Wanted { return &Wanted{state: s, pods: map[string]*pod{}} }

// State returns the state that the answers are about.
func (w *Wanted) State() *node.State { return w.state }

// Setting returns what a container should run on, whatever is known about it. A container that its
// pod had at the admission runs on the online CPUs of its own. If none of them is online, it runs
// elsewhere, with its quota (see node.Cgroups). Any other container runs on the node shared pool,
// with its memory where the runtime put it. If it was added to its pod later, it is an ephemeral
// container and has quota.Quotas.Ephemeral. If its pod has no grant, it has the quota that the
// kubelet wrote. CPUs is empty if the policy does not manage CPUs, or if the node shared pool is
// empty.
func (w *Wanted) Setting(podUID, container string) Setting {
	p := w.pod(podUID)
	if p == nil {
		return Setting{CPUs: w.state.SharedCPUs()}
	}
	if i := p.place(container); i >= 0 {
		return p.setting(i)
	}
	return Setting{CPUs: w.state.SharedCPUs(), Quota: p.quotas.Ephemeral}
}

// Owns reports whether a container has CPUs other than those of the node shared pool: its own, or
// its pod's.
func (w *Wanted) Owns(podUID, container string) bool {
	p := w.pod(podUID)
	if p == nil {
		return false
	}
	i := p.place(container)
	return i >= 0 && p.grant.Isolation(i) != node.HostIsolation
}

// PodQuota returns the CFS quota that the cgroup of a pod should have, or quota.Keep for a pod
// without a grant. A runtime cannot set it through NRI. The agent writes it, and writes it again
// after the kubelet has written its own, which it does when a container of the pod is resized.
func (w *Wanted) PodQuota(podUID string) quota.Quota {
	if p := w.pod(podUID); p != nil {
		return p.quotas.Pod
	}
	return quota.Keep
}

// KubeletQuota returns the quota that the kubelet wrote for a container before Paddock replaced it,
// computed from its pod's request. It returns quota.Keep if the quota was not replaced. A container
// that the pod did not have when it was admitted is an ephemeral container, which has no limit.
func (w *Wanted) KubeletQuota(podUID, container string) quota.Quota {
	p := w.pod(podUID)
	if p == nil {
		return quota.Keep
	}
	i := p.place(container)
	if i < 0 {
		return p.quotas.KubeletEphemeral(p.grant)
	}
	if p.kubelet == nil {
		p.kubelet = quota.Kubelet(p.grant, w.state.Policy())
	}
	return p.kubelet[i]
}

// Compare compares running containers with the state.
func (w *Wanted) Compare(observed []Observed) Report {
	var r Report
	for _, o := range observed {
		i := -1
		p := w.pod(o.Pod)
		if p != nil {
			i = p.place(o.Container)
		}
		if i < 0 {
			r.Strangers = append(r.Strangers, o)
			continue
		}
		want := p.setting(i)
		if want.CPUs.IsEmpty() && w.state.Policy().StaticCPU {
			r.Stranded = append(r.Stranded, o)
			continue
		}
		if after := want.over(o.Setting); !after.Equal(o.Setting) {
			r.Updates = append(r.Updates, Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: after})
		}
	}
	Order(r.Updates)
	return r
}

// over returns what a container that has the setting now should have: what is not managed stays.
func (s Setting) over(now Setting) Setting {
	if !s.CPUs.IsEmpty() {
		now.CPUs = s.CPUs
		if s.Quota != quota.Keep {
			now.Quota = s.Quota
		}
	}
	if !s.Mems.IsEmpty() {
		now.Mems = s.Mems
	}
	return now
}

// pod returns the pod of the grant, and computes it on first use. It returns nil if there is no
// grant.
func (w *Wanted) pod(uid string) *pod {
	p, computed := w.pods[uid]
	if computed {
		return p
	}
	if g, known := w.state.Grant(uid); known {
		p = &pod{grant: g, quotas: quota.Now(w.state, g), cgroups: w.state.Cgroups(g)}
		if len(g.Pod.Containers) > few && !g.Pod.Estimated {
			p.places = make(map[string]int, len(g.Pod.Containers))
			for i := len(g.Pod.Containers) - 1; i >= 0; i-- { // The first container of a name counts.
				p.places[g.Pod.Containers[i].Name] = i
			}
		}
	}
	w.pods[uid] = p
	return p
}

// place returns the index of a container, or -1. See request.Pod.Container.
func (p *pod) place(name string) int {
	if p.places == nil {
		_, i := p.grant.Pod.Container(name)
		return i
	}
	if i, known := p.places[name]; known {
		return i
	}
	return -1
}

// setting returns what container i should run on.
func (p *pod) setting(i int) Setting {
	cpus, mems := p.cgroups.Of(i)
	return Setting{CPUs: cpus, Mems: mems, Quota: p.quotas.Containers[i]}
}
