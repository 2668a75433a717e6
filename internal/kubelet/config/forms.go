package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// File is a file that was read. Name is its path, for errors and notes.
type File struct {
	Name string
	Data []byte
}

// Folder is a directory that was read: a kubelet's own, or one with files that were collected from
// a node.
type Folder struct {
	// Name is the path of the directory.
	Name string
	// Files are the files directly in the directory. Files that are no configuration are ignored.
	Files []File
	// DropIns are the drop-ins, in the order in which the kubelet merges them, and DropInDir is
	// the path of their directory. Both are empty if there are none.
	DropIns   []File
	DropInDir string
}

// ReadFolder returns the configuration of a directory:
//
//   - the answer of /configz, if there is one, because it also has the flags of the kubelet
//   - otherwise config.yaml, or a file with another usual name, or the only KubeletConfiguration,
//     with the drop-ins merged into it
//   - otherwise the drop-ins alone
//
// Errors about the content of a file name the file and wrap ErrSyntax. If the choice is not clear,
// the error names the candidates.
func ReadFolder(f Folder) (*Config, error) {
	var answers, configs []File
	for _, file := range f.Files {
		switch configz, config := recognise(file); {
		case configz:
			answers = append(answers, file)
		case config:
			configs = append(configs, file)
		}
	}
	switch len(answers) {
	case 0:
		return f.merged(configs)
	case 1:
		c, err := Read(answers[0].Name, answers[0].Data)
		if others := f.unused(configs); err == nil && others != "" {
			c.notes = append(c.notes, fmt.Sprintf("%s is used, and %s not: only the answer of /configz has the kubelet's flags too", c.name, others))
		}
		return c, err
	}
	return nil, fmt.Errorf("%s has several answers of /configz: %s; name the one that is meant", f.Name, baseNames(answers))
}

// unused names the files and drop-ins that an answer of /configz replaces.
func (f Folder) unused(configs []File) string {
	var names []string
	if len(configs) > 0 {
		names = append(names, baseNames(configs))
	}
	if len(f.DropIns) > 0 {
		names = append(names, filepath.Base(f.DropInDir))
	}
	return strings.Join(names, " and ")
}

// merged returns the configuration of the files with the drop-ins.
func (f Folder) merged(configs []File) (*Config, error) {
	file, err := f.choose(configs)
	if err != nil {
		return nil, err
	}
	var base *Config
	if file != nil {
		if base, err = Read(file.Name, file.Data); err != nil {
			return nil, err
		}
	}
	var dropIns []*Config
	for _, d := range f.DropIns {
		c, err := readDropIn(d)
		if err != nil {
			return nil, err
		}
		dropIns = append(dropIns, c)
	}
	return merge(base, f.DropInDir, dropIns)
}

// choose returns the file that --config of the kubelet names, or nil if there are only drop-ins.
func (f Folder) choose(configs []File) (*File, error) {
	var usual, loose []File
	for _, file := range configs {
		switch {
		case hasUsualName(file.Name):
			usual = append(usual, file)
		case filepath.Ext(file.Name) == DropInExt:
			loose = append(loose, file)
		}
	}
	candidates := configs
	if len(usual) > 0 {
		candidates = slices.Concat(usual, loose) // Whether a loose drop-in has an effect is not known.
	}
	switch {
	case len(candidates) == 1:
		return &candidates[0], nil
	case len(candidates) > 1:
		return nil, fmt.Errorf("%s has several KubeletConfigurations: %s; name the one that is meant, or move drop-ins into %s",
			f.Name, baseNames(candidates), filepath.Join(f.Name, "config.yaml.d"))
	case len(f.DropIns) == 0:
		return nil, fmt.Errorf("%s has no configuration of a kubelet: expected config.yaml, drop-ins in config.yaml.d, or the answer of /configz "+
			"(kubectl get --raw /api/v1/nodes/NODE/proxy/configz)", f.Name)
	}
	return nil, nil
}

// hasUsualName reports whether a file has a name under which kubeadm and the nodes of cloud
// providers keep the file of --config. kubelet.conf is not one of these names: kubeadm's
// kubelet.conf contains the access to the API server.
func hasUsualName(name string) bool {
	name = filepath.Base(name)
	ext := filepath.Ext(name)
	return slices.Contains([]string{".yaml", ".yml", ".json"}, ext) &&
		slices.Contains([]string{"config", "kubelet-config", "kubeletconfig"}, strings.TrimSuffix(name, ext))
}

