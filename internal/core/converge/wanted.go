package converge

import "github.com/paddock-project/paddock/internal/core/node"

// Wanted answers what containers should run on in one state. It computes each pod once, when it is
// asked about it first, so answers about all containers cost no more than their number. Not for
// concurrent use.
type Wanted struct {
	state *node.State
	pods  map[string]*pod // by UID; nil for one without a grant
}

// pod is what the containers of one grant should run on.
type pod struct {
	grant   *node.Grant
	quotas  node.Quotas
	cgroups *node.Cgroups
	kubelet []node.Quota // see KubeletQuota; nil until it is asked for
	// places are the positions of containers by name; nil: there are few.
	places map[string]int
}

// few is how many containers are looked through one by one.
const few = 16

// Want is what containers should run on in a state. Nothing is computed yet.
func Want(s *node.State) *Wanted { return &Wanted{state: s, pods: map[string]*pod{}} }

// State is the state that the answers are of.
func (w *Wanted) State() *node.State { return w.state }

// Setting is what a container should run on, whatever is known of it. One that its pod had when it
// was admitted runs on what is online of its CPUs. One of which no CPU is online runs elsewhere,
// with its quota; see node.Cgroups. Any other runs on the node shared pool, memory where the
// runtime put it: one that was added to its pod later, which is an ephemeral container, with
// node.Quotas.Ephemeral; one of a pod without a grant with the quota that the kubelet wrote. CPUs
// are empty where the policy does not manage them, and where the node shared pool is empty.
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

// Owns reports whether a container has CPUs that are not the node's: its own, or its pod's.
func (w *Wanted) Owns(podUID, container string) bool {
	p := w.pod(podUID)
	if p == nil {
		return false
	}
	i := p.place(container)
	return i >= 0 && p.grant.Isolation(i) != node.HostIsolation
}

// PodQuota is the CFS quota that the cgroup of a pod should have; node.KeepQuota for a pod
// without a grant. A runtime cannot set it through NRI: the agent writes it, and again
// after the kubelet has written its own, as it does when a container of the pod is resized.
func (w *Wanted) PodQuota(podUID string) node.Quota {
	if p := w.pod(podUID); p != nil {
		return p.quotas.Pod
	}
	return node.KeepQuota
}

// KubeletQuota is what the kubelet wrote for a container before Paddock replaced it, as far as its
// pod's request shows; node.KeepQuota if it was not replaced.
func (w *Wanted) KubeletQuota(podUID, container string) node.Quota {
	p := w.pod(podUID)
	if p == nil {
		return node.KeepQuota
	}
	i := p.place(container)
	if i < 0 {
		return node.KeepQuota
	}
	if p.kubelet == nil {
		p.kubelet = p.grant.KubeletQuotas(w.state.Policy())
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

// over is what a container should have that has a setting now: what is not managed stays.
func (s Setting) over(now Setting) Setting {
	if !s.CPUs.IsEmpty() {
		now.CPUs = s.CPUs
		if s.Quota != node.KeepQuota {
			now.Quota = s.Quota
		}
	}
	if !s.Mems.IsEmpty() {
		now.Mems = s.Mems
	}
	return now
}

// pod is that of the grant, computed now if it was not before; nil: there is no grant.
func (w *Wanted) pod(uid string) *pod {
	p, computed := w.pods[uid]
	if computed {
		return p
	}
	if g, known := w.state.Grant(uid); known {
		p = &pod{grant: g, quotas: w.state.Quotas(g), cgroups: w.state.Cgroups(g)}
		if len(g.Pod.Containers) > few && !g.Pod.Estimated {
			p.places = make(map[string]int, len(g.Pod.Containers))
			for i := len(g.Pod.Containers) - 1; i >= 0; i-- { // The first of a name counts.
				p.places[g.Pod.Containers[i].Name] = i
			}
		}
	}
	w.pods[uid] = p
	return p
}

// place is the position of a container, or -1; see request.Pod.Container.
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

// setting is what container i should run on.
func (p *pod) setting(i int) Setting {
	cpus, mems := p.cgroups.Of(i)
	return Setting{CPUs: cpus, Mems: mems, Quota: p.quotas.Containers[i]}
}
