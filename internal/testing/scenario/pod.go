package scenario

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// runPod describes a pod as the API server would accept it. The UID of a pod is its name, so a
// second description with the same name changes the pod.
func (n *Node) runPod(c Command) ([]string, error) {
	if n.state == nil {
		return nil, errors.New("give machine and config first")
	}
	var rest, given []string
	for _, line := range c.Input {
		if words, found := strings.CutPrefix(line, "given "); found {
			given = append(given, words)
		} else {
			rest = append(rest, line)
		}
	}
	c.Input = rest
	pod, unvalidated, err := parsePod(c)
	if err != nil {
		return nil, err
	}
	chosen := map[string][]request.Given{}
	for _, words := range given {
		container, devices, err := n.parseGiven(pod, strings.Fields(words))
		if err != nil {
			return nil, fmt.Errorf("pod %s: given %s: %w", pod.Name, words, err)
		}
		chosen[container] = append(chosen[container], devices...)
	}
	pod = podspec.Default(pod, n.gates)
	if errs := podspec.Validate(pod, n.gates); len(errs) > 0 && !unvalidated {
		var lines []string
		for _, e := range errs {
			lines = append(lines, "invalid: "+e.Error())
		}
		return lines, nil
	}
	before := n.chosen[pod.Name]
	n.chosen[pod.Name] = chosen
	asked, err := n.request(pod)
	if err != nil {
		n.chosen[pod.Name] = before
		return nil, err
	}
	n.pods[pod.Name] = pod
	return describeRequest(asked), nil
}

func parsePod(c Command) (pod *v1.Pod, unvalidated bool, err error) {
	if len(c.Args) == 0 || strings.Contains(c.Args[0], "=") {
		return nil, false, errors.New("pod: want a name")
	}
	name, amounts := c.Args[0], c.Args[1:]
	if len(amounts) > 0 && amounts[0] == "unvalidated" {
		unvalidated, amounts = true, amounts[1:]
	}
	pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, UID: types.UID(name)}}
	if len(amounts) > 0 && amounts[0] == "virtual-machine" {
		pod.Labels, amounts = map[string]string{podspec.KubeVirtLabel: podspec.VirtLauncher}, amounts[1:]
	}
	if len(amounts) > 0 && strings.HasPrefix(amounts[0], "moves=") {
		pod.Annotations = map[string]string{podspec.MovesAnnotation: strings.TrimPrefix(amounts[0], "moves=")}
		amounts = amounts[1:]
		if _, err := podspec.Consent(pod); err != nil {
			return nil, false, fmt.Errorf("pod %s: %w", name, err)
		}
	}
	if len(amounts) > 0 && strings.HasPrefix(amounts[0], "shared-pool=") {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, request.SharedPoolAnnotation, strings.TrimPrefix(amounts[0], "shared-pool="))
		amounts = amounts[1:]
		if _, err := podspec.SharesIsolated(pod); err != nil {
			return nil, false, fmt.Errorf("pod %s: %w", name, err)
		}
	}
	if len(amounts) > 0 && strings.HasPrefix(amounts[0], "shared-pool-cache=") {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, request.SharedPoolCacheAnnotation, strings.TrimPrefix(amounts[0], "shared-pool-cache="))
		amounts = amounts[1:]
	}
	for len(amounts) > 0 && strings.HasPrefix(amounts[0], "cache.") { // an annotation for a container that need not exist
		name, text, _ := strings.Cut(strings.TrimPrefix(amounts[0], "cache."), "=")
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, request.CacheAnnotationPrefix+name, text)
		amounts = amounts[1:]
	}
	if len(amounts) > 0 {
		resources, err := parseResources(amounts)
		if err != nil {
			return nil, false, fmt.Errorf("pod %s: %w", name, err)
		}
		pod.Spec.Resources = &resources
	}
	for _, line := range c.Input {
		if err := addContainer(pod, strings.Fields(line)); err != nil {
			return nil, false, fmt.Errorf("pod %s: %q: %w", name, line, err)
		}
	}
	return pod, unvalidated, nil
}