// recognise reports whether a file is an answer of /configz or a KubeletConfiguration. A file with
// a usual name counts as a KubeletConfiguration if its kind is missing or not readable, so that the
// user gets the error about it.
func recognise(f File) (configz, config bool) {
	usual := hasUsualName(f.Name)
	if !usual && !bytes.Contains(f.Data, []byte(Kind)) && !bytes.Contains(f.Data, []byte(configzKey)) {
		return false, false // This is quick also for large files.
	}
	object, err := toJSON(f.Data)
	if err != nil {
		return false, usual
	}
	if _, is := configzOf(object); is {
		return true, false
	}
	var found struct {
		Kind any `json:"kind"`
	}
	if json.Unmarshal(object, &found) != nil {
		return false, usual
	}
	return false, found.Kind == Kind || usual && found.Kind == nil
}

// configzKey is the name of the configuration in the answer of /configz.
const configzKey = "kubeletconfig"

// configzOf returns the configuration in an answer of /configz. ok is false if the object is not
// such an answer.
func configzOf(object []byte) (fields json.RawMessage, ok bool) {
	var answer map[string]json.RawMessage
	if json.Unmarshal(object, &answer) != nil || answer["kind"] != nil {
		return nil, false
	}
	fields, ok = answer[configzKey]
	return fields, ok
}

// decodeConfigz returns the configuration in an answer of /configz. It is the effective
// configuration, with drop-ins, flags and defaults. It contains only the feature gates that were
// set; all other gates have the defaults of the kubelet's version. Fields of a newer kubelet lead
// to a note.
func decodeConfigz(name string, object []byte) (*Config, error) {
	c, unknown, err := decodeFields(name, object, false)
	if err != nil {
		return nil, err
	}
	for _, u := range unknown {
		if strings.Contains(u.Error(), "duplicate field") {
			return nil, fmt.Errorf("%s: %w: %w", name, ErrSyntax, u)
		}
	}
	c.effective = true
	c.settleEviction()
	if len(unknown) > 0 {
		c.notes = append(c.notes, fmt.Sprintf("%s has fields that Paddock does not know and ignores: %s", name, fewPaths(unknown)))
	}
	return c, nil
}

// settleEviction is for a configuration into which the kubelet has filled the default thresholds. A
// threshold that is absent there does not exist. In a file, a missing evictionHard means the
// default, but the answer of /configz leaves out an empty evictionHard.
func (c *Config) settleEviction() {
	if c.spec.EvictionHard == nil {
		c.spec.EvictionHard = map[string]string{}
		c.fields[fieldEviction] = json.RawMessage("{}")
	}
	c.spec.MergeDefaultEvictionSettings = nil
	delete(c.fields, fieldMergeEviction)
}

// fewPaths lists the fields that errors of the strict decoder are about.
func fewPaths(unknown []error) string {
	var paths []string
	for _, err := range unknown {
		path := err.Error()
		var at interface{ FieldPath() string }
		if errors.As(err, &at) {
			path = at.FieldPath()
		}
		paths = append(paths, path)
	}
	return fewOf(paths)
}

// fewOf lists the first names, and the number of the others.
func fewOf(names []string) string {
	const few = 5
	text := strings.Join(names[:min(few, len(names))], ", ")
	if len(names) > few {
		text += fmt.Sprintf(" and %d more", len(names)-few)
	}
	return text
}

// baseNames lists files without their directory.
func baseNames(files []File) string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = filepath.Base(f.Name)
	}
	return fewOf(names)
}

// Name returns the name of the file of the configuration, without drop-ins.
func (c *Config) Name() string { return c.name }

// Notes returns notes about the source of the configuration, and about ignored parts. Each note
// names a file.
func (c *Config) Notes() []string { return slices.Clone(c.notes) }

// FlagsNote returns a note about flags that can override the configuration, or "" if it is the
// effective configuration of a running kubelet. The note matters if that kubelet decides.
func (c *Config) FlagsNote() string {
	if c.effective {
		return ""
	}
	return fmt.Sprintf("%s does not have the kubelet's flags, which take precedence (%s): compare them (ps -ww -o args -C kubelet), "+
		"or give the answer of /configz instead", c.name, strings.Join(decidingFlags, ", "))
}

// decidingFlags are the most used flags of the kubelet among those that influence decisions.
var decidingFlags = []string{
	"--cpu-manager-policy", "--memory-manager-policy", "--topology-manager-policy", "--reserved-cpus", "--reserved-memory",
	"--kube-reserved", "--system-reserved", "--eviction-hard", "--feature-gates",
}
