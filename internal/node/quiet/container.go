package quiet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Container is a container with exclusive CPUs, or one that asks for quiet CPUs without having any.
type Container struct {
	// Namespace, Pod and UID are those of its pod, and Name is its own.
	Namespace, Pod, UID, Name string
	// RuntimeClass is the runtime class of its pod, or empty.
	RuntimeClass string
	// Annotations are those of its pod.
	Annotations map[string]string
	// Assigned are the exclusive CPUs that it has, and those to which it is about to move.
	Assigned cpuset.Set
	// Cgroup is the path of its cgroup, with a slash in front, and Runs are the CPUs that the
	// runtime has written there. Both are empty while there is no cgroup.
	Cgroup string
	Runs   cpuset.Set
}

// ID returns namespace, pod and name, with slashes between them.
func (c *Container) ID() string { return c.Namespace + "/" + c.Pod + "/" + c.Name }

// all returns the CPUs that must be quiet: those that the container has, and those that it has not
// left.
func (c *Container) all() cpuset.Set {
	if c.Assigned.IsEmpty() {
		return cpuset.Set{}
	}
	return c.Assigned.Union(c.Runs)
}

// The annotations of a pod. All but Frequency have the names and the values of CRI-O
// (github.com/cri-o/cri-o, pkg/annotations). Each may be followed by "/CONTAINER", which applies to
// one container and wins.
const (
	AskInterrupts = "irq-load-balancing.crio.io"
	AskBalancing  = "cpu-load-balancing.crio.io"
	AskCStates    = "cpu-c-states.crio.io"
	AskGovernor   = "cpu-freq-governor.crio.io"
	// AskFrequency has the lowest and the highest frequency in MHz, such as "2400-3200".
	AskFrequency = "cpu-frequency.paddock-project.github.io"
)

// choice is a wish that can also be the opposite one.
type choice int

const (
	noWish choice = iota
	quieter
	asUsual
)

// wishes are what a container asks for, in the values of the kernel. Empty is no wish.
type wishes struct {
	interrupts   choice
	housekeeping bool
	partition    choice
	latency      string
	governor     string
	min, max     string
}

// wish returns the value of an annotation for a container, and its key.
func (c *Container) wish(name string) (key, value string) {
	if value, has := c.Annotations[name+"/"+c.Name]; has {
		return name + "/" + c.Name, value
	}
	return name, c.Annotations[name]
}

// asked returns what the annotations of a container ask for, and what is wrong with them.
func (c *Container) asked() (w wishes, wrong []Problem) {
	read := func(name string, take func(value string) bool, want string) {
		key, value := c.wish(name)
		if value != "" && !take(value) {
			wrong = append(wrong, Problem{
				Container: c.ID(), Annotation: key,
				Text: fmt.Sprintf("container %s: annotation %s: %q: expected %s", c.ID(), key, value, want),
			})
		}
	}
	read(AskInterrupts, func(value string) bool {
		if w.housekeeping = value == "housekeeping"; w.housekeeping {
			value = "disable"
		}
		w.interrupts = balancing(value)
		return w.interrupts != noWish
	}, "disable, housekeeping or enable")
	read(AskBalancing, func(value string) bool {
		w.partition = balancing(value)
		return w.partition != noWish
	}, "disable or enable")
	read(AskCStates, func(value string) (known bool) {
		w.latency, known = latencyOf(value)
		return known
	}, "disable, enable or max_latency:MICROSECONDS")
	read(AskGovernor, func(value string) bool {
		if isName(value) {
			w.governor = value
		}
		return w.governor != ""
	}, "the name of a governor, such as performance")
	read(AskFrequency, func(value string) (known bool) {
		w.min, w.max, known = frequencies(value)
		return known
	}, "MIN-MAX in MHz, such as 2400-3200")
	return w, wrong
}

// balancing returns the choice of a value of AskInterrupts or AskBalancing. CRI-O also accepts the
// older value "true", which means "disable".
func balancing(value string) choice {
	switch value {
	case "disable", "true":
		return quieter
	case "enable", "false":
		return asUsual
	}
	return noWish
}

// latencyOf returns the content of pm_qos_resume_latency_us for a value of AskCStates. The kernel
// has 0 for "no limit", and n/a for "no latency at all" (drivers/base/power/sysfs.c,
// pm_qos_resume_latency_us_store).
func latencyOf(value string) (latency string, known bool) {
	switch value {
	case "enable":
		return "0", true
	case "disable":
		return "n/a", true
	}
	text, is := strings.CutPrefix(value, "max_latency:")
	limit, err := strconv.ParseInt(text, 10, 32)
	if !is || err != nil || limit <= 0 {
		return "", false
	}
	return strconv.FormatInt(limit, 10), true
}

// frequencies returns the limits of AskFrequency in kHz.
func frequencies(value string) (least, most string, known bool) {
	from, to, found := strings.Cut(value, "-")
	low, err := strconv.ParseUint(from, 10, 20)
	high, err2 := strconv.ParseUint(to, 10, 20)
	if !found || err != nil || err2 != nil || low == 0 || low > high {
		return "", "", false
	}
	return strconv.FormatUint(1000*low, 10), strconv.FormatUint(1000*high, 10), true
}

// isName reports whether a word can be the name of a governor: it is written to a file of the
// kernel.
func isName(word string) bool {
	return len(word) <= 15 && !strings.ContainsFunc(word, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' && (r < '0' || r > '9') })
}

// mostValue is the longest value of a wish that is kept, in bytes. Those with a meaning have 22 at
// most.
const mostValue = 64

// Wishes returns the annotations that are wishes for the pod or for one of its containers, with
// values that are cut. It shares no memory with its argument: the annotations of a pod can have 256
// KiB.
func Wishes(annotations map[string]string, containers []string) map[string]string {
	kept := map[string]string{}
	for key, value := range annotations {
		_, container, one := strings.Cut(key, "/")
		if !Asks(map[string]string{key: ""}) || one && !slices.Contains(containers, container) {
			continue
		}
		if len(value) > mostValue {
			value = strings.ToValidUTF8(value[:mostValue], "") + "…"
		}
		kept[strings.Clone(key)] = strings.Clone(value)
	}
	return kept
}

// Asks reports whether annotations have a wish for any container.
func Asks(annotations map[string]string) bool {
	for key := range annotations {
		name, _, _ := strings.Cut(key, "/")
		if slices.Contains([]string{AskInterrupts, AskBalancing, AskCStates, AskGovernor, AskFrequency}, name) {
			return true
		}
	}
	return false
}
