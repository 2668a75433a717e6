package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// pool is the pool of the device of every claim. A node has one pool for each driver.
const pool = "node"

// runGiven sets the devices that others (the kubelet or the scheduler) choose. They are all devices
// of the node that belong to a resource or a driver. There is a line for each resource or driver,
// in the form of "devices":
//
//	RESOURCE|DRIVER [ID[@NODES]…]
//
// The NUMA nodes of a device without NODES are unknown. A pod names the devices that it has:
//
//	given CONTAINER RESOURCE=ID[,ID…]               of a device plugin
//	given CONTAINER DRIVER=ID[,ID…] claim=NAME      of a ResourceClaim
func (n *Node) runGiven(c Command) ([]string, error) {
	switch {
	case n.machine == nil:
		return nil, errors.New("give the machine first")
	case len(c.Args) > 0:
		return nil, errors.New("given: want a line for each resource or driver, and nothing behind the command")
	}
	given := map[string][]device.Device{}
	t := table{}
	for _, line := range c.Input {
		words := strings.Fields(line)
		if len(words) == 0 {
			return nil, errors.New("given: a line is empty")
		}
		devices, err := parseDevices(words[1:])
		if err != nil {
			return nil, fmt.Errorf("given: %s: %w", words[0], err)
		}
		for _, d := range devices {
			switch {
			case d.ID == "":
				return nil, fmt.Errorf("given: %s: a device has no id", words[0])
			case !d.Healthy:
				return nil, fmt.Errorf("given: %s: device %q: others know its health", words[0], d.ID)
			case slices.ContainsFunc(given[words[0]], func(x device.Device) bool { return x.ID == d.ID }):
				return nil, fmt.Errorf("given: %s: device %q is listed twice", words[0], d.ID)
			}
			given[words[0]] = append(given[words[0]], d)
		}
		row := []string{words[0]}
		for _, p := range stockOf(words[0], given[words[0]]).Places {
			row = append(row, fmt.Sprintf("%d on %s", p.Devices, p.Nodes))
		}
		t.add(row...)
	}
	n.given = given
	return t.lines(), nil
}

func stockOf(of string, devices []device.Device) request.Stock {
	var nodes []mask.Mask
	for _, d := range devices {
		nodes = append(nodes, d.Nodes)
	}
	return request.StockOf(of, nodes)
}

// parseGiven parses the words after "given" in the description of a pod.
func (n *Node) parseGiven(pod *v1.Pod, words []string) (container string, given []request.Given, err error) {
	if len(words) < 2 {
		return "", nil, errors.New("want a container and RESOURCE=ID")
	}
	named := func(c v1.Container) bool { return c.Name == words[0] }
	if !slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), named) {
		return "", nil, fmt.Errorf("the pod has no container %q above", words[0])
	}
	of, ids, _ := strings.Cut(words[1], "=")
	values, err := keys(words[2:], "claim")
	if err != nil {
		return "", nil, err
	}
	for id := range strings.SplitSeq(ids, ",") {
		i := slices.IndexFunc(n.given[of], func(d device.Device) bool { return d.ID == id })
		if i < 0 {
			return "", nil, fmt.Errorf("no device %q of %s was described: want it in given", id, of)
		}
		g := request.Given{Resource: of, Name: id, Nodes: n.given[of][i].Nodes}
		if claim, ok := values["claim"]; ok {
			g.Resource, g.Claim, g.Driver, g.Pool = "", claim, of, pool
		}
		given = append(given, g)
	}
	return words[0], given, nil
}

// request returns what a pod asks for, with the devices that others chose for it.
func (n *Node) request(pod *v1.Pod) (request.Pod, error) {
	asked, err := podspec.Request(pod, n.gates)
	var all []request.Given
	for i := range asked.Containers {
		c := &asked.Containers[i]
		c.Given = slices.Clone(n.chosen[pod.Name][c.Name])
		slices.SortFunc(c.Given, func(a, b request.Given) int { return a.Compare(&b) })
		c.Given = slices.Compact(c.Given)
		all = append(all, c.Given...)
	}
	slices.SortFunc(all, func(a, b request.Given) int { return strings.Compare(a.Of(), b.Of()) })
	for i, g := range all {
		if i == 0 || all[i-1].Of() != g.Of() {
			asked.Stock = append(asked.Stock, stockOf(g.Of(), n.given[g.Of()]))
		}
	}
	return asked, err
}

// givenText returns a text such as "given nvidia.com/gpu=gpu0 on {1}" for each device.
func givenText(given []request.Given) string {
	var parts []string
	for _, g := range given {
		text := "given " + g.Of() + "=" + g.Name
		if !g.Nodes.IsEmpty() {
			text += " on " + g.Nodes.String()
		}
		if g.Claim != "" {
			text += " by claim " + g.Claim
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}
