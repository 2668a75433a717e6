// Package annotation has the form of a grant that a scheduler hands over to a node in the
// annotation of a pod, and the digests by which the node recognizes for which machine, policy and
// request the grant was planned. Package codec/handover documents the form, and applies a grant by
// the rules of the node. This package is in the core, because package predict reads the annotations
// of the pods that are bound to a node.
package annotation

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/form"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

const (
	// Key is the key of the annotation.
	Key = "paddock-project.github.io/grant"
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

// OtherError is the error of For: the text is for something else.
type OtherError struct {
	// Request is set if the text is for this pod and another request. Otherwise it is for another
	// pod.
	Request bool
	Detail  string
}

func (e *OtherError) Error() string { return e.Detail }

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

// content is a text with its version.
type content struct {
	Text
	version int
}

// fields are the members of a text. They show the grant without the request, which the reader has,
// and without what follows from other members.
var fields = form.Object[content]{
	form.Number("v", func(c *content) *int { return &c.version }).Always(),
	form.Text("node", func(c *content) *string { return &c.Node }).Always(),
	form.Text("uid", func(c *content) *string { return &c.UID }).Always(),
	form.Text("machine", func(c *content) *string { return &c.Machine }).Always(),
	form.Text("policy", func(c *content) *string { return &c.Policy }).Always(),
	form.Text("request", func(c *content) *string { return &c.Request }).Always(),
	form.CPUs("pool", func(c *content) *cpuset.Set { return &c.Grant.Pool }),
	form.Slice("poolMemory", blockFields, func(c *content) *[]memory.Block { return &c.Grant.PoolMemory }, nil),
	form.Class("poolCache", func(c *content) *cache.Class { return &c.Grant.PoolCache }),
	(&form.List[content, node.ContainerGrant]{
		Name: "containers", Members: containerFields,
		Len: func(c *content) int { return len(c.Grant.Containers) },
		At:  func(c *content, i int) *node.ContainerGrant { return &c.Grant.Containers[i] },
		Add: func(c *content) {
			c.Grant.Containers = append(c.Grant.Containers, node.ContainerGrant{Affinity: hint.Choice{HasMask: true, Admit: true}})
		},
	}).Field().Always(),
}

var blockFields = form.Object[memory.Block]{
	form.Text("type", func(b *memory.Block) *string { return &b.Type }).Always(),
	form.Number("bytes", func(b *memory.Block) *int64 { return &b.Size }).Always(),
	form.NodeList("nodes", func(b *memory.Block) *mask.Mask { return &b.Nodes }).Always(),
}

// containerFields: "nodes" is the choice of the Topology Manager. "all" means that it stored no
// choice, and "aligned" that the choice is preferred.
var containerFields = form.Object[node.ContainerGrant]{
	form.CPUs("cpus", func(c *node.ContainerGrant) *cpuset.Set { return &c.CPUs }),
	form.Slice("memory", blockFields, func(c *node.ContainerGrant) *[]memory.Block { return &c.Memory }, nil),
	form.Devices("devices", func(c *node.ContainerGrant) *[]device.Assigned { return &c.Devices }),
	form.Class("cache", func(c *node.ContainerGrant) *cache.Class { return &c.Cache }),
	form.NodeList("nodes", func(c *node.ContainerGrant) *mask.Mask { return &c.Affinity.Mask }),
	form.Through(form.Flag("all", func(all *bool) *bool { return all }),
		func(c *node.ContainerGrant) bool { return !c.Affinity.HasMask }, func(c *node.ContainerGrant, all bool) { c.Affinity.HasMask = !all }),
	form.Flag("aligned", func(c *node.ContainerGrant) *bool { return &c.Affinity.Preferred }),
}

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
	for i := range t.Grant.Containers {
		c := &t.Grant.Containers[i]
		if nodes := memoryNodes(c); c.Removed || !c.Affinity.Admit || nodes != c.MemoryNodes {
			return nil, fmt.Errorf("%w: container %d is removed, rejected, or has memory on %s and is pinned to %s", ErrNotEncodable, i, nodes.Text(), c.MemoryNodes.Text())
		}
	}
	data, err := fields.Append(nil, &content{*t, Version})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotEncodable, err)
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are handed over", ErrTooLarge, len(data), MaxSize)
	}
	return data, nil
}

// memoryNodes returns the NUMA nodes of a container's blocks, to which a new grant pins it.
func memoryNodes(c *node.ContainerGrant) (nodes mask.Mask) {
	for _, b := range c.Memory {
		nodes |= b.Nodes
	}
	return nodes
}

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
	c := content{Text: Text{Grant: &node.Grant{}}}
	if err := fields.Read([]byte(data), &c); err != nil {
		return nil, fmt.Errorf("the grant is %w: %w", ErrDamaged, err)
	}
	t := &c.Text
	for i := range t.Grant.Containers {
		t.Grant.Containers[i].MemoryNodes = memoryNodes(&t.Grant.Containers[i])
	}
	again, err := write(t)
	if err != nil || string(again) != data {
		return nil, fmt.Errorf("the grant is %w: it is not written as Paddock writes it", ErrDamaged)
	}
	return t, nil
}

// For returns the grant of a text for a pod. The error is an *OtherError if the text was
// planned for another pod, or if the pod asks for something else now.
func (t *Text) For(pod request.Pod) (*node.Grant, error) {
	if t.UID != pod.UID {
		return nil, &OtherError{false, fmt.Sprintf("it is for the pod with UID %s, this pod has %s", t.UID, pod.UID)}
	}
	digest, err := RequestDigest(pod)
	if err != nil {
		return nil, &OtherError{true, err.Error()}
	}
	if t.Request != digest || len(t.Grant.Containers) != len(pod.Containers) {
		return nil, &OtherError{true, fmt.Sprintf("it was planned for a request with digest %s, the pod's request has %s", t.Request, digest)}
	}
	g := *t.Grant
	g.Pod = pod
	return &g, nil
}
