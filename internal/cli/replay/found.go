package replay

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Found is a node on which a kubelet has decided: its state files, and the pods that run.
type Found struct {
	// Version is the kubelet's, such as "1.36.4". It decides on, unless Player.Kubelet is another.
	Version string `json:"version"`
	// Running has the UIDs of the pods that run. Started maps each of them to the names of its
	// containers that run.
	Running []string            `json:"running"`
	Started map[string][]string `json:"started"`
	State   FoundState          `json:"state"`
}

// FoundState has the state files by name. The view is for people.
type FoundState struct {
	*View

	Checkpoints map[string]string `json:"checkpoints"`
}

// FoundOn is the node of a Found: what else its state depends on. Pods are those of the scenario,
// by UID.
type FoundOn struct {
	Version   behavior.Version
	Machine   *machine.Machine
	Policy    node.Policy
	Inventory *device.Inventory
	Pods      map[string]*v1.Pod
}

// find makes the state of the run the one of the files.
func (r *run) find(f *Found) error {
	if r.player.Find == nil {
		return fmt.Errorf("found: state files are not read here")
	}
	var err error
	r.state, err = r.player.Find(f, FoundOn{r.player.Kubelet, r.m, r.state.Policy(), r.inventory, r.pods})
	return err
}

// decider returns the player with the kubelet that decides in a scenario.
func (p *Player) decider(s *Scenario) (*Player, error) {
	if s.Found == nil {
		return p, nil
	}
	version, err := behavior.Parse(s.Found.Version)
	if err != nil {
		return nil, fmt.Errorf("found: version: %w", err)
	}
	if p.asKubelet() {
		return p, nil
	}
	if _, err := behavior.Of(version); err != nil {
		return nil, fmt.Errorf("found: version: %w", err)
	}
	as := *p
	as.Kubelet = version
	return &as, nil
}
