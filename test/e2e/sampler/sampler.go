// Package sampler reads continuously on which CPUs the containers of a node can run. It counts the
// looks in which a container could run on CPUs of another one.
//
// Two containers overlap in a look if all of this is true, in this order:
//
//   - cpuset.cpus.effective of both, read one after the other, have a CPU in common, and one of the two has exclusive CPUs
//   - then there is a process in the cgroup of the second and in that of the first
//   - then both have a CPU in common again, read in reverse order: if a container gave up a CPU between two reads, and
//     another one got it, they do not overlap
//
// One case is counted separately, as Making: the only processes in a cgroup are those of runc, and
// its own cpuset.cpus is empty. This is the state while runc creates a container: it creates the
// cgroup, enters it, prepares the mounts, writes cpuset.cpus, and finally starts the program of the
// container. Until then the cgroup has the CPUs of its parent, and no agent can prevent that. A
// program in such a cgroup counts, and so does runc in a cgroup with its own cpuset.cpus.
//
// Files that cannot be read count as an overlap, unless the cgroup is gone. An overlap that is
// shorter than the time between two looks can be missed.
package sampler

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// Sampler has what was seen since it was created. It must not be used by several goroutines at
// once.
type Sampler struct {
	node Node
	// own has prefixes of NAMESPACE/POD/CONTAINER that select the containers with exclusive CPUs.
	own  []string
	tree *tree
	seen wire.Sampled
	// made has new cgroups whose owner is not known yet. cgroups has those of containers and pods,
	// in a fixed order.
	made    []string
	cgroups []*cgroup
	last    time.Duration
}

// cgroup is the cgroup of a container. Without a container name, it is that of a pod.
type cgroup struct {
	wire.SampledCgroup
	dir               string
	cpus, mems, quota File
	own               bool
	// runs is set once a program of the container was seen in it.
	runs bool
	now  cpus
}

// cpus are the CPUs of a cgroup as a file has them.
type cpus struct {
	text string
	set  cpuset.Set
	// unknown is set if the text is not a list of CPUs, or if it is empty. No cgroup has an empty
	// list of effective CPUs.
	unknown bool
}

func (c *cpus) read(text string) {
	if text == c.text && !c.set.IsEmpty() {
		return
	}
	set, err := cpuset.Parse(text)
	*c = cpus{text, set, err != nil || set.IsEmpty()}
}

func (c *cpus) share(with *cpus) bool { return c.unknown || with.unknown || c.set.Intersects(with.set) }

// New starts a sampler with the containers that the node has. own has prefixes of
// NAMESPACE/POD/CONTAINER that select the containers with exclusive CPUs.
func New(n Node, own []string) (*Sampler, error) {
	t, err := openTree(n.Kubepods)
	if err != nil {
		return nil, err
	}
	return &Sampler{node: n, own: own, tree: t}, nil
}

// Close ends the sampling. Seen still returns what was seen.
func (s *Sampler) Close() error {
	for _, c := range s.cgroups {
		c.close()
	}
	return s.tree.close()
}

func (c *cgroup) close() {
	for _, f := range []File{c.cpus, c.mems, c.quota} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// Look reads every container. at is the time since the start.
func (s *Sampler) Look(at time.Duration) error {
	appeared, err := s.tree.appeared()
	if err != nil {
		return err
	}
	if err := s.identify(append(s.made, appeared...)); err != nil {
		return err
	}
	if s.seen.Looks++; s.seen.Looks > 1 {
		s.seen.LongestGap = max(s.seen.LongestGap, at-s.last)
	}
	s.seen.Time, s.last = at, at
	s.cgroups = slices.DeleteFunc(s.cgroups, func(c *cgroup) bool { return !s.read(c, at) })
	s.addPods()
	for i, a := range s.cgroups {
		for _, b := range s.cgroups[i+1:] {
			if a.Name != "" && b.Name != "" && (a.own || b.own) && a.now.share(&b.now) {
				s.again(a, b, at)
			}
		}
	}
	return nil
}

// identify opens those of the cgroups that belong to a container. It keeps those whose owner is not
// known yet: nothing runs in them.
func (s *Sampler) identify(dirs []string) error {
	s.made = nil
	for _, dir := range dirs {
		c, ready := s.node.Identify(filepath.Base(dir))
		switch {
		case !ready && s.node.Runs(dir):
			return fmt.Errorf("%s: a program runs, and %s has no config.json for it", dir, s.node.Bundles)
		case !ready:
			if exists(dir) {
				s.made = append(s.made, dir)
			}
		// The agent's own container has all CPUs for a moment when it starts, because no agent runs
		// that could assign its CPUs.
		case c == nil, strings.HasPrefix(c.Pod, "paddock/"):
		default:
			s.add(dir, c.Pod, c.Name)
		}
	}
	return nil
}

func (s *Sampler) add(dir, pod, name string) {
	c := &cgroup{dir: dir, SampledCgroup: wire.SampledCgroup{Pod: pod, Name: name}}
	c.own = name != "" && slices.ContainsFunc(s.own, func(word string) bool { return strings.HasPrefix(pod+"/"+name, word) })
	for name, to := range map[string]*File{"cpuset.cpus.effective": &c.cpus, "cpuset.mems.effective": &c.mems, "cpu.max": &c.quota} {
		f, err := s.node.Open(filepath.Join(dir, name))
		if err != nil { // It is already gone: runc creates all files of a cgroup together with it.
			c.close()
			return
		}
		*to = f
	}
	i, _ := slices.BinarySearchFunc(s.cgroups, c, func(a, b *cgroup) int { return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.dir, b.dir)) })
	s.cgroups = slices.Insert(s.cgroups, i, c)
}

