package inputs

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Gates returns the feature gates of the first kind, with which manifests are read and checked.
// FleetPod reads a pod with the gates of every kind.
func (f *FleetNodes) Gates() podspec.Gates {
	if len(f.Kinds) == 0 {
		return podspec.Gates{}
	}
	return podspec.GatesOf(f.Kinds[0].State.Policy())
}

// otherGates returns the gates of kinds that differ from those of the first one. Most fleets have
// none. There can be 10,000 kinds and more pods, so they are collected once.
func (f *FleetNodes) otherGates() []podspec.Gates {
	if f.others == nil {
		f.others = []podspec.Gates{}
		first := f.Gates()
		for _, k := range f.Kinds {
			if g := podspec.GatesOf(k.State.Policy()); g != first && !slices.Contains(f.others, g) {
				f.others = append(f.others, g)
			}
		}
	}
	return f.others
}

// readings returns what a pod asks for under the gates of the first kind, and what it asks for
// under those of other kinds if that differs anywhere. A fleet halfway from stock kubelets to
// Paddock has kinds of both.
func (f *FleetNodes) readings(pod *v1.Pod) (fleet.Pod, error) {
	out, err := reading(pod, f.Gates())
	if err != nil {
		return out, err
	}
	first, differs := out.Key(), false
	for _, gates := range f.otherGates() {
		other, err := reading(pod, gates)
		if err != nil {
			return out, err
		}
		differs = differs || other.Key() != first
		reads := func(p node.Policy) bool { return podspec.GatesOf(p) == gates }
		out.Readings = append(out.Readings, fleet.Reading{Reads: reads, Ask: other.Ask, Asks: other.Asks})
	}
	if !differs {
		out.Readings = nil
	}
	return out, nil
}

// reading returns what a pod asks for under these gates, without a constraint.
func reading(pod *v1.Pod, gates podspec.Gates) (fleet.Pod, error) {
	pod = podspec.Default(pod, gates)
	asked, err := podspec.Request(pod, gates)
	if err != nil {
		return fleet.Pod{}, err
	}
	return fleet.Pod{Pod: asked, Asks: clusterstate.Asks(pod, gates)}, nil
}
