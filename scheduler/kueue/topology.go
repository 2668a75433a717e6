package kueue

import (
	"errors"
	"fmt"
)

// topology is the topology assignment of a pod set. Version v1beta1 lists Domains. Version v1beta2
// has Slices, which share what their domains have in common.
type topology struct {
	Levels  []string `json:"levels"`
	Domains []struct {
		Values []string `json:"values"`
		Count  int64    `json:"count"`
	} `json:"domains"`
	Slices []slice `json:"slices"`
}

type slice struct {
	DomainCount    int           `json:"domainCount"`
	ValuesPerLevel []levelValues `json:"valuesPerLevel"`
	PodCounts      struct {
		Universal  *int64  `json:"universal"`
		Individual []int64 `json:"individual"`
	} `json:"podCounts"`
}

type levelValues struct {
	Universal  *string `json:"universal"`
	Individual *struct {
		Prefix string   `json:"prefix"`
		Suffix string   `json:"suffix"`
		Roots  []string `json:"roots"`
	} `json:"individual"`
}

// maxDomains is the largest number of domains that are read. Each is a node or more.
const maxDomains = 100_000

// errDomains means that an assignment does not add up.
var errDomains = errors.New("its domains and their values have different numbers")

// domains returns the domains for this number of pods.
func (t *topology) domains(pods int64) (all []Domain, err error) {
	left := pods
	add := func(d Domain) error {
		if len(d.Values) != len(t.Levels) {
			return errDomains
		}
		if len(all) == maxDomains {
			return fmt.Errorf("it has more than %d domains", maxDomains)
		}
		if left -= d.Count; d.Count < 1 || left < 0 {
			return fmt.Errorf("its domains have another number of pods than the pod set, which has %d", pods)
		}
		all = append(all, d)
		return nil
	}
	for _, d := range t.Domains {
		if err := add(Domain{d.Values, d.Count}); err != nil {
			return nil, err
		}
	}
	for i := range t.Slices {
		s := &t.Slices[i]
		for k := range s.DomainCount {
			d, err := s.domain(k)
			if err == nil {
				err = add(d)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if left != 0 {
		return nil, fmt.Errorf("its domains have %d pods, and the pod set has %d", pods-left, pods)
	}
	return all, nil
}

// domain returns the k-th domain of a slice.
func (s *slice) domain(k int) (d Domain, err error) {
	switch {
	case s.PodCounts.Universal != nil:
		d.Count = *s.PodCounts.Universal
	case k < len(s.PodCounts.Individual):
		d.Count = s.PodCounts.Individual[k]
	default:
		return d, errDomains
	}
	for _, v := range s.ValuesPerLevel {
		switch {
		case v.Universal != nil:
			d.Values = append(d.Values, *v.Universal)
		case v.Individual != nil && k < len(v.Individual.Roots):
			d.Values = append(d.Values, v.Individual.Prefix+v.Individual.Roots[k]+v.Individual.Suffix)
		default:
			return d, errDomains
		}
	}
	return d, nil
}
