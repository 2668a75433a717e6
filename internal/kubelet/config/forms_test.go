package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
)

// folder is a directory "node" with files, and with drop-ins in "node/config.yaml.d". A header is
// added to contents that do not begin with "{", "kind" or "-".
type folder struct{ files, dropIns map[string]string }

func (f folder) read() (*Config, error) {
	whole := func(dir string, files map[string]string) (all []File) {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			text := files[name]
			if text != "" && !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "kind") && !strings.HasPrefix(text, "-") {
				text = header + text
			}
			all = append(all, File{Name: dir + "/" + name, Data: []byte(text)})
		}
		return all
	}
	in := Folder{Name: "node", Files: whole("node", f.files)}
	if len(f.dropIns) > 0 {
		in.DropIns, in.DropInDir = whole("node/config.yaml.d", f.dropIns), "node/config.yaml.d"
	}
	return ReadFolder(in)
}

const (
	staticText = "cpuManagerPolicy: static\nkubeReserved: {cpu: \"1\", memory: 1Gi}\n"
	configzTwo = `{"kubeletconfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0-1","evictionHard":{"memory.available":"100Mi"}}}`
)

// folders are directories, and what ReadFolder makes of them.
var folders = []struct {
	name string
	folder
	want  string   // the description of the policy, or the error
	notes []string // parts of the notes, in order
}{
	{
		name: "config.yaml alone", folder: folder{files: map[string]string{"config.yaml": staticText}},
		want: "topology none; cpu static, reserved 0; memory None; pod-level pools off",
	},
	{
		name:   "other files are ignored",
		folder: folder{files: map[string]string{"config.yaml": staticText, "old.yaml": "cpuManagerPolicy: none", "kubelet.conf": "kind: Config\n", "pods.json": "{}", "x.yaml": "- KubeletConfiguration"}},
		want:   "topology none; cpu static, reserved 0; memory None; pod-level pools off",
	},
	{
		name: "the name of a cloud provider", folder: folder{files: map[string]string{"kubelet-config.json": `{"kind":"KubeletConfiguration","apiVersion":"` + APIVersion + `"}`}},
		want: "topology none; cpu none; memory None; pod-level pools off",
	},
	{
		name: "the only one of the kind", folder: folder{files: map[string]string{"node7.yaml": staticText, "pod.yaml": "kind: Pod\n"}},
		want: "topology none; cpu static, reserved 0; memory None; pod-level pools off",
	},
	{
		name: "two of the kind", folder: folder{files: map[string]string{"a.yaml": staticText, "b.yaml": staticText}},
		want: "node has several KubeletConfigurations: a.yaml, b.yaml; name the one that is meant, or move drop-ins into node/config.yaml.d",
	},
	{
		name: "two usual names", folder: folder{files: map[string]string{"config.yaml": staticText, "kubeletconfig.yml": staticText}},
		want: "node has several KubeletConfigurations: config.yaml, kubeletconfig.yml; name",
	},
	{
		name: "a loose drop-in", folder: folder{files: map[string]string{"config.yaml": staticText, "10-a.conf": "maxPods: 1"}},
		want: "node has several KubeletConfigurations: config.yaml, 10-a.conf; name",
	},
	{name: "nothing", want: "node has no configuration of a kubelet: expected config.yaml"},
	{
		name: "config.yaml of another kind", folder: folder{files: map[string]string{"config.yaml": "kind: ClusterConfiguration\n"}},
		want: "node has no configuration of a kubelet: expected config.yaml",
	},
	{
		name: "config.yaml without a kind", folder: folder{files: map[string]string{"config.yaml": `{"maxPods":1}`, "b.yaml": staticText}},
		want: "node/config.yaml: not a usable KubeletConfiguration: apiVersion and kind are missing",
	},
	{
		name: "a damaged config.yaml", folder: folder{files: map[string]string{"config.yaml": "{"}},
		want: "node/config.yaml: not a usable KubeletConfiguration: the JSON is cut off",
	},
	{
		name:   "configz is preferred",
		folder: folder{files: map[string]string{"config.yaml": staticText, "configz.json": configzTwo}, dropIns: map[string]string{"10.conf": "maxPods: 1"}},
		want:   "topology none; cpu static, reserved 0-1; memory None; pod-level pools off",
		notes:  []string{"node/configz.json is used, and config.yaml and config.yaml.d not: only the answer of /configz has the kubelet's flags too"},
	},
	{
		name: "configz alone, under any name", folder: folder{files: map[string]string{"effective.yaml": configzTwo}},
		want: "topology none; cpu static, reserved 0-1; memory None; pod-level pools off",
	},
	{
		name: "two answers of configz", folder: folder{files: map[string]string{"a.json": configzTwo, "b.json": configzTwo}},
		want: "node has several answers of /configz: a.json, b.json; name the one that is meant",
	},
	{
		name: "drop-ins", folder: folder{
			files:   map[string]string{"config.yaml": staticText + "topologyManagerPolicy: restricted"},
			dropIns: map[string]string{"10.conf": "kubeReserved: {cpu: \"2\"}", "20.conf": "kubeReserved: {cpu: \"3\"}\ntopologyManagerScope: pod"},
		},
		want:  "topology restricted, scope pod; cpu static, reserved 0-2; memory None; pod-level pools off",
		notes: []string{"node/config.yaml: the drop-ins of node/config.yaml.d are merged into it, as with --config-dir (10.conf, 20.conf)"},
	},
	{
		name: "drop-ins alone", folder: folder{dropIns: map[string]string{"00-k3s.conf": staticText}},
		want:  "topology none; cpu static, reserved 0; memory None; pod-level pools off",
		notes: []string{"node/config.yaml.d: there is no file of --config, so the drop-ins are the configuration (00-k3s.conf)"},
	},
	{
		name: "a drop-in without kind", folder: folder{files: map[string]string{"config.yaml": staticText}, dropIns: map[string]string{"10.conf": `{"maxPods":1}`}},
		want: "node/config.yaml.d/10.conf: not a usable KubeletConfiguration: apiVersion and kind are missing",
	},
	{
		name: "a drop-in of another kind", folder: folder{files: map[string]string{"config.yaml": staticText}, dropIns: map[string]string{"10.conf": "kind: Config\n"}},
		want: "node/config.yaml.d/10.conf: not a usable KubeletConfiguration: the object is of kind \"Config\"",
	},
	{
		name: "an empty drop-in", folder: folder{files: map[string]string{"config.yaml": staticText}, dropIns: map[string]string{"10.conf": ""}},
		want: "node/config.yaml.d/10.conf: not a usable KubeletConfiguration: expected an object",
	},
	{
		name: "a typo in a drop-in", folder: folder{files: map[string]string{"config.yaml": staticText}, dropIns: map[string]string{"10.conf": "maxPod: 1"}},
		want: "node/config.yaml.d/10.conf: not a usable KubeletConfiguration: unknown field \"maxPod\": did you mean \"maxPods\"?",
	},
	{
		name: "configz as a drop-in", folder: folder{files: map[string]string{"config.yaml": staticText}, dropIns: map[string]string{"10.conf": configzTwo}},
		want: "node/config.yaml.d/10.conf: not a usable KubeletConfiguration: it is an answer of /configz",
	},
}

