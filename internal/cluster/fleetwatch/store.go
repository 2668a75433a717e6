package fleetwatch

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// store receives the objects of a reflector. It implements cache.TransformingStore.
type store struct {
	*Watch
	resource string
	example  runtime.Object
	selector fields.Selector
	slim     cache.TransformFunc
}

// Transformer returns a function that reduces objects before the reflector keeps all objects of a
// list.
func (s store) Transformer() cache.TransformFunc { return s.slim }

func slimNode(o any) (any, error) {
	n, is := o.(*v1.Node)
	if !is {
		return o, nil
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, Labels: n.Labels, ResourceVersion: n.ResourceVersion},
		Spec:       v1.NodeSpec{Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable}, Status: v1.NodeStatus{Allocatable: n.Status.Allocatable},
	}, nil
}

func slimPod(o any) (any, error) {
	if p, is := o.(*v1.Pod); is {
		slim := podspec.Slim(p)
		slim.ResourceVersion = p.ResourceVersion
		return slim, nil
	}
	return o, nil
}

// Add implements cache.ReflectorStore.
func (s store) Add(o any) error { return s.Update(o) }

// Update implements cache.ReflectorStore.
func (s store) Update(o any) error { return s.change(o, o) }

// Delete implements cache.ReflectorStore.
func (s store) Delete(o any) error { return s.change(o, nil) }

// change sets the object with the name of named to to.
func (s store) change(named, to any) error {
	key, err := cache.MetaNamespaceKeyFunc(named)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wakeLocked()
	return s.set(key, to)
}

// Replace implements cache.ReflectorStore.
func (s store) Replace(all []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := map[string]bool{}
	kind := map[string]string{"nodes": "Node", "pods": "Pod"}[s.resource]
	for _, key := range s.cluster.Keys(kind) {
		gone[key] = true
	}
	if s.resource == "pods" {
		for key := range s.problems {
			gone[key] = true
		}
	}
	for _, o := range all {
		key, err := cache.MetaNamespaceKeyFunc(o)
		if err == nil {
			err = s.set(key, o)
		}
		if err != nil {
			return err
		}
		delete(gone, key)
	}
	for key := range gone {
		if err := s.set(key, nil); err != nil {
			return err
		}
	}
	s.listed[s.resource] = true
	s.wakeLocked()
	return nil
}

// note records that a pod cannot be kept, or that it can. The time is that of the first error in a
// row. The caller must have locked mu.
func (w *Watch) note(pod string, err error) {
	before, was := w.problems[pod]
	switch {
	case err == nil:
		delete(w.problems, pod)
	case was:
		w.problems[pod] = trouble{before.since, err.Error()}
	default:
		w.problems[pod] = trouble{w.now(), err.Error()}
	}
}

// Resync implements cache.ReflectorStore.
func (store) Resync() error { return nil }

// set sets an object. Nil means that it is gone. The caller must have locked mu.
func (s store) set(key string, o any) error {
	switch o := o.(type) {
	case *v1.Node:
		s.cluster.SetNode(key, o)
	case *v1.Pod:
		s.note(key, s.cluster.SetPod(key, o))
	case nil:
		if s.resource == "nodes" {
			s.cluster.SetNode(key, nil)
			return nil
		}
		delete(s.problems, key)
		return s.cluster.SetPod(key, nil)
	default:
		return fmt.Errorf("%s: expected %T, is %T", key, s.example, o)
	}
	return nil
}
