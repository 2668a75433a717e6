package config

import (
	"errors"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// Verdict is whether a kubelet and Paddock start with a configuration on a machine.
type Verdict struct {
	File    string `json:"file"`
	Machine string `json:"machine"`
	// KubeletStarts and PaddockStarts are the answers.
	KubeletStarts bool `json:"kubeletStarts"`
	PaddockStarts bool `json:"paddockStarts"`
	// Policy is what the configuration comes to, if Paddock starts with it.
	Policy   string           `json:"policy,omitempty"`
	Problems []VerdictProblem `json:"problems"`
	Warnings []VerdictWarning `json:"warnings"`
	Reserved []Reserved       `json:"suggestedReservedMemory,omitempty"`
}

// VerdictProblem is a field with which the kubelet or Paddock does not start, or the kubelet goes
// wrong.
type VerdictProblem struct {
	Field string `json:"field"`
	Why   string `json:"why"`
	Do    string `json:"do"`
	// Log is what the kubelet logs; if it is empty, the kubelet starts and goes wrong.
	Log string `json:"log,omitempty"`
	// Paddock reports whether Paddock rejects it as well.
	Paddock bool `json:"paddock"`
}

// VerdictWarning is a field that has no effect, or one that surprises.
type VerdictWarning struct {
	Field string `json:"field"`
	Why   string `json:"why"`
}

// Verdict judges the configuration for a machine of which CPUs may be offline. Reserved CPUs that
// are offline stop a kubelet, and not Paddock. File and Machine are the caller's to fill in.
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
		v.Problems = append(v.Problems, VerdictProblem{p.Field, p.Why, p.Fix, p.Kubelet, both})
		v.KubeletStarts = v.KubeletStarts && p.Kubelet == ""
		v.PaddockStarts = v.PaddockStarts && !both
	}
	for _, w := range append(c.Warnings(m), c.EmptyNodes(m)...) {
		v.Warnings = append(v.Warnings, VerdictWarning(w))
	}
	v.Reserved = c.SuggestReservedMemory(m)
	return v, nil
}
