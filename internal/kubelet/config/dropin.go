package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
)

// DropInExt is the end of the names of drop-ins. The kubelet ignores other files in the directory
// of --config-dir.
const DropInExt = ".conf"

// The fields of the hard eviction thresholds.
const (
	fieldEviction      = "evictionHard"
	fieldMergeEviction = "mergeDefaultEvictionSettings"
)

// readDropIn decodes a drop-in. As in the kubelet, it needs apiVersion and kind.
func readDropIn(f File) (*Config, error) {
	c, err := Read(f.Name, f.Data)
	if err == nil && c.effective {
		return nil, syntax(f.Name, errors.New("it is an answer of /configz, which already has the drop-ins: name it instead of its directory"))
	}
	return c, err
}

// merge returns a configuration with its drop-ins, which are in directory dir and in the order of
// the kubelet. base is nil if the kubelet has no --config.
//
// Drop-ins are merge patches (RFC 7396) in the order of a walk through --config-dir: a later one
// wins, lists are replaced as a whole, maps such as featureGates and kubeReserved are merged by
// key, and null removes a field or a key. See "Kubelet Configuration Directory Merging" at
// https://kubernetes.io/docs/reference/node/kubelet-config-directory-merging/ and
// mergeKubeletConfigurations in cmd/kubelet/app/server.go of Kubernetes.
func merge(base *Config, dir string, dropIns []*Config) (*Config, error) {
	if base != nil && len(dropIns) == 0 {
		return base, nil
	}
	alone := base == nil
	if alone {
		base = &Config{name: dir}
	}
	fields, err := base.object()
	if err != nil {
		return nil, err
	}
	settled := alone || touchEviction(dropIns)
	if settled {
		fields[fieldEviction] = base.filledEviction(alone)
	}
	set := origins{}
	var notes []string
	for _, d := range dropIns {
		patch, err := d.object()
		if err != nil {
			return nil, err
		}
		applyPatch(fields, patch)
		set.add(d.name, patch)
		if d.spec.MergeDefaultEvictionSettings != nil {
			notes = append(notes, fmt.Sprintf("%s: %s has no effect in a drop-in: the kubelet reads it in the file of --config only", d.name, fieldMergeEviction))
		}
	}
	object, err := json.Marshal(fields)
	if err != nil {
		return nil, syntax(base.name, err)
	}
	c, err := decode(base.name, object, true)
	if err != nil {
		return nil, err
	}
	if settled {
		c.settleEviction()
	}
	c.origins, c.notes = set, append([]string{mergeNote(base.name, dir, dropIns, alone)}, notes...)
	return c, nil
}

// object returns a copy of the fields that can be changed.
func (c *Config) object() (map[string]any, error) {
	fields := make(map[string]any, len(c.fields))
	for name, raw := range c.fields {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, syntax(c.name, fmt.Errorf("field %s: %w", name, err))
		}
		fields[name] = value
	}
	return fields, nil
}

// touchEviction reports whether a drop-in has the eviction thresholds, or could change what is
// filled into them.
func touchEviction(dropIns []*Config) bool {
	for _, d := range dropIns {
		if d.fields[fieldEviction] != nil || d.fields[fieldMergeEviction] != nil {
			return true
		}
	}
	return false
}

// filledEviction returns evictionHard with the default of memory, which the kubelet fills in after
// it has read the file of --config and before it merges the drop-ins. Without that file, there is
// no default. Thresholds of other signals have no influence here.
func (c *Config) filledEviction(alone bool) map[string]any {
	filled := map[string]any{}
	for signal, threshold := range c.spec.EvictionHard {
		filled[signal] = threshold
	}
	always := c.spec.MergeDefaultEvictionSettings
	if _, given := filled[signalMemory]; !given && !alone && (c.spec.EvictionHard == nil || always != nil && *always) {
		filled[signalMemory] = defaultMemory
	}
	return filled
}

// applyPatch applies a merge patch to an object (RFC 7396). The object may share values with the
// patch afterwards.
func applyPatch(object, patch map[string]any) {
	for name, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, name)
		case isObject:
			old, is := object[name].(map[string]any)
			if !is {
				old = map[string]any{}
			}
			applyPatch(old, inner)
			object[name] = old
		default:
			object[name] = value
		}
	}
}

// mergeNote returns the note that names the drop-ins.
func mergeNote(base, dir string, dropIns []*Config, alone bool) string {
	names := make([]string, len(dropIns))
	for i, d := range dropIns {
		name, err := filepath.Rel(dir, d.name)
		if err != nil {
			name = d.name
		}
		names[i] = name
	}
	text := fewOf(names)
	if alone {
		return fmt.Sprintf("%s: there is no file of --config, so the drop-ins are the configuration (%s)", dir, text)
	}
	return fmt.Sprintf("%s: the drop-ins of %s are merged into it, as with --config-dir (%s)", base, dir, text)
}

// origins has the names of the drop-ins that set fields, by the path of the field. A map has an
// entry for each of its keys, such as "featureGates[NAME]".
type origins map[string]string

// add records what a drop-in sets.
func (o origins) add(file string, patch map[string]any) {
	for field, value := range patch {
		o[field] = file
		if object, is := value.(map[string]any); is {
			for key := range object {
				o[field+"["+key+"]"] = file
			}
		}
	}
}

// of returns the drop-in that set the field of a problem, or "" if it is not of a drop-in, or not
// known.
func (o origins) of(field string) string {
	if file := o[field]; file != "" || len(o) == 0 {
		return file
	}
	whole, _, _ := strings.Cut(field, "[")
	if t := fieldType(whole); t != nil && t.Kind() == reflect.Slice {
		return o[whole]
	}
	return ""
}
