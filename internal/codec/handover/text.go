package handover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
)

const (
	// Annotation is the key of the annotation.
	Annotation = "paddock-project.github.io/grant"
	// Version is the version that Encode writes and the only version that Decode reads.
	Version = 1
	// MaxSize is the maximum size of a text in bytes. All annotations of a pod together may have
	// 256 KiB.
	MaxSize = 64 << 10
)

// The errors for an unusable text. Every error of Decode wraps one of them.
var (
	// ErrVersion means that this reader does not know the version.
	ErrVersion = errors.New("unknown version")
	// ErrTooLarge means that the text has more than MaxSize bytes. Encode returns it too.
	ErrTooLarge = errors.New("too large")
	// ErrDamaged means that Encode did not write this text.
	ErrDamaged = errors.New("damaged")
)

// ErrNotEncodable is wrapped by the error of Encode for a grant that Decode could not read back.
var ErrNotEncodable = errors.New("cannot be handed over")

// Text is the content of an annotation.
type Text struct {
	// Node is the name of the node, and UID the UID of the pod, for which the grant was planned.
	Node, UID string
	// Machine, Policy and Request are digests.
	Machine, Policy, Request string
	// Grant has the assignments. Its Pod is empty; use For to fill it in.
	Grant *node.Grant
}

type (
	text struct {
		Version    int             `json:"v"`
		Node       string          `json:"node"`
		UID        string          `json:"uid"`
		Machine    string          `json:"machine"`
		Policy     string          `json:"policy"`
		Request    string          `json:"request"`
		Pool       string          `json:"pool,omitempty"`
		PoolMemory []blockText     `json:"poolMemory,omitempty"`
		Containers []containerText `json:"containers"`
	}
	blockText struct {
		Type  string `json:"type"`
		Bytes int64  `json:"bytes"`
		Nodes string `json:"nodes"`
	}
	containerText struct {
		CPUs    string              `json:"cpus,omitempty"`
		Memory  []blockText         `json:"memory,omitempty"`
		Devices map[string][]string `json:"devices,omitempty"`
		// Nodes is the choice of the Topology Manager. All means that it stored no choice. Aligned
		// means that the choice is preferred.
		Nodes   string `json:"nodes,omitempty"`
		All     bool   `json:"all,omitempty"`
		Aligned bool   `json:"aligned,omitempty"`
	}
)

// Encode returns the text for a grant that a planner has just made. Nothing may have been removed
// from the grant. The error wraps ErrTooLarge or ErrNotEncodable and names the pod.
func Encode(nodeName, machine, policy string, g *node.Grant) (string, error) {
	data, err := encode(nodeName, machine, policy, g)
	if err != nil {
		return "", fmt.Errorf("the grant of pod %s: %w", g.Pod.ID(), err)
	}
	return string(data), nil
}

func encode(nodeName, machine, policy string, g *node.Grant) ([]byte, error) {
	digest, err := RequestDigest(g.Pod)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotEncodable, err)
	}
	return write(&Text{Node: nodeName, UID: g.Pod.UID, Machine: machine, Policy: policy, Request: digest, Grant: g})
}

func write(t *Text) ([]byte, error) {
	g := t.Grant
	x := text{
		Version: Version, Node: t.Node, UID: t.UID, Machine: t.Machine, Policy: t.Policy, Request: t.Request,
		Pool: g.Pool.String(), PoolMemory: blocksOf(g.PoolMemory), Containers: make([]containerText, len(g.Containers)),
	}
	for i := range g.Containers {
		c := &g.Containers[i]
		memoryNodes := mask.Mask(0)
		for _, b := range c.Memory {
			memoryNodes |= b.Nodes
		}
		if c.Removed || !c.Affinity.Admit || memoryNodes != c.MemoryNodes {
			return nil, fmt.Errorf("%w: container %d is removed, rejected, or has memory on NUMA nodes %s and is pinned to %s", ErrNotEncodable, i, memoryNodes, c.MemoryNodes)
		}
		x.Containers[i] = containerText{
			CPUs: c.CPUs.String(), Memory: blocksOf(c.Memory), Nodes: listOf(c.Affinity.Mask), All: !c.Affinity.HasMask, Aligned: c.Affinity.Preferred,
		}
		for _, d := range c.Devices {
			if x.Containers[i].Devices == nil {
				x.Containers[i].Devices = map[string][]string{}
			}
			x.Containers[i].Devices[d.Resource] = append([]string{}, d.IDs...)
		}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(&x); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotEncodable, err)
	}
	data := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are handed over", ErrTooLarge, len(data), MaxSize)
	}
	return data, nil
}

