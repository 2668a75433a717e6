package prediction

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	api "github.com/paddock-project/paddock/api/predict/v1alpha1"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/core/spec"
)

// question is a pod of a call. It keeps the request by feature gates: nodes of a cluster have few.
type question struct {
	pod      spec.Pod
	requests map[spec.Gates]request.Pod
}

func questionOf(p *api.Pod) (*question, error) {
	switch {
	case p == nil:
		return nil, errors.New("it is missing")
	case p.GetUid() == "":
		return nil, fmt.Errorf("%s/%s has no uid", p.GetNamespace(), p.GetName())
	}
	q := &question{requests: map[spec.Gates]request.Pod{}}
	q.pod.Identity = request.Identity{UID: p.GetUid(), Namespace: p.GetNamespace(), Name: p.GetName()}
	q.pod.PodLevel = resources(p.GetResources())
	q.pod.EmptyLevel = p.GetResources() != nil
	for _, c := range p.GetContainers() {
		out := spec.Container{Name: c.GetName(), Resources: resources(c.GetResources()), Type: -1}
		switch c.GetType() {
		case api.Container_APP:
			out.Type = request.App
		case api.Container_INIT:
			out.Type = request.Init
		case api.Container_SIDECAR:
			out.Type = request.Sidecar
		}
		var err error
		if out.Given, err = givenOf(c.GetGiven()); err != nil {
			return nil, fmt.Errorf("container %s: %w", c.GetName(), err)
		}
		q.pod.Containers = append(q.pod.Containers, out)
	}
	return q, nil
}

func givenOf(list []*api.GivenDevice) (out []request.Given, err error) {
	for _, d := range list {
		nodes, err := mask.Collect(d.GetNumaNodes())
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", d.GetName(), err)
		}
		out = append(out, request.Given{Resource: d.GetResource(), Driver: d.GetDriver(), Pool: d.GetPool(), Claim: d.GetClaim(), Name: d.GetName(), Nodes: nodes})
	}
	return out, nil
}

func resources(r *api.Resources) spec.Resources {
	amounts := func(list map[string]int64) (out request.Amounts) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if list[name] != 0 {
				out = append(out, request.Amount{Resource: name, Value: list[name]})
			}
		}
		return out
	}
	return spec.Resources{Requests: amounts(r.GetRequests()), Limits: amounts(r.GetLimits())}
}

// of returns what the pod asks for under a policy.
func (q *question) of(p *node.Policy) (request.Pod, error) {
	gates := spec.Gates{PodLevelResources: p.PodLevelResources, PodLevelManagers: p.PodLevelManagers}
	if r, ok := q.requests[gates]; ok {
		return r, nil
	}
	r, err := q.pod.Request(gates)
	q.requests[gates] = r
	return r, err
}

// batch answers the questions of one call.
type batch struct {
	detail, stale bool
	age           time.Duration
	scratch       node.Scratch
}

func (b *batch) answer(k *known, q *question) (*api.Answer, error) {
	policy := k.State.Policy()
	pod, err := q.of(&policy)
	if err != nil {
		return nil, err
	}
	out := &api.Answer{Node: k.Name, PodUid: pod.UID, Version: k.version, AgeMillis: b.age.Milliseconds()}
	var v node.Verdict
	if b.detail {
		p := k.State.Preview(pod)
		v = p.Verdict()
		if p.Rejection != nil {
			out.Container, out.Message = p.Rejection.Container, strings.ToValidUTF8(p.Rejection.Detail, "?")
		} else {
			out.Assignment = assignment(p.Grant)
		}
	} else {
		v = k.State.Admits(&pod, &b.scratch)
	}
	out.Fits, out.Reason, out.Resource, out.Wanted = v.Fits, string(v.Reason), v.Resource, v.Wanted
	b.certainty(out, k, &pod, &policy)
	return out, nil
}

func (b *batch) certainty(out *api.Answer, k *known, pod *request.Pod, policy *node.Policy) {
	out.Doubts = append(slices.Clone(k.Doubts), node.DeviceDoubts(pod, k.State.Devices().Inventory(), k.State.Machine().NodeMask())...)
	switch {
	case b.stale:
		out.Certainty = api.Answer_UNKNOWN
	case len(out.Doubts) > 0:
		out.Certainty = api.Answer_UNSURE
	case policy.Behavior != node.Behavior{}:
		out.Certainty = api.Answer_PREDICTED
	default:
		out.Certainty = api.Answer_CERTAIN
	}
}

func assignment(g *node.Grant) *api.Assignment {
	out := &api.Assignment{PoolCpus: g.Pool.String()}
	for i := range g.Containers {
		c := &g.Containers[i]
		a := &api.ContainerAssignment{Name: g.Pod.Containers[i].Name, Cpus: c.CPUs.String(), Exclusive: g.Isolation(i) == node.ContainerIsolation}
		for _, n := range c.MemoryNodes.Nodes() {
			a.NumaNodes = append(a.NumaNodes, int32(n))
		}
		for _, d := range c.Devices {
			for _, id := range d.IDs {
				a.Devices = append(a.Devices, &api.Device{Resource: d.Resource, Id: id})
			}
		}
		out.Containers = append(out.Containers, a)
	}
	return out
}
