package silencer

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

const (
	// checkTasksEvery is how often the process checks the tasks of a class that has not changed. A
	// task begins in the group of its parent, but a task that a runtime adds to a container does
	// not.
	checkTasksEvery = 10 * time.Second
	// mostMoves is how many threads a round moves. The next round moves the rest.
	mostMoves = 1000
)

// member is a container in a group.
type member struct {
	// container has the namespace, the pod and the name.
	container, group, cgroup string
}

// classes are the groups of resctrl that containers need.
type classes struct {
	caches  quiet.Caches
	members []member
}

// classesOf returns the classes in an agent's answer. The cgroup of a container is the cgroup of
// its pod that has exactly its CPUs: exclusive CPUs are in one cgroup, and all containers that
// share a pool have the same class.
func classesOf(shown *podres.Caches, groups []kernelfiles.Cgroup) *classes {
	c := &classes{caches: quiet.Caches{Division: resctrl.Division{Rules: shown.Rules, Rest: shown.Rest, Groups: map[string]cache.Class{}}, For: map[string][]string{}}}
	cgroups := map[string]bool{}
	for i := range shown.Containers {
		of := &shown.Containers[i]
		if !resctrl.IsOurs(of.Group) || len(of.Class) == 0 {
			continue
		}
		id := of.Namespace + "/" + of.Pod + "/" + of.Container
		c.caches.Groups[of.Group] = of.Class
		c.caches.For[of.Group] = append(c.caches.For[of.Group], id)
		for j := range groups {
			if g := &groups[j]; g.UID == of.UID && g.CPUs.Equal(of.CPUs) && !cgroups[g.Path] {
				cgroups[g.Path] = true
				c.members = append(c.members, member{id, of.Group, g.Path})
			}
		}
	}
	return c
}

// wanted returns the classes for a plan.
func (c *classes) wanted() *quiet.Caches {
	if c == nil {
		return nil
	}
	return &c.caches
}

// cacheWishes returns the classes for which this node makes groups. It returns nil if they are not
// known, or are to be given back. unread has the groups of other programs that cannot be read.
func (s *Silencer) cacheWishes(groups []kernelfiles.Cgroup) (c *classes, unread map[string]error) {
	shown := s.follow.classes()
	if shown == nil || s.config.Quiet.Caches == quiet.Off {
		return nil, nil
	}
	if c = classesOf(shown, groups); len(c.caches.Groups) > 0 {
		c.caches.Others, unread = s.world.Files.Others()
	}
	return c, unread
}

// moveTasks moves the threads of containers to their groups. It remembers when it last saw all
// threads of a cgroup in the right group.
func (s *Silencer) moveTasks(c *classes) {
	if c == nil {
		s.checked = nil
		return
	}
	left, checked, tasks := mostMoves, map[member]time.Time{}, map[string]map[int]bool{}
	// A container whose processes end as fast as they are moved needs all moves of each round. The
	// next round begins with the one after it.
	first := 0
	if at := slices.Index(c.members, s.moving); at >= 0 {
		first = at + 1
	}
	s.moving = member{}
	for _, m := range slices.Concat(c.members[first:], c.members[:first]) {
		at, before := s.checked[m]
		if before && s.world.Now().Sub(at) < checkTasksEvery {
			checked[m] = at
			continue
		}
		if tasks[m.group] == nil {
			in, err := s.world.Files.Tasks(m.group)
			if errors.Is(err, fs.ErrNotExist) {
				continue // The kernel has rejected the group, or another program has removed it.
			}
			if err != nil {
				s.taskError(m, err)
				continue
			}
			tasks[m.group] = in
		}
		had := left
		all, err := s.moveThreads(m, tasks[m.group], &left)
		if had > 0 && left == 0 {
			s.moving = m
		}
		if err != nil {
			s.taskError(m, err)
		}
		if all {
			checked[m] = s.world.Now()
		}
	}
	s.checked = checked
}