func TestReadFolder(t *testing.T) {
	m := plans["pair"].machine(t)
	for _, c := range folders {
		t.Run(c.name, func(t *testing.T) {
			config, err := c.read()
			if (config == nil) == (err == nil) {
				t.Fatalf("%v and %v", config, err)
			}
			if err != nil {
				if !strings.HasPrefix(err.Error(), c.want) || errors.Is(err, ErrSyntax) != strings.Contains(c.want, ErrSyntax.Error()) {
					t.Errorf("%v\nwant %s", err, c.want)
				}
				return
			}
			p, err := config.Resolve(m)
			if err != nil || Describe(p) != c.want {
				t.Errorf("%s, %v\nwant %s", Describe(p), err, c.want)
			}
			if !slices.Equal(config.Notes(), c.notes) {
				t.Errorf("notes %q, want %q", config.Notes(), c.notes)
			}
		})
	}
}

// TestMerge checks how single fields are merged. The texts are JSON objects without kind.
func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name, base, first, second, want string
	}{
		{"a later one wins", `{"maxPods":1}`, `{"maxPods":2}`, `{"maxPods":3}`, `{"maxPods":3}`},
		{"others stay", `{"maxPods":1,"podPidsLimit":9}`, `{"maxPods":2}`, `{}`, `{"maxPods":2,"podPidsLimit":9}`},
		{"a list is replaced", `{"reservedMemory":[{"numaNode":0,"limits":{"memory":"1Gi"}}]}`, `{"reservedMemory":[{"numaNode":1,"limits":{"memory":"2Gi"}}]}`, `{}`, `{"reservedMemory":[{"limits":{"memory":"2Gi"},"numaNode":1}]}`},
		{"an empty list too", `{"enforceNodeAllocatable":["pods"]}`, `{"enforceNodeAllocatable":[]}`, `{}`, `{"enforceNodeAllocatable":[]}`},
		{"a map is merged", `{"featureGates":{"AllBeta":true,"AllAlpha":false}}`, `{"featureGates":{"AllAlpha":true}}`, `{}`, `{"featureGates":{"AllAlpha":true,"AllBeta":true}}`},
		{"null removes a field", `{"cpuManagerPolicy":"static"}`, `{"cpuManagerPolicy":null}`, `{}`, `{}`},
		{"null removes a key", `{"kubeReserved":{"cpu":"1","memory":"1Gi"}}`, `{"kubeReserved":{"cpu":null}}`, `{}`, `{"kubeReserved":{"memory":"1Gi"}}`},
		{"null in a new map", `{}`, `{"kubeReserved":{"cpu":null,"memory":"1Gi"}}`, `{}`, `{"kubeReserved":{"memory":"1Gi"}}`},
		{"removed and set again", `{"kubeReserved":{"cpu":"1"}}`, `{"kubeReserved":null}`, `{"kubeReserved":{"memory":"1Gi"}}`, `{"kubeReserved":{"memory":"1Gi"}}`},
		{"nested objects", `{"logging":{"format":"json","verbosity":3}}`, `{"logging":{"verbosity":5}}`, `{}`, `{"logging":{"format":"json","verbosity":5}}`},
		{"large numbers", `{"podPidsLimit":9007199254740993}`, `{"maxPods":2}`, `{}`, `{"maxPods":2,"podPidsLimit":9007199254740993}`},
		// The kubelet fills in the default thresholds before it merges.
		{"the default threshold stays", `{}`, `{"evictionHard":{"pid.available":"1%"}}`, `{}`, `{"evictionHard":{"memory.available":"100Mi","pid.available":"1%"}}`},
		{"the given thresholds stay", `{"evictionHard":{"pid.available":"2%"}}`, `{"evictionHard":{"pid.available":"1%"}}`, `{}`, `{"evictionHard":{"pid.available":"1%"}}`},
		{"no threshold at all", `{}`, `{"evictionHard":null}`, `{}`, `{"evictionHard":{}}`},
		{"the default of memory is removed", `{}`, `{"evictionHard":{"memory.available":null}}`, `{}`, `{"evictionHard":{}}`},
		{"filled in first", `{"evictionHard":{"pid.available":"1%"},"mergeDefaultEvictionSettings":true}`, `{"evictionHard":{"pid.available":"2%"}}`, `{}`, `{"evictionHard":{"memory.available":"100Mi","pid.available":"2%"}}`},
		{"filled in too late", `{"evictionHard":{"pid.available":"1%"}}`, `{"mergeDefaultEvictionSettings":true}`, `{}`, `{"evictionHard":{"pid.available":"1%"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind := func(text string) string {
				return strings.Replace(strings.Replace(text, "{", `{"kind":"KubeletConfiguration","apiVersion":"`+APIVersion+`",`, 1), ",}", "}", 1)
			}
			merged, err := folder{map[string]string{"config.yaml": kind(c.base)}, map[string]string{"10.conf": kind(c.first), "20.conf": kind(c.second)}}.read()
			if err != nil {
				t.Fatal(err)
			}
			fields := maps.Clone(merged.fields)
			delete(fields, "kind")
			delete(fields, "apiVersion")
			if got, err := json.Marshal(fields); err != nil || string(got) != c.want {
				t.Errorf("%s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

// TestDropInIsNamed checks that a problem names the drop-in that set the field, if one did.
func TestDropInIsNamed(t *testing.T) {
	m := plans["pair"].machine(t)
	config, err := folder{
		files: map[string]string{"config.yaml": "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\nfeatureGates: {Wrong: true}"},
		dropIns: map[string]string{
			"10.conf": "topologyManagerPolicy: loose\nfeatureGates: {Bad: true}",
			"20.conf": "cpuManagerPolicyOptions: {align: \"true\"}\nreservedMemory: [{numaNode: 0, limits: {disk: 1Gi}}]\ntopologyManagerScope: pod",
		},
	}.read()
	if err != nil {
		t.Fatal(err)
	}
	_, err = config.Resolve(m)
	var rejected *RejectedError
	if !errors.As(err, &rejected) || rejected.Name != "node/config.yaml" {
		t.Fatal(err)
	}
	const dir = "node/config.yaml.d/"
	got, want := map[string]string{}, map[string]string{
		"featureGates[Wrong]": "", "featureGates[Bad]": dir + "10.conf", "topologyManagerPolicy": dir + "10.conf",
		"cpuManagerPolicyOptions[align]": dir + "20.conf", "reservedMemory[0].limits[disk]": dir + "20.conf",
	}
	for i, p := range rejected.Problems {
		got[p.Field] = p.File
		if line := fmt.Sprintf("\n  %d. %s: %s", i+1, p.File, p.Field); p.File != "" && !strings.Contains(err.Error(), line) {
			t.Errorf("%v\nwithout %s", err, line)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("problems in %v, want %v", got, want)
	}
	for _, w := range config.Warnings(m) {
		if w.Field == "topologyManagerScope" && w.File != dir+"20.conf" {
			t.Errorf("warning in %q", w.File)
		}
	}
	one, err := folder{map[string]string{"config.yaml": ""}, map[string]string{"10.conf": "topologyManagerPolicy: loose"}}.read()
	if err == nil {
		_, err = one.Resolve(m)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "node/config.yaml: not a usable") {
		t.Errorf("an empty main file: %v", err)
	}
}

func TestConfigz(t *testing.T) {
	m := plans["pair"].machine(t)
	const rest = `"cpuManagerReconcilePeriod":"5s","reservedMemory":[{"numaNode":0,"limits":{"memory":"1Gi"}}],"kubeReserved":{"memory":"1Gi"},"memoryManagerPolicy":"Static"`
	config, err := Read("configz.json", []byte(`{"kubeletconfig":{"later":{"x":1},"logging":{"later":1},"featureGates":{"Vendor":true},
		"reservedSystemCPUs":"0-1","systemReserved":{"cpu":"2"},"cpuManagerPolicy":"static",`+rest+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	// evictionHard is absent, so there is no threshold: only kubeReserved counts.
	p, err := config.Resolve(m)
	if want := "topology none; cpu static, reserved 0-1; memory Static, reserved 1Gi of memory on NUMA node 0; pod-level pools off"; err != nil || Describe(p) != want {
		t.Errorf("%s, %v\nwant %s", Describe(p), err, want)
	}
	if config.FlagsNote() != "" || config.ReconcilePeriod() != 5*time.Second {
		t.Errorf("note %q, period %v", config.FlagsNote(), config.ReconcilePeriod())
	}
	if want := []string{"configz.json has fields that Paddock does not know and ignores: later, logging.later"}; !slices.Equal(config.Notes(), want) {
		t.Errorf("notes %q, want %q", config.Notes(), want)
	}
	if w := config.Warnings(m); len(w) != 1 || !strings.Contains(w[0].String(), "so that their effect is not known: Vendor") {
		t.Errorf("warnings %v", w)
	}
	for text, want := range map[string]string{
		`{"kubeletconfig":null}`:                       "expected an object",
		`{"kubeletconfig":[]}`:                         "expected an object",
		`{"kubeletconfig":{"maxPods":"x"}}`:            "field maxPods is a string and must be a whole number of at most 32 bits",
		`{"kubeletconfig":{"kind":"Pod"}}`:             `the object is of kind "Pod"`,
		`{"kubeletconfig":{},"kind":"Pod"}`:            `the object is of kind "Pod"`,
		`{"kubeletconfig":{"kubeReserved":{"cpu":1}}}`: "put quotes around it",
	} {
		if c, err := Read("x", []byte(text)); c != nil || !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// configzForm returns the answer of /configz of a kubelet that has started with a configuration:
// with the defaults, without empty maps, and with a number of reserved CPUs in place of the
// amounts. It has one field of a newer kubelet.
func configzForm(t rapid.TB, c *Config) []byte {
	spec := *c.spec.DeepCopy()
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&spec.CPUManagerPolicy, "none")
	set(&spec.MemoryManagerPolicy, "None")
	set(&spec.TopologyManagerPolicy, "none")
	set(&spec.TopologyManagerScope, "container")
	if spec.CPUManagerReconcilePeriod.Duration == 0 {
		spec.CPUManagerReconcilePeriod.Duration = defaultReconcilePeriod
	}
	if spec.MaxPods == 0 {
		spec.MaxPods = defaultMaxPods
	}
	merge := spec.MergeDefaultEvictionSettings
	if spec.EvictionHard == nil || merge != nil && *merge {
		all := map[string]string{signalMemory: defaultMemory, "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%"}
		maps.Copy(all, spec.EvictionHard)
		spec.EvictionHard = all
	}
	if spec.ReservedSystemCPUs != "" && spec.SystemReserved != nil {
		delete(spec.KubeReserved, "cpu")
		spec.SystemReserved["cpu"] = "1"
	}
	spec.Kind, spec.APIVersion = "", ""
	text, err := json.Marshal(&spec)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(`{"kubeletconfig":{"fieldOfANewerKubelet":{"a":[1]},` + strings.TrimPrefix(string(text), "{") + "}")
}

// sameAsConfigz checks that the answer of /configz of a kubelet with a configuration, which the
// kubelet accepts, means the same.
func sameAsConfigz(t rapid.TB, c *Config, m *machine.Machine) {
	t.Helper()
	want, err := c.Resolve(m)
	if err != nil {
		t.Fatal(err)
	}
	text := configzForm(t, c)
	configz, err := Read("configz.json", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	configz = configz.For(c.minor)
	got, err := configz.Resolve(m)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nand from /configz %s, %v\n%s", Describe(want), Describe(got), err, text)
	}
	if a, b := c.Allocatable(m), configz.Allocatable(m); !reflect.DeepEqual(a, b) {
		t.Fatalf("allocatable %v and %v\n%s", a, b, text)
	}
	if len(c.KubeletRejects(m)) != len(configz.KubeletRejects(m)) || c.ReconcilePeriod() != configz.ReconcilePeriod() || c.NamesReserved() != configz.NamesReserved() {
		t.Fatalf("the starts or the periods differ\n%s", text)
	}
	if a, b := c.SuggestReservedMemory(m), configz.SuggestReservedMemory(m); !slices.Equal(a, b) {
		t.Fatalf("suggestions %v and %v\n%s", a, b, text)
	}
}

// A configuration, its /configz, and its fields spread over drop-ins mean the same.
func TestFormsDecideTheSame(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		m := drawMachine(t, tt)
		whole := legal(t, m)
		c := fromMap(t, whole)
		sameAsConfigz(t, c, m)
		want, err := c.Resolve(m)
		if err != nil {
			t.Fatal(err)
		}
		merged, err := spread(t, whole).read()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := merged.Resolve(m); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nand from drop-ins %s, %v", Describe(want), Describe(got), err)
		}
	})
}

// spread puts each field, and each key of a map, into a main file or one of two drop-ins. Earlier
// files can also have another value of a field that is a string. evictionHard without a threshold
// means something else in a drop-in, and stays in the main file.
func spread(t *rapid.T, whole map[string]any) folder {
	parts := [3]map[string]any{}
	for i := range parts {
		parts[i] = map[string]any{"kind": Kind, "apiVersion": APIVersion}
	}
	for _, field := range slices.Sorted(maps.Keys(whole)) {
		at := rapid.IntRange(0, 2).Draw(t, field+" in")
		if object, is := whole[field].(map[string]any); is && len(object) > 0 {
			for _, key := range slices.Sorted(maps.Keys(object)) {
				part := parts[rapid.IntRange(0, 2).Draw(t, key+" in")]
				of, _ := part[field].(map[string]any)
				if of == nil {
					of = map[string]any{}
					part[field] = of
				}
				of[key] = object[key]
			}
			continue
		}
		if field == fieldEviction {
			at = 0
		}
		parts[at][field] = whole[field]
		if _, is := whole[field].(string); is && at > 0 && rapid.Bool().Draw(t, field+" overridden") {
			parts[0][field] = "overridden"
		}
	}
	text := func(part map[string]any) string {
		out, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	return folder{map[string]string{"config.yaml": text(parts[0])}, map[string]string{"10.conf": text(parts[1]), "20.conf": text(parts[2])}}
}

// FuzzReadFolder checks that ReadFolder returns either an error or a configuration, which can be
// resolved without a panic.
func FuzzReadFolder(f *testing.F) {
	f.Add(header+staticText, configzTwo, header+"kubeReserved: null\nfeatureGates: {AllAlpha: null}")
	f.Add(header+staticText, header, header+"evictionHard: {memory.available: 1%}")
	f.Add("{", "kind: KubeletConfiguration", `{"evictionHard":{}}`)
	f.Fuzz(func(t *testing.T, first, second, dropIn string) {
		for _, name := range []string{"config.yaml", "a.yaml"} {
			c, err := ReadFolder(Folder{
				Name: "node", Files: []File{{"node/" + name, []byte(first)}, {"node/b.json", []byte(second)}},
				DropIns: []File{{"node/x.d/10.conf", []byte(dropIn)}}, DropInDir: "node/x.d",
			})
			if (c == nil) == (err == nil) {
				t.Fatalf("%v, %v", c, err)
			}
			if err != nil {
				continue
			}
			m := plans["huge"].machine(t)
			if _, err := c.Resolve(m); err != nil && !errors.Is(err, ErrRejected) {
				t.Fatal(err)
			}
			c.Warnings(m)
		}
	})
}
