package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// settings are fields of a KubeletConfiguration under the short names of package scenario:
// topology, scope, cpu, memory, options, reserved-cpus and reserved-memory (NODE:AMOUNT,…). The
// names estimate and quota (isolated, kubelet) are settings of the agent.
type settings map[string]string

// defaults are the settings of a scenario that sets none.
var defaults = settings{
	"topology": "restricted", "scope": "pod", "cpu": "static", "memory": "Static", "reserved-cpus": "0", "reserved-memory": "0:256Mi",
}

func parseSettings(words []string) (settings, error) {
	s := settings{}
	for key, value := range defaults {
		s[key] = value
	}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		known := slices.Contains([]string{"topology", "scope", "cpu", "memory", "options", "reserved-cpus", "reserved-memory", "estimate", "quota"}, key)
		if !ok || !known {
			return nil, fmt.Errorf("%q: want a setting like topology=restricted", w)
		}
		s[key] = value
	}
	return s, nil
}

func (s settings) kubeletConfiguration() ([]byte, error) {
	object := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"featureGates":              map[string]bool{"PodLevelResourceManagers": true},
		"topologyManagerPolicy":     s["topology"],
		"topologyManagerScope":      s["scope"],
		"cpuManagerPolicy":          s["cpu"],
		"memoryManagerPolicy":       s["memory"],
		"reservedSystemCPUs":        s["reserved-cpus"],
		"cpuManagerReconcilePeriod": "500ms",
	}
	if s["options"] != "" {
		options := map[string]string{}
		for name := range strings.SplitSeq(s["options"], ",") {
			options[name] = "true"
		}
		object["cpuManagerPolicyOptions"] = options
	}
	const eviction = 100 << 20
	var sum int64
	var reserved []any
	for entry := range strings.SplitSeq(s["reserved-memory"], ",") {
		id, amount, _ := strings.Cut(entry, ":")
		number, err := strconv.Atoi(id)
		if err != nil {
			return nil, fmt.Errorf("reserved-memory: %w", err)
		}
		q, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, fmt.Errorf("reserved-memory: %w", err)
		}
		sum += q.Value()
		reserved = append(reserved, map[string]any{"numaNode": number, "limits": map[string]string{"memory": amount}})
	}
	object["evictionHard"] = map[string]string{"memory.available": strconv.Itoa(eviction)}
	object["systemReserved"] = map[string]string{"memory": strconv.FormatInt(sum-eviction, 10)}
	if s["memory"] == "Static" {
		object["reservedMemory"] = reserved
	}
	return json.Marshal(object)
}

// parsePod parses a pod of package scenario: a name and amounts, and a line for each container,
// "init|sidecar|app NAME amounts". The UID is derived from the name.
func parsePod(args, lines []string) (*v1.Pod, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("want the name of a pod")
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: args[0], Namespace: metav1.NamespaceDefault, UID: types.UID(args[0] + "-uid")}}
	pod.Spec.HostNetwork = true
	if len(args) > 1 {
		resources, err := parseResources(args[1:])
		if err != nil {
			return nil, err
		}
		pod.Spec.Resources = &resources
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 2 {
			return nil, fmt.Errorf("%q: want init, sidecar or app, and a name", line)
		}
		resources, err := parseResources(words[2:])
		if err != nil {
			return nil, err
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
			return nil, fmt.Errorf("%q: want init, sidecar or app", words[0])
		}
	}
	return pod, nil
}

// parseResources parses "cpu=2 memory=1Gi..2Gi". A single amount is both request and limit.
func parseResources(words []string) (v1.ResourceRequirements, error) {
	r := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		low, high, isRange := strings.Cut(value, "..")
		if !isRange {
			high = low
		}
		for list, text := range map[*v1.ResourceList]string{&r.Requests: low, &r.Limits: high} {
			if text == "" {
				continue
			}
			q, err := resource.ParseQuantity(text)
			if err != nil {
				return r, fmt.Errorf("%q: want an amount like cpu=2: %w", w, err)
			}
			(*list)[v1.ResourceName(name)] = q
		}
	}
	return r, nil
}
