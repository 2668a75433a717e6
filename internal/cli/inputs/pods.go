package inputs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/codec/claims"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// PodFiles names manifests and describes the node for their pods.
type PodFiles struct {
	Paths   []string
	Gates   podspec.Gates
	Machine *machine.Machine
	// Node is the name of the Kubernetes node. Pods of other nodes are left out. If empty, it is
	// the node of all pods or, if they have none, the node of all ResourceSlices.
	Node string
	// Strict makes every unknown field and kind an error.
	Strict bool
	// Ended selects which pods that have ended are kept. Without it they are left out. only is true
	// if there is no other pod.
	Ended func(pod *v1.Pod, only bool) bool
	// Most limits how many pods are read. If zero, the limit is podspec.MaxPods. Slim keeps only
	// those parts of pods that affect decisions.
	Most int
	Slim bool
	// Allocator allocates ResourceClaims that have no allocation. Without it, the devices of such
	// claims are only reported as a note.
	Allocator claims.Allocator
	// MaxContainers and MaxValues are the fields of podspec.Options.
	MaxContainers, MaxValues int
}

// OnlyPod is a value of PodFiles.Ended: a pod that has ended is kept if no other pod is given.
func OnlyPod(_ *v1.Pod, only bool) bool { return only }

// Pods are pods that can be planned, with the defaults of the API server.
type Pods struct {
	Pods []*v1.Pod
	// Notes are about objects, pods and amounts that have no effect.
	Notes []string
	// Namespaces maps the names of the Namespaces in the files to their labels, if the reader keeps
	// Peers.
	Namespaces map[string]map[string]string
	// Unnamed is a note if no object names PodFiles.Node, which then has no effect.
	Unnamed string
	// Claims finds the devices of the pods' ResourceClaims.
	Claims *claims.Resolver
}

// PodErrors are several problems of manifests. Each is one line for the user.
type PodErrors []error

func (p PodErrors) Error() string   { return errors.Join(p...).Error() }
func (p PodErrors) Unwrap() []error { return p }

// Pods reads, defaults and validates pods. It returns the notes even with an error. The error can
// be PodErrors.
func (r Reader) Pods(files PodFiles) (Pods, error) {
	var read Pods
	objects := claims.Objects{Allocator: files.Allocator}
	others := func(kind, apiVersion string, data []byte) (bool, error) {
		if r.Peers && kind == "Namespace" && apiVersion == "v1" {
			return true, read.namespace(data)
		}
		if !claims.Takes(kind, apiVersion) {
			return false, nil
		}
		return true, objects.Add(kind, apiVersion, data)
	}
	sources, notes, err := podspec.Options{
		Strict: files.Strict, Others: others, MaxPods: files.Most, Slim: files.Slim, MaxContainers: files.MaxContainers, MaxValues: files.MaxValues,
	}.ReadFiles(files.Paths, r.Stdin)
	if err != nil {
		return read, err
	}
	for _, n := range notes {
		read.Notes = append(read.Notes, n.String())
	}
	name, elsewhere := files.Node, 0
	if name == "" {
		name = nodeOf(sources, &objects)
	}
	read.Claims = objects.On(name)
	read.Unnamed = unnamed(files.Node, sources, &objects)
	var problems PodErrors
	for _, s := range sources {
		if at := s.Pod.Spec.NodeName; files.Node != "" && at != "" && at != files.Node {
			elsewhere++
			continue
		}
		if podspec.Ended(s.Pod) {
			if files.Ended == nil || !files.Ended(s.Pod, len(sources) == 1) {
				read.Notes = append(read.Notes, fmt.Sprintf("%s: ignored, because its phase is %s", s.Origin, s.Pod.Status.Phase))
				continue
			}
			reason := ""
			if s.Pod.Status.Reason != "" {
				reason = " (" + s.Pod.Status.Reason + ")"
			}
			read.Notes = append(read.Notes, fmt.Sprintf("%s: its phase is %s%s; it is planned as if it came now", s.Origin, s.Pod.Status.Phase, reason))
		}
		pod := podspec.Default(s.Pod, files.Gates)
		if note := FreshQoS(pod, files.Gates); note != "" {
			read.Notes = append(read.Notes, fmt.Sprintf("%s: %s", s.Origin, note))
		}
		impossible, odd := suspect(s.Pod, files.Machine)
		for _, e := range append(podspec.Validate(pod, files.Gates), impossible...) {
			problems = append(problems, fmt.Errorf("%s: %w", s.Origin, e))
		}
		for _, text := range odd {
			read.Notes = append(read.Notes, fmt.Sprintf("%s: %s", s.Origin, text))
		}
		read.Pods = append(read.Pods, pod)
	}
	if elsewhere > 0 {
		read.Notes = append(read.Notes, fmt.Sprintf("%d pods are passed over, they are on other Kubernetes nodes than %s", elsewhere, files.Node))
	}
	if len(problems) > 0 {
		return read, problems
	}
	switch paths := strings.Join(files.Paths, ", "); {
	case len(read.Pods) == 0 && elsewhere > 0 && elsewhere == len(sources):
		return read, fmt.Errorf("%s: no pods there of node %s; --node wants the name of a Kubernetes node, as in spec.nodeName", paths, files.Node)
	case len(read.Pods) == 0 && len(sources) > 0:
		return read, fmt.Errorf("%s: all pods there have ended, and there are several; give one of them, which is then decided as if it came now", paths)
	case len(read.Pods) == 0:
		return read, fmt.Errorf("%s: it has no pods", paths)
	}
	return read, nil
}

