package podspec

import (
	"bytes"
	"fmt"

	yamlnode "go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
)

// LimitError is returned for manifests that exceed a limit of Options. It is returned before
// anything of that size is allocated.
type LimitError struct{ text string }

func (e *LimitError) Error() string { return e.text }

func limitError(format string, args ...any) error {
	return &LimitError{fmt.Sprintf(format, args...)}
}

// room returns an error if the pods of a workload, or their containers, exceed the limits of the
// options.
func (r *reader) room(at Origin, w *workload, most int) error {
	taken, size := int64(len(r.sources)+r.taken), w.size()
	if size > int64(most)-taken {
		return limitError("%s: it asks for %d pods, and %d were read before; at most %d can be read in all", at, size, taken, most)
	}
	containers := size * w.containers()
	if r.MaxContainers > 0 && containers > int64(r.MaxContainers-r.containers) {
		return limitError("%s: its %d pods have %d containers, and those before have %d; at most %d can be read in all",
			at, size, containers, r.containers, r.MaxContainers)
	}
	r.containers += int(containers)
	return nil
}

// containers returns the number of containers in each of the pods.
func (w *workload) containers() int64 {
	var spec *v1.PodSpec
	if w.pod != nil {
		spec = &w.pod.Spec
	} else {
		spec = &w.template.Spec
	}
	return int64(len(spec.InitContainers) + len(spec.Containers) + len(spec.EphemeralContainers))
}

// valueBytes is the length of text, in bytes, that counts as one more value.
const valueBytes = 64

// budget limits how many values may be read. A value of three bytes can become a container of a
// kilobyte, and a YAML alias can expand to a whole text. A nil budget means no limit.
type budget struct{ most, read int64 }

func newBudget(most int) *budget {
	if most == 0 {
		return nil
	}
	return &budget{most: int64(most)}
}

// take subtracts values from the budget. It returns an error if the budget does not allow them.
func (b *budget) take(values int64) error {
	if b == nil {
		return nil
	}
	if values > b.most-b.read {
		return limitError("there are more than %d fields and list items, the most that is read here", b.most)
	}
	b.read += values
	return nil
}

// json charges the values of a document whose syntax was checked.
func (b *budget) json(raw []byte) error {
	if b == nil {
		return nil
	}
	values := int64(len(raw) / valueBytes)
	quoted := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && c == ',', !quoted && (c == '{' || c == '[') && !closes(raw[i+1:]):
			values++
		}
	}
	return b.take(values)
}

// closes reports whether the text begins with the end of an object or a list, which is then empty.
func closes(raw []byte) bool {
	rest := bytes.TrimLeft(raw[:min(len(raw), valueBytes)], " \t\r\n")
	return len(rest) > 0 && (rest[0] == '}' || rest[0] == ']')
}

// yaml charges the values of a document with every alias expanded.
func (b *budget) yaml(text []byte) error {
	if b == nil {
		return nil
	}
	var root yamlnode.Node
	if err := yamlnode.Unmarshal(text, &root); err != nil {
		return err
	}
	return b.take(b.values(&root, map[*yamlnode.Node]int64{}))
}

// values returns the number of values of a YAML node with aliases expanded, capped at b.most+1.
// known has the counts of the YAML nodes that were visited. A node that refers to itself exceeds
// any limit.
func (b *budget) values(n *yamlnode.Node, known map[*yamlnode.Node]int64) int64 {
	if n == nil {
		return 0
	}
	if count, there := known[n]; there {
		return count
	}
	known[n] = b.most + 1
	count := 1 + int64(len(n.Value)/valueBytes)
	if n.Kind == yamlnode.AliasNode {
		count = b.values(n.Alias, known)
	}
	for i, child := range n.Content {
		values := b.values(child, known)
		if n.Kind == yamlnode.MappingNode && i%2 == 0 {
			values-- // A key is part of its value.
		}
		count = min(count+values, b.most+1)
	}
	known[n] = count
	return count
}