func addContainer(pod *v1.Pod, words []string) error {
	if len(words) < 2 {
		return errors.New("want init, sidecar or app, and a name")
	}
	amounts := words[2:]
	if len(amounts) > 0 && strings.HasPrefix(amounts[0], "cache=") {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, request.CacheAnnotationPrefix+words[1], strings.TrimPrefix(amounts[0], "cache="))
		amounts = amounts[1:]
	}
	resources, err := parseResources(amounts)
	if err != nil {
		return err
	}
	c := v1.Container{Name: words[1], Resources: resources}
	switch words[0] {
	case "init":
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	case "sidecar":
		always := v1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	case "app":
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	default:
		return errors.New("want init, sidecar or app, and a name")
	}
	return nil
}

// parseResources parses words such as "cpu=2 memory=1Gi..2Gi". A single amount is both request and
// limit.
func parseResources(words []string) (v1.ResourceRequirements, error) {
	r := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return r, fmt.Errorf("%q: want an amount like cpu=2", w)
		}
		low, high, isRange := strings.Cut(value, "..")
		if !isRange {
			high = low
		}
		if low == "" && high == "" {
			return r, fmt.Errorf("%q: want an amount like cpu=2", w)
		}
		if err := setAmount(r.Requests, name, low); err != nil {
			return r, err
		}
		if err := setAmount(r.Limits, name, high); err != nil {
			return r, err
		}
	}
	return r, nil
}

func setAmount(list v1.ResourceList, name, text string) error {
	if text == "" {
		return nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%s=%s: %w", name, text, err)
	}
	list[v1.ResourceName(name)] = q
	return nil
}

// describeRequest describes the pod and what each container qualifies for.
func describeRequest(p request.Pod) []string {
	first := p.QoS.String()
	t := table{indent: "  "}
	switch p.Kind {
	case request.PodLevel:
		first += ", pod-level"
		first += budgetText(p)
	case request.Unmanaged:
		first += ", pod-level resources that the managers leave alone: feature gate PodLevelResourceManagers is off (" + request.GateOff.Rule() + ")"
		for _, c := range p.Containers {
			if len(c.Devices) > 0 {
				t.add(c.Type.String(), c.Name, "exclusive: "+c.Devices.String())
			}
		}
		return append([]string{first}, t.lines()...)
	case request.Plain:
	}
	for _, c := range p.Containers {
		var has, shares []string
		if c.Sharing == request.NotShared {
			has = append(has, count(c.CPUs, "CPU"))
		} else {
			shares = append(shares, "CPUs")
		}
		if len(c.Memory) > 0 {
			has = append(has, c.Memory.String())
		} else {
			shares = append(shares, "memory")
		}
		if len(c.Devices) > 0 {
			has = append(has, c.Devices.String())
		}
		var text []string
		if len(has) > 0 {
			text = append(text, "exclusive: "+strings.Join(has, " "))
		}
		if len(shares) > 0 {
			why := ""
			if c.Sharing != request.NotShared {
				why = ": " + node.WhyShares(c.Sharing).WithRule()
			}
			text = append(text, "shares "+strings.Join(shares, " and ")+why)
		}
		if !c.Cache.IsZero() {
			text = append(text, "cache "+c.Cache.String())
		}
		if len(c.Given) > 0 {
			text = append(text, givenText(c.Given))
		}
		t.add(c.Type.String(), c.Name, strings.Join(text, "; "))
	}
	if !p.PoolCache.IsZero() {
		first += ", cache of the shared pool " + p.PoolCache.String()
	}
	if p.CacheUnclear != "" {
		first += ", cache unclear: " + p.CacheUnclear
	}
	return append([]string{first}, t.lines()...)
}

// budgetText describes the pod-level budget. Only a Guaranteed pod has its budget divided among its
// containers.
func budgetText(p request.Pod) string {
	if p.QoS != request.Guaranteed {
		return ""
	}
	text := ", budget"
	switch {
	case p.BudgetCPUs > 0:
		text += " " + count(p.BudgetCPUs, "CPU")
	case p.BudgetCPUMilli > 0:
		text += fmt.Sprintf(" without CPUs, for %dm is not whole,", p.BudgetCPUMilli)
	}
	if len(p.BudgetMemory) > 0 {
		text += " " + p.BudgetMemory.String()
	}
	return text
}