// FreshQoS removes the QoS class from the status of a pod if its spec was edited so that it has
// another one, and returns a note about that. Otherwise, it returns "".
func FreshQoS(pod *v1.Pod, gates podspec.Gates) (note string) {
	follows, stale := podspec.StaleQoS(pod, gates)
	if !stale {
		return ""
	}
	was := pod.Status.QOSClass
	pod.Status.QOSClass = ""
	return fmt.Sprintf("its status has the QoS class %s, but its requests and limits make it %s: it is planned as a new pod with these", was, follows)
}

// namespace adds a Namespace.
func (p *Pods) namespace(data []byte) error {
	o := new(v1.Namespace)
	if err := decode(data, o, &o.Name); err != nil {
		return err
	}
	if p.Namespaces == nil {
		p.Namespaces = map[string]map[string]string{}
	}
	p.Namespaces[o.Name] = o.Labels
	return nil
}

// unnamed returns a note about the name of a node that neither a pod nor another object has. It
// returns "" if the name has an effect.
func unnamed(node string, sources []podspec.Source, objects *claims.Objects) string {
	names, anyNode := objects.NodeNames()
	for _, s := range sources {
		if at := s.Pod.Spec.NodeName; at != "" {
			names = append(names, at)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case node == "" || anyNode || slices.Contains(names, node):
		return ""
	case len(names) == 0:
		return fmt.Sprintf("--node %s has no effect: no pod, Node or ResourceSlice there names a Kubernetes node", node)
	}
	const few = 3
	of := spelling.Or(names)
	if len(names) > few {
		of = fmt.Sprintf("%d others, such as %s", len(names), names[0])
	}
	if meant := spelling.Nearest(node, names); meant != "" {
		of += "; did you mean " + meant + "?"
	}
	return fmt.Sprintf("--node %s: no pod, Node or ResourceSlice there names it, only %s", node, of)
}

// nodeOf returns the Kubernetes node of all pods or, if they have none, of all ResourceSlices. It
// returns "" if there is no such node.
func nodeOf(sources []podspec.Source, objects *claims.Objects) string {
	name := ""
	for _, s := range sources {
		switch at := s.Pod.Spec.NodeName; {
		case at == "" || at == name:
		case name != "":
			return ""
		default:
			name = at
		}
	}
	return cmp.Or(name, objects.NodeName())
}
