package config

import (
	"errors"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// Verdict describes whether a kubelet and Paddock start with a configuration on a machine.
type Verdict struct {
	File    string `json:"file"`
	Machine string `json:"machine"`
	// KubeletStarts and PaddockStarts report whether the kubelet and Paddock start.
	KubeletStarts bool `json:"kubeletStarts"`
	PaddockStarts bool `json:"paddockStarts"`
	// Policy describes the resolved policy, if Paddock starts.
	Policy   string           `json:"policy,omitempty"`
	Problems []VerdictProblem `json:"problems"`
	Warnings []VerdictWarning `json:"warnings"`
	Reserved []Reserved       `json:"suggestedReservedMemory,omitempty"`
}

// VerdictProblem is a field because of which the kubelet or Paddock does not start, or the kubelet
// malfunctions.
type VerdictProblem struct {
	Field string `json:"field"`
	Why   string `json:"why"`
	Do    string `json:"do"`
	// Log is the message that the kubelet logs. If empty, the kubelet starts but malfunctions.
	Log string `json:"log,omitempty"`
	// Paddock reports whether Paddock rejects the field as well.
	Paddock bool `json:"paddock"`
	// File is the drop-in that set the field. It is empty if the field is not of a drop-in.
	File string `json:"file,omitempty"`
}

// VerdictWarning is about a field that has no effect, or a surprising one.
type VerdictWarning struct {
	Field string `json:"field"`
	Why   string `json:"why"`
	// File is as in VerdictProblem.
	File string `json:"file,omitempty"`
}

// Verdict validates the configuration for a machine, some of whose CPUs may be offline. Reserved
// CPUs that are offline prevent a kubelet from starting, but not Paddock. The caller must set File
// and Machine.
func (c *Config) Verdict(m *machine.Machine, offline cpuset.Set) (*Verdict, error) {
	v := &Verdict{KubeletStarts: true, PaddockStarts: true, Problems: []VerdictProblem{}, Warnings: []VerdictWarning{}}
	var ofPaddock, ofKubelet *RejectedError
	policy, err := c.ResolveOffline(m, offline)
	if err == nil {
		v.Policy = Describe(policy)
	} else if !errors.As(err, &ofPaddock) {
		return nil, err
	}
	if _, err = c.Resolve(m); err != nil && !errors.As(err, &ofKubelet) {
		return nil, err
	}
	var problems []Problem
	if ofKubelet != nil {
		problems = ofKubelet.Problems
	}
	for _, p := range append(problems, c.KubeletRejects(m)...) {
		both := ofPaddock != nil && slices.Contains(ofPaddock.Problems, p)
		v.Problems = append(v.Problems, VerdictProblem{p.Field, p.Why, p.Fix, p.Kubelet, both, p.File})
		v.KubeletStarts = v.KubeletStarts && p.Kubelet == ""
		v.PaddockStarts = v.PaddockStarts && !both
	}
	for _, w := range append(c.Warnings(m), c.EmptyNodes(m)...) {
		v.Warnings = append(v.Warnings, VerdictWarning(w))
	}
	v.Reserved = c.SuggestReservedMemory(m)
	return v, nil
}
