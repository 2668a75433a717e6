package config

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/paddock-project/paddock/internal/base/spelling"
)

// Gates are the values of the feature gates that influence decisions.
type Gates struct {
	// PodLevelResources allows spec.resources in pods.
	PodLevelResources bool
	// PodLevelManagers is PodLevelResourceManagers: pods with spec.resources get their own pools.
	// It is never set without PodLevelResources.
	PodLevelManagers bool
	// LiftQuota is DisableCPUQuotaWithExclusiveCPUs.
	LiftQuota bool
	// CPUAlphaOptions and CPUBetaOptions are CPUManagerPolicyAlphaOptions and
	// CPUManagerPolicyBetaOptions, which allow the options of their group (R-CPU-10).
	CPUAlphaOptions, CPUBetaOptions bool
}

// The names of the gates that the code uses.
const (
	gatePodLevelResources = "PodLevelResources"
	gatePodLevelManagers  = "PodLevelResourceManagers"
	gateLiftQuota         = "DisableCPUQuotaWithExclusiveCPUs"
	gateCPUAlpha          = "CPUManagerPolicyAlphaOptions"
	gateCPUBeta           = "CPUManagerPolicyBetaOptions"
	gateInPlacePodLevel   = "InPlacePodLevelResourcesVerticalScaling"
	gateInPlace           = "InPlacePodVerticalScaling"
	gateDeclaredFeatures  = "NodeDeclaredFeatures"
	gateAllAlpha          = "AllAlpha"
	gateAllBeta           = "AllBeta"
)

// gateFiles has a file for each known minor of Kubernetes, "gates/1.36.jsonl", with one gate in a
// line. test/record prints them: go run . -gates.
//
//go:embed gates
var gateFiles embed.FS

// ownMinor is the minor of Kubernetes whose gates and defaults Paddock has.
const ownMinor = 36

type gate struct {
	Name    string `json:"name"`
	Default bool   `json:"default"`
	Stage   string `json:"stage"`
	Locked  bool   `json:"locked"`
}

// The stages that AllAlpha and AllBeta set, and the stages at the end of a gate's life.
const (
	stageAlpha      = "ALPHA"
	stageBeta       = "BETA"
	stageGA         = "GA"
	stageDeprecated = "DEPRECATED"
)

// allGates has the gates by minor, and then by name.
var allGates = sync.OnceValue(func() map[int]map[string]gate {
	all := map[int]map[string]gate{}
	for minor := 33; ; minor++ {
		text, err := gateFiles.ReadFile(fmt.Sprintf("gates/1.%d.jsonl", minor))
		if errors.Is(err, fs.ErrNotExist) && minor < ownMinor {
			continue
		}
		if err != nil {
			return all
		}
		known := map[string]gate{}
		for lines := json.NewDecoder(bytes.NewReader(text)); lines.More(); {
			var g gate
			if err := lines.Decode(&g); err != nil {
				panic(fmt.Sprintf("kubelet/config: the gates of 1.%d, which are compiled in, are damaged: %v", minor, err))
			}
			known[g.Name] = g
		}
		all[minor] = known
	}
})

// For returns the configuration as a kubelet of minor 1.MINOR resolves it, with the feature gates
// and the stages of options of that minor. Without For, Resolve uses those of 1.36. An unknown
// minor also has those of 1.36.
func (c *Config) For(minor int) *Config {
	other := *c
	other.minor = minor
	return &other
}

// Running returns the configuration of a running kubelet with these feature gates, by name,
// regardless of the configuration and of the defaults of its minor. Other gates follow from these.
func (c *Config) Running(gates map[string]bool) *Config {
	other := *c
	other.running = gates
	return &other
}

// Unlike returns the feature gates of the running kubelet that differ from its configuration and
// the defaults of its minor. It returns only gates that influence decisions, or that need one that
// does.
func (c *Config) Unlike() map[string]bool {
	out := map[string]bool{}
	has := &resolution{spec: &c.spec, minor: cmp.Or(c.minor, ownMinor), running: c.running}
	follows := &resolution{spec: has.spec, minor: has.minor}
	names := []string{gatePodLevelResources, gatePodLevelManagers, gateLiftQuota, gateCPUAlpha, gateCPUBeta, gateInPlace, gateDeclaredFeatures}
	for _, d := range gateNeeds {
		names = append(names, d.gate)
	}
	for _, name := range names {
		if on := has.gate(name); on != follows.gate(name) {
			out[name] = on
		}
	}
	return out
}

func (r *resolution) knownGates() map[string]gate {
	if known := allGates()[r.minor]; known != nil {
		return known
	}
	return allGates()[ownMinor]
}

