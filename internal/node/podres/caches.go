package podres

import (
	"encoding/json"
	"errors"
	"fmt"

	corecache "github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

const (
	askCaches    = "paddock-caches"
	answerCaches = "paddock-caches-bin"
)

// Caches is how the caches of the node are divided among classes.
type Caches struct {
	// Rules are what the machine can divide, and Rest has what the default class has of each cache.
	Rules machine.Caches
	Rest  []corecache.Share
	// Containers are those of pods with a class, also the containers in the default class.
	Containers []ContainerClass
}

// ContainerClass is the class of one container.
type ContainerClass struct {
	Namespace, Pod, UID, Container string
	// Group is the name of its group of resctrl. It is empty for the default class.
	Group string
	// Pool is whether the class is that of the pod's pool.
	Pool  bool
	Class corecache.Class
	// CPUs are those on which the container runs, so that its cgroup is found.
	CPUs cpuset.Set
}

// The forms in which Caches are sent. New fields may be added: older clients ignore them.
type (
	cachesText struct {
		Classes           int         `json:"classes"`
		Ways              int         `json:"ways,omitempty"`
		LeastWays         int         `json:"leastWays,omitempty"`
		HardwareWays      uint32      `json:"hardwareWays,omitempty"`
		Sparse            bool        `json:"sparse,omitempty"`
		CodeAndData       bool        `json:"codeAndData,omitempty"`
		LeastBandwidth    int         `json:"leastBandwidth,omitempty"`
		BandwidthStep     int         `json:"bandwidthStep,omitempty"`
		AbsoluteBandwidth bool        `json:"absoluteBandwidth,omitempty"`
		Rest              []shareText `json:"rest"`
		Containers        []classText `json:"containers"`
	}
	shareText struct {
		Cache     int            `json:"cache"`
		Ways      corecache.Ways `json:"ways,omitempty"`
		Bandwidth int            `json:"bandwidth,omitempty"`
	}
	classText struct {
		Namespace string      `json:"namespace"`
		Pod       string      `json:"pod"`
		UID       string      `json:"uid"`
		Container string      `json:"container"`
		Group     string      `json:"group,omitempty"`
		Pool      bool        `json:"pool,omitempty"`
		Class     []shareText `json:"class,omitempty"`
		CPUs      string      `json:"cpus,omitempty"`
	}
)

// CachesOf returns the caches of a state, or nil for a machine that cannot divide them.
func CachesOf(s *node.State) *Caches {
	if !s.Caches().Divides() {
		return nil
	}
	c := &Caches{Rules: s.Machine().Caches(), Rest: s.Caches().Rest()}
	wanted := converge.Want(s)
	for _, g := range ordered(s) {
		if len(g.Classes()) == 0 {
			continue
		}
		for i := range g.Pod.Containers {
			of := ContainerClass{Namespace: g.Pod.Namespace, Pod: g.Pod.Name, UID: g.Pod.UID, Container: g.Pod.Containers[i].Name}
			of.Class, of.Pool = g.ClassOf(i)
			if of.Group = resctrl.GroupOf(g, i); !resctrl.IsOurs(of.Group) {
				of.Group, of.Class, of.Pool = "", nil, false
			}
			of.CPUs = wanted.Setting(of.UID, of.Container).CPUs
			c.Containers = append(c.Containers, of)
		}
	}
	return c
}

// MarshalJSON returns the form in which Caches are sent.
func (c *Caches) MarshalJSON() ([]byte, error) {
	r := c.Rules
	text := cachesText{
		Classes: r.Classes, Ways: r.Ways, LeastWays: r.LeastWays, HardwareWays: r.HardwareWays, Sparse: r.Sparse, CodeAndData: r.CodeAndData,
		LeastBandwidth: r.LeastBandwidth, BandwidthStep: r.BandwidthStep, AbsoluteBandwidth: r.AbsoluteBandwidth, Rest: shareTexts(c.Rest),
	}
	for i := range c.Containers {
		of := &c.Containers[i]
		text.Containers = append(text.Containers, classText{of.Namespace, of.Pod, of.UID, of.Container, of.Group, of.Pool, shareTexts(of.Class), of.CPUs.String()})
	}
	return json.Marshal(text)
}

// sendable returns c or, if it is too large for a trailer, a text with the reason. Without an
// answer, the client would assume that no container has a class.
func sendable(c *Caches) any {
	if text, err := json.Marshal(c); err != nil || len(text) <= maxExtra {
		return c
	}
	return fmt.Sprintf("the classes of %d containers do not fit into an answer of %d bytes", len(c.Containers), maxExtra)
}

// UnmarshalJSON reads that form.
func (c *Caches) UnmarshalJSON(data []byte) error {
	var reason string
	if json.Unmarshal(data, &reason) == nil && reason != "" {
		return errors.New(reason)
	}
	var text cachesText
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*c = Caches{Rules: machine.Caches{
		Classes: text.Classes, Ways: text.Ways, LeastWays: text.LeastWays, HardwareWays: text.HardwareWays, Sparse: text.Sparse, CodeAndData: text.CodeAndData,
		LeastBandwidth: text.LeastBandwidth, BandwidthStep: text.BandwidthStep, AbsoluteBandwidth: text.AbsoluteBandwidth,
	}, Rest: shares(text.Rest)}
	for i := range text.Containers {
		of := &text.Containers[i]
		cpus, err := cpuset.Parse(of.CPUs)
		if err != nil {
			return err
		}
		c.Containers = append(c.Containers, ContainerClass{of.Namespace, of.Pod, of.UID, of.Container, of.Group, of.Pool, shares(of.Class), cpus})
	}
	return nil
}

func shareTexts(list []corecache.Share) (all []shareText) {
	for _, s := range list {
		all = append(all, shareText(s))
	}
	return all
}

func shares(list []shareText) (all []corecache.Share) {
	for _, s := range list {
		all = append(all, corecache.Share(s))
	}
	return all
}
