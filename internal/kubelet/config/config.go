// Package config resolves a KubeletConfiguration with its feature gates to the node.Policy of one
// machine.
//
// Reading and resolving are separate steps. Read, ReadFolder, FromJSON and Patch return a Config,
// which is well-formed text that names only fields that exist. Resolve then validates it against a
// machine, as the kubelet does when it starts: policies, options, gates and reservations. It
// rejects every configuration with which a kubelet would not start. It reports all problems at
// once, each with the field, what to change, and the kubelet's own message, because that is what
// people search for. A setting that is legal but has no effect leads to a warning.
//
// The package does not access a node. A Config is immutable and may be shared between goroutines.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/kubelet/config/v1beta1"
)

// The apiVersion and kind of a KubeletConfiguration.
const (
	APIVersion = "kubelet.config.k8s.io/v1beta1"
	Kind       = "KubeletConfiguration"
)

// ErrSyntax is wrapped by every error of Read, FromJSON and Patch, and by those of ReadFolder about
// one of its files. It means that the text is not a KubeletConfiguration.
var ErrSyntax = errors.New("not a usable KubeletConfiguration")

// Config is a KubeletConfiguration that was read but not yet validated. The zero value is the empty
// configuration, which means the kubelet's defaults.
type Config struct {
	name   string
	fields map[string]json.RawMessage
	spec   v1beta1.KubeletConfiguration
	// minor is that of For. If zero, it is ownMinor.
	minor int
	// running has the feature gates of a running kubelet by name, as far as they are known.
	running map[string]bool
	// effective is true for the configuration of a running kubelet, with its flags and defaults.
	effective bool
	// notes are those of Notes. origins has the drop-ins that set fields.
	notes   []string
	origins origins
}

// Read decodes a KubeletConfiguration from YAML or JSON, or the answer of a kubelet's /configz. In
// errors, name is the name of the file. Decoding is strict, except for /configz: unknown and
// repeated fields are errors that give the path of the field and, for a typing error, the nearest
// known field. Errors wrap ErrSyntax.
func Read(name string, data []byte) (*Config, error) {
	object, err := toJSON(data)
	if err != nil {
		return nil, syntax(name, err)
	}
	if fields, is := configzOf(object); is {
		return decodeConfigz(name, fields)
	}
	return decode(name, object, true)
}

// FromJSON decodes the fields of a KubeletConfiguration as a replayed scenario has them. Unlike in
// Read, apiVersion and kind may be absent. Empty input is the configuration with the defaults.
// Otherwise FromJSON is as strict as Read.
func FromJSON(raw json.RawMessage) (*Config, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	return decode(scenarioName, raw, false)
}

const scenarioName = "kubeletConfig"

// Patch returns a copy of the configuration in which each field of patch replaces the whole field,
// and in which the given feature gates are set in addition to the existing ones. Both patch and
// gates may be empty. Patch does not change the receiver.
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
	patched, err := decode(c.name, object, false)
	if err != nil {
		return nil, err
	}
	return patched.For(c.minor), nil
}

func syntax(name string, err error) error {
	return fmt.Errorf("%s: %w: %w", name, ErrSyntax, err)
}

// defaultReconcilePeriod is the kubelet's cpuManagerReconcilePeriod.
const defaultReconcilePeriod = 10 * time.Second

// ReconcilePeriod returns cpuManagerReconcilePeriod, the interval at which the actual CPUs of
// containers are compared with the assigned ones (R-ST-51).
func (c *Config) ReconcilePeriod() time.Duration {
	if period := c.spec.CPUManagerReconcilePeriod.Duration; period > 0 {
		return period
	}
	return defaultReconcilePeriod
}
