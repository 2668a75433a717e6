package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/utils/cpuset"
)

// Settings are what the kubelet derives from its configuration before it makes the managers. The
// kubelet's own packages decode, default and validate the configuration, and parse thresholds. The
// kubelet does not export the functions that add up a reservation, so this package adds it up by
// R-CPU-22 and R-MEM-2.
type Settings struct {
	Config *kubeletconfig.KubeletConfiguration
	// Explicit are the CPUs of reservedSystemCPUs.
	Explicit    cpuset.CPUSet
	Reservation v1.ResourceList
	capacity    v1.ResourceList
	// Devices is set if the node has a device manager.
	Devices bool
}

// defaultGates are the gates before any configuration. Gates cannot be unset, so every start begins
// with a copy.
var defaultGates = utilfeature.DefaultMutableFeatureGate.DeepCopy()

// resolve sets the feature gates of this process and reads the rest of the configuration.
func resolve(raw map[string]any, machine Machine) (*Settings, error) {
	if err := setGates(raw["featureGates"]); err != nil {
		return nil, fmt.Errorf("failed to set feature gates from initial flags-based config: %w", err)
	}
	s := &Settings{capacity: machine.Capacity()}
	var err error
	if s.Config, err = decodeConfig(raw); err != nil {
		return nil, err
	}
	if s.Explicit, err = explicitCPUs(machine, s.Config.ReservedSystemCPUs); err != nil {
		return nil, err
	}
	if n := s.Explicit.Size(); n > 0 {
		delete(s.Config.KubeReserved, "cpu")
		if s.Config.SystemReserved == nil {
			s.Config.SystemReserved = map[string]string{}
		}
		s.Config.SystemReserved["cpu"] = strconv.Itoa(n)
	}
	if s.Reservation, err = reserve(s.Config, s.capacity); err != nil {
		return nil, err
	}
	if s.Config.TopologyManagerPolicyOptions != nil && !Enabled("TopologyManagerPolicyOptions") {
		return nil, errors.New("topology manager policy options require the feature gate TopologyManagerPolicyOptions")
	}
	return s, nil
}

// Enabled reports whether a feature gate is on. A gate that the version does not have is off.
func Enabled(gate featuregate.Feature) bool {
	_, known := utilfeature.DefaultMutableFeatureGate.GetAll()[gate]
	return known && utilfeature.DefaultFeatureGate.Enabled(gate)
}

func setGates(raw any) error {
	gates := defaultGates.DeepCopy()
	utilfeature.DefaultMutableFeatureGate, utilfeature.DefaultFeatureGate = gates, gates
	values := map[string]bool{}
	if written, ok := raw.(map[string]any); ok {
		for name, value := range written {
			if on, ok := value.(bool); ok {
				values[name] = on
			}
		}
	}
	return gates.SetFromMap(values)
}

var codecs = func() *serializer.CodecFactory {
	_, codecs, err := scheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		panic(err)
	}
	return codecs
}()

func decodeConfig(raw map[string]any) (*kubeletconfig.KubeletConfiguration, error) {
	raw = maps.Clone(raw)
	if raw == nil {
		raw = map[string]any{}
	}
	raw["apiVersion"], raw["kind"] = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"
	text, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	object, _, err := codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to load kubelet config file: %w", err)
	}
	config, ok := object.(*kubeletconfig.KubeletConfiguration)
	if !ok {
		return nil, fmt.Errorf("the configuration is a %T", object)
	}
	defaultEviction(config)
	// The cgroup version of the recording machine does not affect the answers.
	config.FailCgroupV1 = false
	if err := validation.ValidateKubeletConfiguration(config, utilfeature.DefaultFeatureGate); err != nil {
		return nil, fmt.Errorf("failed to validate kubelet configuration, error: %w", err)
	}
	return config, nil
}

// defaultEviction fills in hard thresholds: all of them if there is none, and the missing ones if
// the configuration asks for it.
func defaultEviction(config *kubeletconfig.KubeletConfiguration) {
	if config.EvictionHard != nil && !config.MergeDefaultEvictionSettings {
		return
	}
	written := config.EvictionHard
	config.EvictionHard = maps.Clone(eviction.DefaultEvictionHard)
	maps.Copy(config.EvictionHard, written)
}

func explicitCPUs(machine Machine, list string) (cpuset.CPUSet, error) {
	if list == "" {
		return cpuset.New(), nil
	}
	online, err := machine.OnlineCPUs()
	if err != nil {
		return cpuset.New(), err
	}
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return cpuset.New(), err
	}
	if !cpus.IsSubsetOf(online) {
		return cpuset.New(), fmt.Errorf("reserved-cpus: %s is not a subset of online-cpus: %s", list, online)
	}
	return cpus, nil
}

// reserve adds up systemReserved, kubeReserved and the hard eviction threshold of memory. It omits
// resources of which nothing is reserved.
func reserve(config *kubeletconfig.KubeletConfiguration, capacity v1.ResourceList) (v1.ResourceList, error) {
	kube, err := parseReserved("--kube-reserved", config.KubeReserved)
	if err != nil {
		return nil, err
	}
	system, err := parseReserved("--system-reserved", config.SystemReserved)
	if err != nil {
		return nil, err
	}
	evicted, err := evictedMemory(config, capacity)
	if err != nil {
		return nil, err
	}
	sum := v1.ResourceList{}
	for name := range capacity {
		total := resource.NewQuantity(0, resource.DecimalSI)
		for _, part := range []v1.ResourceList{system, kube, evicted} {
			total.Add(part[name])
		}
		if !total.IsZero() {
			sum[name] = *total
		}
	}
	return sum, nil
}

func parseReserved(flag string, written map[string]string) (v1.ResourceList, error) {
	reservable := []string{"cpu", "memory", "ephemeral-storage", "pid"}
	list := v1.ResourceList{}
	for name, text := range written {
		if !slices.Contains(reservable, name) {
			return nil, fmt.Errorf("%s value failed to parse: cannot reserve %q resource", flag, name)
		}
		amount, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s value failed to parse: %q of %s: %w", flag, text, name, err)
		}
		if amount.Sign() < 0 {
			return nil, fmt.Errorf("%s value failed to parse: %q of %s is negative", flag, text, name)
		}
		list[v1.ResourceName(name)] = amount
	}
	return list, nil
}

func evictedMemory(config *kubeletconfig.KubeletConfiguration, capacity v1.ResourceList) (v1.ResourceList, error) {
	thresholds, err := eviction.ParseThresholdConfig(nil, config.EvictionHard, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	memory := capacity[v1.ResourceMemory]
	list := v1.ResourceList{}
	for _, t := range thresholds {
		if t.Signal == evictionapi.SignalMemoryAvailable && t.Operator == evictionapi.OpLessThan {
			list[v1.ResourceMemory] = *evictionapi.GetThresholdQuantity(t.Value, &memory)
		}
	}
	return list, nil
}

// checkCapacity rejects reservations that the machine does not have.
func (s *Settings) checkCapacity() error {
	var problems []string
	for name, reserved := range s.Reservation {
		if capacity := s.capacity[name]; capacity.Cmp(reserved) < 0 {
			problems = append(problems, fmt.Sprintf("Resource %q has a reservation of %v but capacity of %v. Expected capacity >= reservation.",
				name, &reserved, &capacity))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return errors.New("invalid Node Allocatable configuration. " + strings.Join(problems, " "))
}
