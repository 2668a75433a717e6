package chart

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/*.diff as they are now; read the difference")

// valueFiles returns the files of values in testdata.
func valueFiles(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(names) < 8 {
		t.Fatalf("testdata has %d files of values: %v", len(names), err)
	}
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return names
}

// TestValues checks that each option changes what its file in testdata shows, and nothing else.
func TestValues(t *testing.T) {
	defaults, _ := rendered(t, nil)
	for _, name := range valueFiles(t) {
		t.Run(name, func(t *testing.T) {
			got, _ := rendered(t, values(t, name))
			diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
				A: difflib.SplitLines(defaults.text(t, constant)), B: difflib.SplitLines(got.text(t, constant)),
				FromFile: "defaults", ToFile: name, Context: 4,
			})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", strings.TrimSuffix(name, ".yaml")+".diff")
			if *rewrite {
				if err := os.WriteFile(file, []byte(diff), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v: run go test -rewrite, and read what is written", err)
			}
			if string(want) != diff {
				t.Errorf("it changes\n%s\nwant\n%s", diff, want)
			}
			consistent(t, got)
		})
	}
}

// consistent checks that every DaemonSet mounts an existing ConfigMap, and that it alone selects
// its pods.
func consistent(t *testing.T, all objects) {
	t.Helper()
	groups := map[string]string{}
	for _, name := range all.of("DaemonSet") {
		set := as[appsv1.DaemonSet](t, all, "DaemonSet "+name)
		spec := set.Spec.Template.Spec
		files := as[v1.ConfigMap](t, all, "ConfigMap "+spec.Volumes[0].ConfigMap.Name)
		if name == quieting {
			if files.Name != name || files.Data["quiet.yaml"] == "" || spec.ServiceAccountName != name || all["ServiceAccount "+name] == nil {
				t.Errorf("%s mounts the ConfigMap %s, and runs as %s", name, files.Name, spec.ServiceAccountName)
			}
			continue
		}
		if files.Data["agent.yaml"] == "" || (files.Data["policy.yaml"] == "") != (name == observing) || files.Name != name {
			t.Errorf("%s mounts the ConfigMap %s, with %d files", name, files.Name, len(files.Data))
		}
		group, mode := set.Spec.Selector.MatchLabels["paddock-project.github.io/group"], set.Spec.Selector.MatchLabels["paddock-project.github.io/mode"]
		if other, twice := groups[group+mode]; twice || (group == "") == (mode == "") {
			t.Errorf("%s selects the pods of the group %q, as %s does", name, group, other)
		}
		groups[group+mode] = name
		for label, value := range set.Spec.Selector.MatchLabels {
			if set.Spec.Template.Labels[label] != value {
				t.Errorf("%s does not select its own pods: %s", name, label)
			}
		}
		account := "paddock"
		if name == observing {
			account = observing
		}
		if spec.ServiceAccountName != account || all["ServiceAccount "+account] == nil {
			t.Errorf("%s runs as %s", name, spec.ServiceAccountName)
		}
	}
}

// TestPageNamesValues checks that the options that deploy/README.md explains are values of the
// chart.
func TestPageNamesValues(t *testing.T) {
	page, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### With Helm\n")
	section, _, _ = strings.Cut(section, "\n##")
	data, err := os.ReadFile(filepath.Join(directory, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := yaml.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(strings.ReplaceAll(row[1], "`", ""), ", ") {
			path := strings.Split(name, ".")
			at := all
			for _, step := range path[:len(path)-1] {
				at = inner(at, step)
			}
			if _, has := at[path[len(path)-1]]; !has {
				t.Errorf("%s is no value of the chart", name)
			}
			named++
		}
	}
	if named < 8 {
		t.Errorf("%d options are explained", named)
	}
}

// TestChecksum checks that a change of the configuration replaces the pods of its group, and of no
// other group.
func TestChecksum(t *testing.T) {
	sums := func(text string) (first, second string) {
		var v map[string]any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		all, _ := rendered(t, v)
		of := func(name string) string {
			return as[appsv1.DaemonSet](t, all, "DaemonSet "+name).Spec.Template.Annotations["checksum/config"]
		}
		return of("paddock"), of("paddock-gpu")
	}
	a, b := sums("groups: {gpu: {}}")
	for _, c := range []struct {
		values      string
		same, other bool
	}{
		{"groups: {gpu: {agent: {log: {level: debug}}}}", true, false},
		{"groups: {gpu: {}}\nagent: {log: {level: debug}}", false, false},
		{"groups: {gpu: {}}\nresources: {}", true, true},
	} {
		first, second := sums(c.values)
		if (first == a) != c.same || (second == b) != c.other || first == "" {
			t.Errorf("%s: the default group keeps its checksum %t, the group gpu %t", c.values, first == a, second == b)
		}
	}
}

// TestBadValues checks that Helm rejects values that cannot work, with the name of the value and
// what is expected.
func TestBadValues(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{"replicas: 3", "additional properties 'replicas' not allowed"},
		{"agent: {listen: 9925}", "at '/agent/listen': got number, want string"},
		{"agent: {listen: 127.0.0.1}", "'127.0.0.1' does not match pattern"},
		{"agent: {state: /tmp/state}", "at '/agent': additional properties 'state' not allowed"},
		{"agent: {nri: {socket: /run/other.sock}}", "additional properties 'socket' not allowed"},
		{"agent: {map: cluster}", "at '/agent/map': value must be one of 'loopback', 'everywhere'"},
		{"groups: {gpu: {polcy: {}}}", "at '/groups/gpu': additional properties 'polcy' not allowed"},
		{"groups: {GPU: {}}", "'GPU' does not match pattern"},
		{`groups: {"true": {}}`, "invalid propertyName 'true'"},
		{"groups: {default: null}", `groups: expected at least one group, such as "default: {}"`},
		{"groups: {gpu: {nodeSelector: {gpu: h100}}}", "groups.default and groups.gpu can select the same node: give their nodeSelectors different values of one label"},
		{"groups: {gpu: {nodeSelector: {}}}", "at '/groups/gpu/nodeSelector': minProperties"},
		{"image: {tag: \"\"}", "at '/image/tag'"},
		{"image: {digest: abc}", "at '/image/digest'"},
		{"priorityClass: {create: true}", `priorityClass.create: "system-node-critical" is a name of Kubernetes: choose one without "system-"`},
		{"podMonitor: {enabled: true}", `podMonitor.enabled: the agents of the group default listen on 127.0.0.1:9925, which Prometheus cannot reach: set agent.listen to ":9925"`},
		{"podMonitor: {enabled: true, interval: often}", "at '/podMonitor/interval': 'often' does not match pattern"},
		{"requiredPlugins: {enabled: true}\ngroups: {gpu: {agent: {nri: {pluginName: other}}}}", "the groups have the plugin names other, paddock: expected one agent.nri.pluginName"},
		{"terminationGracePeriodSeconds: 5", "at '/terminationGracePeriodSeconds': minimum: got 5, want 30"},
		{"updateStrategy: {maxUnavailable: 0}", "at '/updateStrategy/maxUnavailable'"},
		{"rbac: {kubelet: nodes}", "at '/rbac/kubelet': value must be one of 'nodes/pods', 'nodes/proxy'"},
		{"scheduler: {enabled: true}\npublish: {enabled: false}", "scheduler.enabled: a scheduler knows nodes by what their agents publish: set publish.enabled to true"},
		{"scheduler: {plugin: {scoring: best}}", "at '/scheduler/plugin/scoring': value must be one of 'least-stranded', 'least-allocated', 'most-allocated', 'best-fit'"},
		{"scheduler: {plugin: {evictRejectedAfter: soon}}", "at '/scheduler/plugin/evictRejectedAfter': 'soon' does not match pattern"},
		{"scheduler: {config: {profiles: []}}", "invalid propertyName 'profiles'"},
		{"scheduler: {users: [\"a' || true || 'b\"]}", "at '/scheduler/users/0'"},
		{"scheduler: {replicas: 0}", "at '/scheduler/replicas': minimum: got 0, want 1"},
		{"observe: {unlabelledNodes: true}\ngroups: {default: null, gpu: {nodeSelector: {gpu: h100}}}", "observe.unlabelledNodes: groups.gpu can select a node without a label of Paddock"},
		{"observe: {covered: [../pods]}", "at '/observe/covered/0': '../pods' does not match pattern"},
		{"observe: {kubeletDir: var/lib/kubelet}", "at '/observe/kubeletDir': 'var/lib/kubelet' does not match pattern"},
		{"tests: {cpu: 500m}", "at '/tests/cpu': '500m' does not match pattern"},
	} {
		var v map[string]any
		if err := yaml.Unmarshal([]byte(c.values), &v); err != nil {
			t.Fatal(err)
		}
		_, err := install(v)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.values, err, c.want)
		}
	}
}
