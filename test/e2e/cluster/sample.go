package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// sample starts to read the cgroups of all containers every 10 ms. The words are prefixes of
// NAMESPACE/POD/CONTAINER that select the containers with exclusive CPUs.
func sample(ctx context.Context, n *node, words []string, _ []byte) (wire.Ended, error) {
	_, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpSample, wire.Sample{Own: words})
	return wire.Ended{}, err
}

// sampled prints what was seen since sample: how often another container could run on CPUs of a
// container with exclusive CPUs, and the successive CPUs, NUMA nodes and quotas of the containers
// and pods that the words select as for sample. The time for which a quota was set differs from run
// to run, so it is written to the log of the test.
func sampled(ctx context.Context, n *node, words []string, _ []byte) (wire.Ended, error) {
	s, err := vm.Do[wire.Sampled](ctx, n.vm, wire.OpSampled, wire.Nothing{})
	if err != nil {
		return wire.Ended{}, err
	}
	if s.Looks < 100 {
		return wire.Ended{}, fmt.Errorf("the sampler looked %d times only", s.Looks)
	}
	say("%d looks in %.1f s, %.0f ms apart at most; %d pairs cleared by a second look, %d with a cgroup in which runc alone ran",
		s.Looks, s.Time.Seconds(), milliseconds(s.LongestGap), s.Cleared, s.Making)
	var out strings.Builder
	fmt.Fprintf(&out, "%d overlaps\n", s.Overlaps)
	for _, o := range s.Examples {
		fmt.Fprintf(&out, "  after %.0f ms: %s %s, %s %s\n", milliseconds(o.At), o.A, o.CPUsA, o.B, o.CPUsB)
	}
	var lines []string
	for _, c := range s.Cgroups {
		name := c.Pod + "/" + c.Name
		if !slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(name, word) }) {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s  cpus %s  mems %s  quota %s\n", strings.TrimSuffix(name, "/"),
			succession(c, func(c wire.Change) string { return c.CPUs }), succession(c, func(c wire.Change) string { return c.Mems }),
			succession(c, func(c wire.Change) string { return c.Quota })))
		if limited := longestQuota(c, s.Time); limited > 0 && c.Changes[0].Quota == "max" {
			say("%s had a quota for %.0f ms at most", name, milliseconds(limited))
		}
	}
	slices.Sort(lines)
	out.WriteString(strings.Join(lines, ""))
	return wire.Ended{Stdout: out.String()}, nil
}

// changed compares the time at which a container, NAMESPACE/POD/CONTAINER, was first seen with a
// list of CPUs to a given time, by the clock of the node. The time between the two is written to
// the log of the test.
func changed(ctx context.Context, n *node, words []string, _ []byte) (wire.Ended, error) {
	if len(words) != 3 {
		return wire.Ended{}, fmt.Errorf("usage: changed NAMESPACE/POD/CONTAINER CPUS TIME")
	}
	deadline, err := time.Parse(time.RFC3339Nano, words[2])
	if err != nil {
		return wire.Ended{}, err
	}
	s, err := vm.Do[wire.Sampled](ctx, n.vm, wire.OpSampled, wire.Nothing{})
	if err != nil {
		return wire.Ended{}, err
	}
	for _, c := range s.Cgroups {
		for _, change := range c.Changes {
			if c.Pod+"/"+c.Name != words[0] || change.CPUs != words[1] {
				continue
			}
			late := s.Begun.Add(change.At).Sub(deadline)
			say("%s had CPUs %s %.0f ms after its deadline", words[0], words[1], milliseconds(late))
			if late < 0 {
				return wire.Ended{Stdout: fmt.Sprintf("%.0f ms too early\n", milliseconds(-late))}, nil
			}
			return wire.Ended{Stdout: "not before the deadline\n"}, nil
		}
	}
	return wire.Ended{}, fmt.Errorf("container %s was not seen with CPUs %s", words[0], words[1])
}

// succession returns the values of a field that differ from the value before.
func succession(c wire.SampledCgroup, field func(wire.Change) string) string {
	var values []string
	for _, change := range c.Changes {
		if n, v := len(values), field(change); n == 0 || values[n-1] != v {
			values = append(values, v)
		}
	}
	return strings.Join(values, " > ")
}

// longestQuota returns the longest time for which a cgroup had a quota.
func longestQuota(c wire.SampledCgroup, end time.Duration) (longest time.Duration) {
	if c.Gone > 0 {
		end = c.Gone
	}
	for i := 0; i < len(c.Changes); i++ {
		if c.Changes[i].Quota == "max" {
			continue
		}
		from := c.Changes[i].At
		for i < len(c.Changes) && c.Changes[i].Quota != "max" {
			i++
		}
		until := end
		if i < len(c.Changes) {
			until = c.Changes[i].At
		}
		longest = max(longest, until-from)
	}
	return longest
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
