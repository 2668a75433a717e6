// Package config turns a KubeletConfiguration with its feature gates into the one
// resolved node.Policy of one machine.
//
// Reading and resolving are apart. Read, FromJSON and Patch make a Config: text that is
// well formed and names only fields that exist. Resolve then judges it against a
// machine, as the kubelet does when it starts: policies, options, gates, reservations.
// It rejects every combination on which a kubelet would not start, all of them at once,
// each with the field, what to change, and the kubelet's own sentence, because that is
// what people search for. What is legal and has no effect is a warning.
//
// Nothing here touches a node, and a Config never changes once it is made: it may be
// shared between goroutines.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/kubelet/config/v1beta1"
)

// What a KubeletConfiguration must call itself.
const (
	APIVersion = "kubelet.config.k8s.io/v1beta1"
	Kind       = "KubeletConfiguration"
)

// ErrSyntax is wrapped by every error of Read, FromJSON and Patch: the text is not a
// KubeletConfiguration.
var ErrSyntax = errors.New("not a usable KubeletConfiguration")

// Config is a KubeletConfiguration that could be read, not yet judged. The zero value
// is the empty configuration: the kubelet's defaults.
type Config struct {
	name   string
	fields map[string]json.RawMessage
	spec   v1beta1.KubeletConfiguration
}

// Read decodes a KubeletConfiguration in YAML or JSON; name is that of the file in errors.
// Decoding is strict: unknown and repeated fields are errors that give the field's path
// and, for a typo, the nearest known field. Errors wrap ErrSyntax.
func Read(name string, data []byte) (*Config, error) {
	object, err := toJSON(data)
	if err != nil {
		return nil, syntax(name, err)
	}
	return decode(name, object, true)
}

// FromJSON decodes the bare fields of a KubeletConfiguration, as a replayed scenario
// gives them: apiVersion and kind may be absent. Nothing at all is the configuration of
// defaults. Otherwise it is as strict as Read.
func FromJSON(raw json.RawMessage) (*Config, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	return decode(scenarioName, raw, false)
}

const scenarioName = "kubeletConfig"

// Patch returns the configuration with the fields of patch in place of its own, whole
// field by whole field, and with the given feature gates set beside those that are set
// already. Patch and gates may be empty. The receiver stays as it is.
func (c *Config) Patch(patch json.RawMessage, gates map[string]bool) (*Config, error) {
	fields := maps.Clone(c.fields)
	if fields == nil {
		fields = map[string]json.RawMessage{}
	}
	if len(patch) > 0 {
		changed, err := decode(c.name+" patch", patch, false)
		if err != nil {
			return nil, err
		}
		maps.Copy(fields, changed.fields)
	}
	if len(gates) > 0 {
		all := map[string]bool{}
		if old := fields["featureGates"]; len(old) > 0 {
			if err := json.Unmarshal(old, &all); err != nil {
				return nil, syntax(c.name, fmt.Errorf("featureGates: %w", err))
			}
		}
		if all == nil { // featureGates: null
			all = map[string]bool{}
		}
		maps.Copy(all, gates)
		raw, err := json.Marshal(all)
		if err != nil {
			return nil, syntax(c.name, fmt.Errorf("featureGates: %w", err))
		}
		fields["featureGates"] = raw
	}
	object, err := json.Marshal(fields)
	if err != nil {
		return nil, syntax(c.name, err)
	}
	return decode(c.name, object, false)
}

func syntax(name string, err error) error {
	return fmt.Errorf("%s: %w: %w", name, ErrSyntax, err)
}

// defaultReconcilePeriod is the kubelet's cpuManagerReconcilePeriod.
const defaultReconcilePeriod = 10 * time.Second

// ReconcilePeriod is cpuManagerReconcilePeriod: how often what containers run on is compared with
// what they should (R-ST-51).
func (c *Config) ReconcilePeriod() time.Duration {
	if period := c.spec.CPUManagerReconcilePeriod.Duration; period > 0 {
		return period
	}
	return defaultReconcilePeriod
}