// gateNeeds are the dependencies of the gates for pod resources (R-DEM-99). A gate that is on, by
// default or explicitly, needs all of these gates.
var gateNeeds = []struct {
	gate  string
	needs []string
}{
	{gateInPlacePodLevel, []string{gateInPlace, gatePodLevelResources, gateDeclaredFeatures}},
	{gatePodLevelManagers, []string{gatePodLevelResources}},
	// Kubernetes 1.37 has these two gates, which are on.
	{"PodLevelResourcesFixDefaulting", []string{gatePodLevelResources}},
	{"PodLevelResourcesFixKubeletQOSClass", []string{gatePodLevelResources}},
}

// gate returns the value of a gate: that of the running kubelet, then that of the configuration,
// then that of AllAlpha or AllBeta, then the default of the minor of Kubernetes. A gate that is set
// by its own name takes precedence over AllAlpha and AllBeta, and a locked gate cannot be changed.
func (r *resolution) gate(name string) bool {
	if v, ok := r.running[name]; ok {
		return v
	}
	g := r.knownGates()[name]
	if g.Locked {
		return g.Default
	}
	if v, ok := r.spec.FeatureGates[name]; ok {
		return v
	}
	if v, ok := r.spec.FeatureGates[g.group()]; ok {
		return v
	}
	return g.Default
}

// resolveGates sets the gates. It reports unknown gates, locked gates that are set to the other
// value, and unmet dependencies.
func (r *resolution) resolveGates() {
	set, value := r.spec.FeatureGates, r.gate
	r.judgeGates()
	for _, d := range gateNeeds {
		unmet := func(need string) bool { return !value(need) }
		if !value(d.gate) || !slices.ContainsFunc(d.needs, unmet) {
			continue
		}
		why, missing := "is on by default", slices.DeleteFunc(slices.Clone(d.needs), value)
		if set[d.gate] {
			why = "is set to true"
		} else if !r.knownGates()[d.gate].Default {
			why = "is switched on by " + r.knownGates()[d.gate].group()
		}
		r.reject(Problem{
			Field:   gateField(d.gate),
			Why:     fmt.Sprintf("the gate %s and needs %s, which is off", why, strings.Join(missing, " and ")),
			Fix:     fmt.Sprintf("set %s to false, or %s to true", d.gate, strings.Join(missing, " and ")),
			Kubelet: fmt.Sprintf("%s is enabled, but depends on features that are disabled: %v", d.gate, missing),
		})
	}
	r.gates = Gates{
		PodLevelResources: value(gatePodLevelResources),
		PodLevelManagers:  value(gatePodLevelManagers) && value(gatePodLevelResources),
		LiftQuota:         value(gateLiftQuota),
		CPUAlphaOptions:   value(gateCPUAlpha),
		CPUBetaOptions:    value(gateCPUBeta),
	}
}

// group returns the gate that sets all gates of this gate's stage, or "".
func (g gate) group() string {
	switch g.Stage {
	case stageAlpha:
		return gateAllAlpha
	case stageBeta:
		return gateAllBeta
	}
	return ""
}

// judgeGates rejects invalid gate settings, and warns about gates that will be removed. It also
// warns about unknown gates of a running kubelet, which has a newer version or gates of its vendor.
func (r *resolution) judgeGates() {
	var foreign []string
	for _, name := range slices.Sorted(maps.Keys(r.spec.FeatureGates)) {
		on := r.spec.FeatureGates[name]
		g, ok := r.knownGates()[name]
		switch {
		case !ok && r.effective:
			foreign = append(foreign, name)
		case !ok:
			r.reject(Problem{
				Field:   gateField(name),
				Why:     fmt.Sprintf("Kubernetes 1.%d has no such feature gate", r.minor),
				Fix:     didYouMean(name, slices.Collect(maps.Keys(r.knownGates()))),
				Kubelet: "unrecognized feature gate: " + name,
			})
		case g.Locked && on != g.Default:
			r.reject(Problem{
				Field:   gateField(name),
				Why:     fmt.Sprintf("the gate is locked to %t and cannot be set to %t any more", g.Default, on),
				Fix:     "remove it",
				Kubelet: fmt.Sprintf("cannot set feature gate %s to %t, feature is locked to %t", name, on, g.Default),
			})
		case on == g.Default && (g.Stage == stageGA || g.Stage == stageDeprecated):
			r.warn(gateField(name), "%t is the default, and the gate (%s) will be removed: remove it", g.Default, g.Stage)
		}
	}
	if len(foreign) > 0 {
		r.warn("featureGates", "not gates of Kubernetes 1.%d, so that their effect is not known: %s", r.minor, fewOf(foreign))
	}
}

func gateField(name string) string { return "featureGates[" + name + "]" }

// didYouMean returns the fix for an unknown name.
func didYouMean(name string, known []string) string {
	slices.Sort(known)
	if near := spelling.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) > 10 {
		return "remove it"
	}
	return "use one of " + strings.Join(known, ", ")
}
