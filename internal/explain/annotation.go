package explain

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Annotation is an annotation that the pod's manifest would have.
type Annotation struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// annotations looks for an annotation that admits the pod. There is one: with the option
// isolated-cpus, the containers that share a pool run on no isolated CPU, unless the pod has the
// annotation (R-CPU-136). A pod that is admitted with it is rejected for its shared part alone,
// because everything else that it asks for stays the same.
func (x *search) annotations() ([]Proposal, string) {
	inParts := func(v node.Division) bool { return v.InParts }
	if !slices.ContainsFunc(x.trace.Divisions, inParts) {
		return nil, ""
	}
	x.what, x.rule, x.limit = "a shared part of isolated CPUs", "R-CPU-136", 1
	shares := Proposal{Kind: Annotations, Annotations: []Annotation{{request.SharedPoolAnnotation, request.SharedPoolIsolated}}}
	p := x.plan(x.state, annotated(x.pod, shares.Annotations))
	if p == nil {
		return nil, "does not admit it"
	}
	shares.Text = fmt.Sprintf("set annotation %s to %s: its containers may then share isolated CPUs, where the kernel does not balance load", request.SharedPoolAnnotation, request.SharedPoolIsolated)
	shares.Outcome = outcome(x.state, p)
	return []Proposal{shares}, "1 would admit it"
}

// annotated returns the pod with annotations.
func annotated(pod request.Pod, with []Annotation) request.Pod {
	for _, a := range with {
		pod.SharesIsolated = pod.SharesIsolated || a == Annotation{request.SharedPoolAnnotation, request.SharedPoolIsolated}
	}
	return pod
}
