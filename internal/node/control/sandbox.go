package control

import (
	"maps"
	"slices"
	"strings"
)

// Sandbox is a sandbox of a pod.
type Sandbox struct {
	// ID is the runtime's ID. Pod is the UID of the pod.
	ID, Pod string
	Who     string // namespace/name, for people
	Parent  string // cgroup of the pod, as the runtime names it
	Grant   string // the grant that was handed over, as text
}

// boxes are the sandboxes of one pod, in ascending order of ID. The slice is not changed in place.
type boxes []*Sandbox

// enterBox adds a sandbox, or replaces the one with the same ID.
func (s *step) enterBox(box *Sandbox) {
	s.leaveBox(box.Pod, box.ID)
	of := s.sandboxes.edit(s, box.Pod)
	at, _ := slices.BinarySearchFunc(*of, box.ID, func(b *Sandbox, id string) int { return strings.Compare(b.ID, id) })
	*of = slices.Insert(slices.Clone(*of), at, box)
}

// leaveBox removes a sandbox of a pod. It reports whether it was there.
func (s *step) leaveBox(pod, id string) bool {
	left := slices.DeleteFunc(slices.Clone(s.boxesOf(pod)), func(b *Sandbox) bool { return b.ID == id })
	if len(left) == len(s.boxesOf(pod)) {
		return false
	}
	if len(left) == 0 {
		s.sandboxes.remove(s, pod)
	} else {
		s.sandboxes.put(s, pod, left)
	}
	return true
}

// boxesOf returns the sandboxes of a pod.
func (l *Loop) boxesOf(pod string) boxes {
	if of := l.sandboxes.get(pod); of != nil {
		return *of
	}
	return nil
}

// sandboxOf returns the sandbox of a pod with the smallest ID. If only a container of the pod is
// known, it returns a sandbox without an ID. If nothing is known, it returns nil.
func (l *Loop) sandboxOf(pod string) *Sandbox {
	if of := l.boxesOf(pod); len(of) > 0 {
		return of[0]
	}
	for _, c := range l.containers.all() {
		if c.pod == pod && c.who != "" {
			return &Sandbox{Pod: pod, Who: c.who}
		}
	}
	return nil
}

// who returns the namespace/name of a pod, or its UID if no sandbox is known.
func (l *Loop) who(pod string) string {
	if of := l.boxesOf(pod); len(of) > 0 {
		return of[0].Who
	}
	return pod
}

// podsThatRun returns the UIDs of the pods that have a container, in ascending order.
func (l *Loop) podsThatRun() []string {
	set := map[string]bool{}
	for _, c := range l.containers.all() {
		set[c.pod] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// parents returns the cgroups of a pod's sandboxes.
func (l *Loop) parents(pod string) []string {
	var parents []string
	for _, box := range l.boxesOf(pod) {
		if box.Parent != "" && !slices.Contains(parents, box.Parent) {
			parents = append(parents, box.Parent)
		}
	}
	slices.Sort(parents)
	return parents
}

// beingCreated returns the number of containers that no update reaches yet.
func (l *Loop) beingCreated() (n int) {
	for _, c := range l.containers.all() {
		if c.creating() {
			n++
		}
	}
	return n
}
