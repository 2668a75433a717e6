package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

func (n *node) observe(ctx context.Context) (wire.Observation, error) {
	return vm.Do[wire.Observation](ctx, n.vm, wire.OpObserve, wire.Nothing{})
}

func containersOf(o wire.Observation, uid string) []wire.Container {
	var found []wire.Container
	for _, c := range o.Containers {
		if c.UID == uid {
			found = append(found, c)
		}
	}
	return found
}

// podLine shows a pod's cgroup. The agent may remove its quota shortly after the pod runs, so only
// commands that wait show it.
func podLine(o wire.Observation, pod *v1.Pod) string {
	for _, p := range o.Pods {
		if p.UID == string(pod.UID) {
			return fmt.Sprintf("%s: quota %s", pod.Name, quota(p.CPUMax))
		}
	}
	return pod.Name + ": no cgroup"
}

// containerLines shows a pod's containers in the order of the spec.
func containerLines(pod *v1.Pod, containers []wire.Container) []string {
	var lines, names []string
	width := 0
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, c.Name)
		width = max(width, len(c.Name))
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
		width = max(width, len(c.Name))
	}
	slices.SortStableFunc(containers, func(a, b wire.Container) int {
		return cmp.Compare(slices.Index(names, a.Name), slices.Index(names, b.Name))
	})
	for _, c := range containers {
		lines = append(lines, fmt.Sprintf("  %-*s  cpus %s  mems %s  quota %s", width, c.Name,
			dash(c.Files["cpuset.cpus"]), dash(c.Files["cpuset.mems"]), quota(c.Files["cpu.max"])))
	}
	return lines
}

// quota returns the first word of cpu.max. The period is always the same.
func quota(cpuMax string) string {
	first, _, _ := strings.Cut(cpuMax, " ")
	return first
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (n *node) renderAll(o wire.Observation) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(n.pods)) {
		pod := n.pods[name]
		if running := containersOf(o, string(pod.UID)); len(running) > 0 {
			lines = append(append(lines, podLine(o, pod)), containerLines(pod, running)...)
		}
	}
	if len(lines) == 0 {
		return []string{"nothing runs"}
	}
	return lines
}

// bytesOfNode matches amounts that no pod requested: the memory that a kernel leaves of a NUMA
// node.
var bytesOfNode = regexp.MustCompile(`\b[0-9]+([KMGT]i)? of [0-9]+[KMGT]i free`)

// rejection formats a CRI error. It leaves out what the runtime adds around the agent's message.
func rejection(text string) []string {
	const before = "code = Unknown desc = "
	if i := strings.LastIndex(text, before); i >= 0 {
		text = text[i+len(before):]
	}
	text = bytesOfNode.ReplaceAllString(text, "… of … free")
	lines := []string{"rejected:"}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, "  "+line)
		}
	}
	return lines
}

func (n *node) cmdLimits(ctx context.Context, c scenario.Command) ([]string, error) {
	pod, _, err := n.known(c.Args)
	if err != nil {
		return nil, err
	}
	o, err := n.observe(ctx)
	if err != nil {
		return nil, err
	}
	describe := func(name string, files map[string]string) string {
		return fmt.Sprintf("%s: weight %s  memory %s  huge %s", name, files["cpu.weight"], files["memory.max"], files["hugetlb.2MB.max"])
	}
	var lines []string
	for _, p := range o.Pods {
		if p.UID == string(pod.UID) {
			lines = append(lines, describe(p.Path, p.Files))
		}
	}
	running := containersOf(o, string(pod.UID))
	slices.SortFunc(running, func(a, b wire.Container) int { return cmp.Compare(a.Name, b.Name) })
	for _, r := range running {
		lines = append(lines, describe("  "+r.Name, r.Files))
	}
	return lines, nil
}

func (n *node) assigned(ctx context.Context) ([]wire.Assigned, error) {
	return vm.Do[[]wire.Assigned](ctx, n.vm, wire.OpPodResources, wire.PodResources{Socket: podResSocket})
}

func (n *node) cmdPodResources(ctx context.Context, _ scenario.Command) ([]string, error) {
	all, err := n.assigned(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, a := range all {
		line := fmt.Sprintf("%s/%s  cpus %s", a.Pod, a.Container, dash(set(a.CPUs).String()))
		for _, m := range a.Memory {
			line += fmt.Sprintf("  %s %d of %v", m.Type, m.Bytes, m.Nodes)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return []string{"none"}, nil
	}
	return lines, nil
}

func set(ids []int64) cpuset.Set {
	var b cpuset.Builder
	for _, id := range ids {
		b.Add(int(id))
	}
	return b.Set()
}
