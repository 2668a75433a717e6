package config

import (
	_ "embed" // The gates' data.
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/paddock-project/paddock/internal/base/spelling"
)

// Gates are the values of the feature gates that decide anything here.
type Gates struct {
	// PodLevelResources lets pods carry spec.resources.
	PodLevelResources bool
	// PodLevelManagers is PodLevelResourceManagers: such pods get pools of their own. It
	// is never on without PodLevelResources.
	PodLevelManagers bool
	// LiftQuota is DisableCPUQuotaWithExclusiveCPUs.
	LiftQuota bool
	// CPUAlphaOptions and CPUBetaOptions are CPUManagerPolicyAlphaOptions and
	// CPUManagerPolicyBetaOptions: they admit the options of their group (R-CPU-10).
	CPUAlphaOptions, CPUBetaOptions bool
}

// The names of the gates that are asked for.
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

// gatesVersion is the Kubernetes release whose gates gates.json lists.
const gatesVersion = "1.36"

//go:embed gates.json
var gatesJSON []byte

type gate struct {
	Name    string `json:"name"`
	Default bool   `json:"default"`
	Stage   string `json:"stage"`
	Locked  bool   `json:"locked"`
}

// The stages that AllAlpha and AllBeta switch, and those that end a gate's life.
const (
	stageAlpha      = "ALPHA"
	stageBeta       = "BETA"
	stageGA         = "GA"
	stageDeprecated = "DEPRECATED"
)

var knownGates = sync.OnceValue(func() map[string]gate {
	var list []gate
	if err := json.Unmarshal(gatesJSON, &list); err != nil {
		panic("kubelet/config: gates.json, which is compiled in, is damaged: " + err.Error())
	}
	known := make(map[string]gate, len(list))
	for _, g := range list {
		known[g.Name] = g
	}
	return known
})

// gateNeeds are the dependencies of the gates about pods' resources (R-DEM-99): a gate
// that is on, by default or by will, needs all of these.
var gateNeeds = []struct {
	gate  string
	needs []string
}{
	{gateInPlacePodLevel, []string{gateInPlace, gatePodLevelResources, gateDeclaredFeatures}},
	{gatePodLevelManagers, []string{gatePodLevelResources}},
}

// resolveGates takes what is set, then AllAlpha and AllBeta for what is not, then the defaults of
// Kubernetes 1.36. A gate that is set by its own name wins over AllAlpha and AllBeta, and a locked
// one cannot be moved. The problems are unknown gates, locked gates that are set otherwise and
// unmet dependencies.
func (r *resolution) resolveGates() {
	set := r.spec.FeatureGates
	r.judgeGates()
	value := func(name string) bool {
		g := knownGates()[name]
		if g.Locked {
			return g.Default
		}
		if v, ok := set[name]; ok {
			return v
		}
		if v, ok := set[g.group()]; ok {
			return v
		}
		return g.Default
	}
	for _, d := range gateNeeds {
		unmet := func(need string) bool { return !value(need) }
		if !value(d.gate) || !slices.ContainsFunc(d.needs, unmet) {
			continue
		}
		why, missing := "is on by default", slices.DeleteFunc(slices.Clone(d.needs), value)
		if set[d.gate] {
			why = "is set to true"
		} else if !knownGates()[d.gate].Default {
			why = "is switched on by " + knownGates()[d.gate].group()
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

// group is the gate that moves all gates of this one's stage, or "".
func (g gate) group() string {
	switch g.Stage {
	case stageAlpha:
		return gateAllAlpha
	case stageBeta:
		return gateAllBeta
	}
	return ""
}

// judgeGates rejects gates that cannot be set so, and warns of those that will be removed.
func (r *resolution) judgeGates() {
	for _, name := range slices.Sorted(maps.Keys(r.spec.FeatureGates)) {
		on := r.spec.FeatureGates[name]
		g, ok := knownGates()[name]
		switch {
		case !ok:
			r.reject(Problem{
				Field:   gateField(name),
				Why:     "Kubernetes " + gatesVersion + " has no such feature gate",
				Fix:     didYouMean(name, slices.Collect(maps.Keys(knownGates()))),
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
}

func gateField(name string) string { return "featureGates[" + name + "]" }

// didYouMean is the fix for a name that is not among the known ones.
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