func blocksOf(list []memory.Block) []blockText {
	var blocks []blockText
	for _, b := range list {
		blocks = append(blocks, blockText{b.Type, b.Size, listOf(b.Nodes)})
	}
	return blocks
}

func listOf(m mask.Mask) string { return cpuset.Of(m.Nodes()...).String() }

// version matches the beginning that texts of all versions have in common.
var version = regexp.MustCompile(`^\{"v":([0-9]{1,9}),`)

// Decode parses a text. The error wraps ErrVersion, ErrTooLarge or ErrDamaged. Decode does not
// check whether the grant is valid; Check does.
func Decode(data string) (*Text, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("the grant is %w: it has %d bytes, at most %d are read", ErrTooLarge, len(data), MaxSize)
	}
	switch v := version.FindStringSubmatch(data); {
	case v == nil:
		return nil, fmt.Errorf("the grant is %w: it does not begin with its version", ErrDamaged)
	case v[1] != fmt.Sprint(Version):
		return nil, fmt.Errorf("the grant has an %w: %s, this reader knows %d", ErrVersion, v[1], Version)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(data)))
	d.DisallowUnknownFields()
	var x text
	if err := d.Decode(&x); err != nil {
		return nil, fmt.Errorf("the grant is %w: %w", ErrDamaged, err)
	}
	t, err := x.content()
	if err != nil {
		return nil, fmt.Errorf("the grant is %w: %w", ErrDamaged, err)
	}
	again, err := write(t)
	if err != nil || string(again) != data || !utf8.ValidString(data) {
		return nil, fmt.Errorf("the grant is %w: it is not written as Paddock writes it", ErrDamaged)
	}
	return t, nil
}

func (x *text) content() (*Text, error) {
	t := &Text{Node: x.Node, UID: x.UID, Machine: x.Machine, Policy: x.Policy, Request: x.Request, Grant: &node.Grant{}}
	var err error
	if t.Grant.Pool, err = cpuset.Parse(x.Pool); err != nil {
		return nil, err
	}
	if t.Grant.PoolMemory, err = memoryOf(x.PoolMemory); err != nil {
		return nil, err
	}
	t.Grant.Containers = make([]node.ContainerGrant, len(x.Containers))
	for i := range x.Containers {
		c, g := &x.Containers[i], &t.Grant.Containers[i]
		if g.CPUs, err = cpuset.Parse(c.CPUs); err != nil {
			return nil, err
		}
		if g.Memory, err = memoryOf(c.Memory); err != nil {
			return nil, err
		}
		for _, b := range g.Memory {
			g.MemoryNodes |= b.Nodes
		}
		for _, resource := range slices.Sorted(maps.Keys(c.Devices)) {
			g.Devices = append(g.Devices, device.Assigned{Resource: resource, IDs: c.Devices[resource]})
		}
		nodes, err := nodesOf(c.Nodes)
		if err != nil {
			return nil, err
		}
		g.Affinity = hint.Choice{Mask: nodes, HasMask: !c.All, Preferred: c.Aligned, Admit: true}
	}
	return t, nil
}

func memoryOf(list []blockText) ([]memory.Block, error) {
	var blocks []memory.Block
	for _, b := range list {
		nodes, err := nodesOf(b.Nodes)
		if err != nil {
			return nil, err
		}
		if b.Bytes < 0 {
			return nil, fmt.Errorf("%d bytes of %s", b.Bytes, b.Type)
		}
		blocks = append(blocks, memory.Block{Type: b.Type, Size: b.Bytes, Nodes: nodes})
	}
	return blocks, nil
}

func nodesOf(list string) (mask.Mask, error) {
	ids, err := cpuset.Parse(list)
	if err != nil {
		return 0, err
	}
	if ids.Highest() > mask.MaxNode {
		return 0, fmt.Errorf("NUMA node %d is outside 0..%d", ids.Highest(), mask.MaxNode)
	}
	return mask.Of(ids.IDs()...), nil
}
