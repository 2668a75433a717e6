package main

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/kubeletcfg"
	"github.com/paddock-project/paddock/internal/podspec"
)

// TestProposedManifestsAreAdmitted: the example pods, made too large for the example machine, are
// admitted with the amounts that are proposed, as manifests.
func TestProposedManifestsAreAdmitted(t *testing.T) {
	var machine machineFlag
	machine.from = "../../examples/machines/epyc-2s-nps4.json"
	found, err := machine.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	policy, _ := kubeletcfg.Default(found.Machine)
	policy.Topology = node.TopologySingleNUMANode
	gates := gatesOf(policy)
	state, err := node.New(found.Machine, policy)
	if err != nil {
		t.Fatal(err)
	}
	sources, _, err := podspec.ReadFiles([]string{"../../examples/pods"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	proved := 0
	for _, s := range sources {
		e, err := explainOne(state, podspec.Default(s.Pod, gates), gates, func() ([]explain.Place, error) { return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		if e.Remedies == nil {
			continue
		}
		for _, p := range e.Remedies.Proposals {
			if p.Kind != explain.Amounts {
				continue
			}
			admit(t, state, podspec.Default(withAmounts(s.Pod, p.Changes), gates), gates, p.Text)
			proved++
		}
	}
	if proved < 2 {
		t.Errorf("%d proposals, too few", proved)
	}
}

func admit(t *testing.T, state *node.State, pod *v1.Pod, gates podspec.Gates, text string) {
	t.Helper()
	if invalid := podspec.Validate(pod, gates); len(invalid) > 0 {
		t.Errorf("%s: %v", text, invalid)
	}
	asked, err := podspec.Request(pod, gates)
	if err != nil {
		t.Fatal(err)
	}
	if r := state.Plan(asked).Refusal; r != nil {
		t.Errorf("%s: %v", text, r)
	}
}

// TestIllegalProposalsAreLeftOut: a container that shares requests memory, which the pod must have.
func TestIllegalProposalsAreLeftOut(t *testing.T) {
	sources, _, err := podspec.ReadFiles([]string{"testdata/sharing.yaml"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	gates := podspec.Gates{PodLevelResources: true, PodLevelManagers: true}
	r := explain.Remedies{Proposals: []explain.Proposal{
		{Kind: explain.Amounts, Text: "too little", Changes: []explain.Change{{Resource: "memory", From: 4 << 30, To: 1 << 30}}},
		{Kind: explain.Amounts, Text: "enough", Changes: []explain.Change{{Resource: "memory", From: 4 << 30, To: 3 << 30}}},
	}}
	dropIllegal(&r, sources[0].Pod, gates)
	if len(r.Proposals) != 1 || r.Proposals[0].Text != "enough" || len(r.Tried) != 1 {
		t.Errorf("left: %+v, tried: %+v", r.Proposals, r.Tried)
	}
}