// moveThreads moves the threads of one container, at most left of them. It reports whether all of
// them are in the group.
func (s *Silencer) moveThreads(m member, in map[int]bool, left *int) (all bool, err error) {
	threads, err := s.world.Files.Threads(m.cgroup)
	for _, thread := range threads {
		switch {
		case in[thread]:
			continue
		case err != nil || *left == 0:
			return false, err
		}
		*left--
		var moved bool
		if moved, err = s.world.Files.Move(m.group, thread); moved {
			s.counts.moved++
		}
	}
	return err == nil, err
}

func (s *Silencer) taskError(m member, err error) {
	s.taskErrors = append(s.taskErrors, quiet.Problem{Container: m.container, File: quiet.ClassFile(m.group), Text: fmt.Sprintf("container %s: its threads cannot be moved to its cache class %s: %v", m.container, m.group, err)})
}

// Class is a class of the caches, that is, a group of resctrl.
type Class struct {
	// Group is the name of the group, and Containers are the containers in it.
	Group      string   `json:"group"`
	Containers []string `json:"containers"`
	// Pool reports whether it is the class of a pod's pool.
	Pool bool `json:"pool"`
	// Has describes what the class has for itself.
	Has string `json:"has"`
}

func (c *classes) status() []Class {
	all := []Class{}
	if c == nil {
		return all
	}
	for _, name := range slices.Sorted(maps.Keys(c.caches.Groups)) {
		all = append(all, Class{name, c.caches.For[name], !strings.Contains(name, "."), c.caches.Groups[name].String()})
	}
	return all
}

// mostSeries limits the classes in the metrics. A processor has at most 16 classes; an ARM one can
// have more.
const mostSeries = 128

// usageEvery is how long a reading of the monitoring is valid. Each reading interrupts a CPU of
// each cache, possibly a quiet one.
const usageEvery = 10 * time.Second

// usage is the text of the metrics of the classes, and when it was read.
type usage struct {
	text string
	at   time.Time
}

// classMetrics returns the occupancy and the bandwidth of the classes. It reads them only on
// request.
func (s *Silencer) classMetrics() string {
	s.monitoring.Lock()
	defer s.monitoring.Unlock()
	now := s.world.Now()
	if !s.usage.at.IsZero() && now.Sub(s.usage.at) < usageEvery {
		return s.usage.text
	}
	classes := s.Status().Classes
	var series [len(resctrl.Events)]strings.Builder
	shown := map[string]bool{}
	for i := range classes[:min(len(classes), mostSeries)] {
		c := &classes[i]
		if shown[c.labels()] {
			continue // A pod that ends and the one that replaces it have the same name.
		}
		shown[c.labels()] = true
		for event, u := range s.world.Files.Usage(c.Group) {
			if u.Known {
				fmt.Fprintf(&series[event], "%s%s %s\n", classMetricNames[event], c.labels(), strconv.FormatUint(u.Value, 10))
			}
		}
	}
	var out strings.Builder
	for event, help := range []string{
		"Bytes that a cache class has in the L3 caches at present.", "Bytes that a cache class has read and written in memory.", "As paddock_quiet_class_memory_bytes_total, of the memory beside the same cache.",
	} {
		if series[event].Len() > 0 {
			kind := map[bool]string{true: "gauge", false: "counter"}[event == 0]
			fmt.Fprintf(&out, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n%[4]s", classMetricNames[event], help, kind, series[event].String())
		}
	}
	s.usage = usage{out.String(), now}
	return s.usage.text
}

// classMetricNames are parallel to resctrl.Events.
var classMetricNames = [len(resctrl.Events)]string{"paddock_quiet_class_cache_bytes", "paddock_quiet_class_memory_bytes_total", "paddock_quiet_class_local_memory_bytes_total"}

// labels returns the pod and the container of a class. The class of a pool has no container.
func (c *Class) labels() string {
	var words [3]string
	if len(c.Containers) > 0 {
		copy(words[:], strings.SplitN(c.Containers[0], "/", 3))
	}
	if c.Pool {
		words[2] = ""
	}
	return fmt.Sprintf("{namespace=%q,pod=%q,container=%q}", words[0], words[1], words[2])
}