// addPods adds the cgroups of pods that have a running container. They are read from the next look
// on.
func (s *Sampler) addPods() {
	for _, c := range slices.Clone(s.cgroups) {
		pod := filepath.Dir(c.dir)
		if c.runs && c.Name != "" && !slices.ContainsFunc(s.cgroups, func(c *cgroup) bool { return c.dir == pod }) {
			s.add(pod, c.Pod, "")
		}
	}
}

// mostChanges is more than the changes of one cgroup in a page.
const mostChanges = 1000

// read reads a cgroup, and reports whether it still exists. Its values before a program of the
// container runs are not recorded as changes. Whether one runs is read first, so the values are
// those of a running container.
func (s *Sampler) read(c *cgroup, at time.Duration) bool {
	c.runs = c.runs || c.Name == "" || s.node.occupied(c.dir) == byProgram
	now := wire.Change{At: at}
	var there [3]bool
	now.CPUs, there[0] = text(c.cpus)
	now.Mems, there[1] = text(c.mems)
	now.Quota, there[2] = text(c.quota)
	if there != [3]bool{true, true, true} && !exists(c.dir) {
		if len(c.Changes) > 0 {
			c.Gone = at
			s.seen.Cgroups = append(s.seen.Cgroups, c.SampledCgroup)
		}
		c.close()
		return false
	}
	c.now.read(now.CPUs)
	last := now
	if n := len(c.Changes); n > 0 {
		last = c.Changes[n-1]
		last.At = at
	}
	if c.runs && (len(c.Changes) == 0 || last != now && len(c.Changes) < mostChanges) {
		c.Changes = append(c.Changes, now)
	}
	return true
}

// again decides whether two containers that had a CPU in common in this look overlap.
func (s *Sampler) again(a, b *cgroup, at time.Duration) {
	occupants := [2]occupant{s.node.occupied(b.dir), s.node.occupied(a.dir)}
	if slices.Contains(occupants[:], byNothing) {
		s.seen.Cleared++
		return
	}
	made := occupants[0] == byRunc && unlimited(b.dir) || occupants[1] == byRunc && unlimited(a.dir)
	second, first := again(b), again(a)
	switch {
	case !first.share(&second), !exists(a.dir), !exists(b.dir):
		s.seen.Cleared++
	case made:
		s.seen.Making++
	default:
		s.seen.Overlaps++
		if len(s.seen.Examples) < 10 {
			s.seen.Examples = append(s.seen.Examples, wire.Overlap{At: at, A: a.Pod + " " + a.Name, B: b.Pod + " " + b.Name, CPUsA: first.text, CPUsB: second.text})
		}
	}
}

// again reads the CPUs of a cgroup.
func again(c *cgroup) cpus {
	has := cpus{unknown: true}
	if word, ok := text(c.cpus); ok {
		has.read(word)
	}
	return has
}

// Seen returns what was seen.
func (s *Sampler) Seen() wire.Sampled {
	seen := s.seen
	seen.Cgroups, seen.Examples = slices.Clone(seen.Cgroups), slices.Clone(seen.Examples)
	for _, c := range s.cgroups {
		if len(c.Changes) > 0 {
			copied := c.SampledCgroup
			copied.Changes = slices.Clone(copied.Changes)
			seen.Cgroups = append(seen.Cgroups, copied)
		}
	}
	return seen
}
