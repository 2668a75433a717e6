package cluster

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/grantform"
)

// Shown is the printable form of what is known of a node.
type Shown struct {
	Node string `json:"node"`
	// Problem describes why the node takes no pod that requests exclusive resources. If empty,
	// nothing is wrong.
	Problem string `json:"problem,omitempty"`
	// Unsure describes why it is not known what the kubelet of the node decides. If it is set, the
	// node takes every pod.
	Unsure string `json:"unsure,omitempty"`
	// Kubelet is the version of the kubelet that decides. If empty, the agent decides. Orders is the
	// number of results that it can come to about the pods that wait for it.
	Kubelet string `json:"kubelet,omitempty"`
	Orders  int    `json:"orders,omitempty"`
	// Machine and Policy are digests. Revision is that of the state that the node published.
	Machine  string `json:"machine,omitempty"`
	Policy   string `json:"policy,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	// FreeCPUs are the CPUs that are neither assigned to a pod nor reserved.
	FreeCPUs string       `json:"freeCPUs"`
	Pods     []ShownGrant `json:"pods"`
}

// ShownGrant is a pod that is bound to the node, or reserved.
type ShownGrant struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Origin    string `json:"origin"`
	// Contradicted is set if the grant of the origin contradicts others. Grant is then planned
	// here.
	Contradicted bool `json:"contradicted,omitempty"`
	// Grant has the form of the agent's state file. If it is missing, the pod has no exclusive
	// resources, or does not fit.
	Grant json.RawMessage `json:"grant,omitempty"`
}

// Show returns what is known of a node after all events that the pod informer has seen. It returns
// nil if the node has no objects.
func (c *Cluster) Show(name string) *Shown {
	m := (*c.members.Load())[name]
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compare()
	at := m.at.Load()
	out := &Shown{Node: name, Problem: at.Problem, Unsure: at.Unsure, Pods: []ShownGrant{}}
	if m.source.Node != nil {
		out.Machine, out.Policy, out.Revision = m.source.Here.Machine, m.source.Here.Policy, m.source.Revision
		if k := m.source.Kubelet; k != nil {
			out.Kubelet, out.Orders = k.Version.String(), 1+len(at.Others)
		}
	}
	if at.View == nil {
		return out
	}
	out.FreeCPUs = at.View.State.AvailableCPUs().String()
	for uid, h := range m.pods {
		p := ShownGrant{UID: uid, Namespace: h.namespace, Name: h.name, Origin: string(h.origin), Contradicted: h.contradicted}
		if g, has := at.View.State.Grant(uid); has {
			p.Namespace, p.Name = g.Pod.Namespace, g.Pod.Name
			if text, err := grantform.Encode(g); err == nil { // A grant that cannot be encoded cannot be read either.
				p.Grant = text
			}
		}
		out.Pods = append(out.Pods, p)
	}
	slices.SortFunc(out.Pods, func(a, b ShownGrant) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
	})
	return out
}
