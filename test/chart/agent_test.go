package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// paddock and quietProgram return the paths of the programs of the container images. Each is built
// once.
var paddock, quietProgram = built("./cmd/paddock-agent"), built("./cmd/paddock-quiet")

func built(program string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "paddock-chart-test-")
		if err != nil {
			return "", err
		}
		build := exec.Command("go", "build", "-o", filepath.Join(dir, "paddock"), program)
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build: %w: %s", err, out)
		}
		return filepath.Join(dir, "paddock"), nil
	})
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, program := range []func() (string, error){paddock, quietProgram} {
		if name, err := program(); err == nil {
			if err := os.RemoveAll(filepath.Dir(name)); err != nil {
				code = 1
			}
		}
	}
	os.Exit(code)
}

// run runs the program with arguments and returns its output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	name, err := paddock()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	return string(out), err
}

// written writes the files of a ConfigMap to a directory and returns the directory.
func written(t *testing.T, files v1.ConfigMap) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestAgentTakesTheFiles checks that the agent accepts every configuration of the chart, with the
// arguments of the DaemonSet, and that a kubelet would start with every policy.
func TestAgentTakesTheFiles(t *testing.T) {
	const machine = "../../examples/machines/epyc-2s-nps4.json"
	for _, name := range append(valueFiles(t), "") {
		all, _ := rendered(t, values(t, name))
		for _, set := range all.of("DaemonSet") {
			dir := written(t, as[v1.ConfigMap](t, all, "ConfigMap "+set))
			if set == quieting {
				takesQuiet(t, name, filepath.Join(dir, "quiet.yaml"))
				continue
			}
			args := slices.Clone(as[appsv1.DaemonSet](t, all, "DaemonSet "+set).Spec.Template.Spec.Containers[0].Args)
			for i, a := range args {
				a = strings.ReplaceAll(a, "$(HOST_IP)", "192.0.2.7")
				args[i] = strings.ReplaceAll(a, "/etc/paddock/", dir+"/")
			}
			out, err := run(t, append(args, "--print-config")...)
			if err != nil {
				t.Errorf("%s, %s: paddock %s: %v: %s", name, set, strings.Join(args, " "), err, out)
			}
			checkPaths(t, name+", "+set, dir, out)
			if set == observing { // The kubelet's own policy counts there.
				continue
			}
			if out, err := run(t, "check-config", "--machine", machine, filepath.Join(dir, "policy.yaml")); err != nil {
				t.Errorf("%s, %s: check-config: %v: %s", name, set, err, out)
			}
		}
	}
}

// takesQuiet checks that paddock quiet accepts its configuration.
func takesQuiet(t *testing.T, what, file string) {
	t.Helper()
	name, err := quietProgram()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), name, "--config", file, "--print-config").CombinedOutput(); err != nil {
		t.Errorf("%s: paddock quiet: %v: %s", what, err, out)
	}
}

// checkPaths checks that every file in /etc/paddock that the configuration names is in the
// ConfigMap.
func checkPaths(t *testing.T, what, dir, config string) {
	t.Helper()
	var c struct {
		Decides, KubeletConfig, Devices, Runtime, Listen string
		Kubelet                                          struct{ URL, TokenFile, CAFile string }
	}
	if err := yaml.Unmarshal([]byte(config), &c); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if c.Runtime != "nri" && c.Decides != "kubelet" || c.Kubelet.TokenFile == "" {
		t.Errorf("%s: %+v", what, c)
	}
	for _, name := range []string{c.KubeletConfig, c.Devices} {
		if name == "" {
			continue
		}
		if _, err := os.Stat(strings.ReplaceAll(name, "/etc/paddock/", dir+"/")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSchemaHasTheFieldsOfTheAgent checks that every field of the agent's configuration is in the
// schema too, unless the chart itself sets it.
func TestSchemaHasTheFieldsOfTheAgent(t *testing.T) {
	fixed := []string{
		"cgroupRoot", "decides", "devices", "kubeletConfig", "machine", "pods", "runtime", "state",
		"nri.socket", "podResources.socket", "kubelet.tokenFile", "kubelet.caFile", "kubelet.certFile", "kubelet.keyFile",
		"kubelet.podResources", "kubelet.dir", "nodeName", "apiServer.url", "apiServer.tokenFile", "apiServer.caFile", "publish", "nodeResourceTopology",
	}
	config := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(config, []byte("runtime: nri\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "agent", "--config", config, "--print-config")
	if err != nil {
		t.Fatal(err, out)
	}
	var printed map[string]any
	if err := yaml.Unmarshal([]byte(out), &printed); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, field := range fields("", printed) {
		if !slices.Contains(fixed, field) {
			want = append(want, field)
		}
	}
	data, err := os.ReadFile(filepath.Join(directory, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs struct{ Agent property } `json:"$defs"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	got := schema.Defs.Agent.fields("")
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("- the agent's fields that the chart does not set\n+ $defs.agent of values.schema.json\n%s", diff)
	}
}

// fields returns the paths of the values in an object.
func fields(path string, of map[string]any) []string {
	var all []string
	for name, value := range of {
		if inner, is := value.(map[string]any); is {
			all = append(all, fields(path+name+".", inner)...)
			continue
		}
		all = append(all, path+name)
	}
	return all
}

type property struct{ Properties map[string]property }

func (p property) fields(path string) []string {
	var all []string
	for name, inner := range p.Properties {
		if inner.Properties != nil {
			all = append(all, inner.fields(path+name+".")...)
			continue
		}
		all = append(all, path+name)
	}
	return all
}

// TestHelmTest checks the test of a release. It asks the agent of its node about its own pod, with
// a command that exists. The pod is one that is assigned exclusive CPUs.
func TestHelmTest(t *testing.T) {
	all, made := rendered(t, values(t, "groups.yaml"))
	if len(made.Hooks) != 2 {
		t.Fatalf("%d hooks: want a test for each of two groups", len(made.Hooks))
	}
	for _, name := range []string{"paddock-test", "paddock-gpu-test"} {
		pod := as[v1.Pod](t, all, "Pod "+name)
		set := as[appsv1.DaemonSet](t, all, "DaemonSet "+strings.TrimSuffix(name, "-test"))
		spec, agent := pod.Spec, set.Spec.Template.Spec
		if diff := cmp.Diff([]any{agent.NodeSelector, agent.Affinity, agent.Tolerations}, []any{spec.NodeSelector, spec.Affinity, spec.Tolerations}); diff != "" {
			t.Errorf("%s runs on other nodes than its agents:\n%s", name, diff)
		}
		if diff := cmp.Diff(spec.Containers[0].Resources.Requests, spec.Containers[0].Resources.Limits); diff != "" {
			t.Errorf("%s is not Guaranteed:\n%s", name, diff)
		}
		if pod.Labels["app.kubernetes.io/name"] == "paddock" {
			t.Errorf("%s is taken for an agent", name)
		}
		args := spec.Containers[0].Args
		if args[2] != pod.Namespace+"/"+pod.Name {
			t.Errorf("%s asks for %s", name, args[2])
		}
		out, err := run(t, append(slices.Clone(args), "--socket", filepath.Join(t.TempDir(), "s"))...)
		if err == nil || !strings.Contains(out, `is "paddock agent" running on this node`) {
			t.Errorf("%s: paddock %q: %s, %v", name, args, out, err)
		}
	}
}

// TestHelmTestOfObservedNodes checks that the test of an observed node runs where the observing
// agents run, asks the port on which they listen, and has no privilege but the node's network.
func TestHelmTestOfObservedNodes(t *testing.T) {
	all, made := rendered(t, map[string]any{"tests": map[string]any{"observe": true}, "agent": map[string]any{"listen": "127.0.0.1:9999"}})
	if len(made.Hooks) != 2 {
		t.Fatalf("%d hooks: want a test of the default group, and one of an observed node", len(made.Hooks))
	}
	spec := as[v1.Pod](t, all, "Pod paddock-observe-test").Spec
	agent := as[appsv1.DaemonSet](t, all, "DaemonSet "+observing).Spec.Template.Spec
	if diff := cmp.Diff([]any{agent.NodeSelector, agent.Affinity, agent.Tolerations}, []any{spec.NodeSelector, spec.Affinity, spec.Tolerations}); diff != "" {
		t.Errorf("it runs on other nodes than its agents:\n%s", diff)
	}
	if len(spec.Volumes) != 0 || *spec.Containers[0].SecurityContext.RunAsUser == 0 || *spec.AutomountServiceAccountToken || !spec.HostNetwork {
		t.Errorf("it has more than the network of the node: %+v", spec)
	}
	args := spec.Containers[0].Args
	if !slices.Equal(args, []string{"trust", "--agent=127.0.0.1:9999"}) {
		t.Errorf("it asks %q", args)
	}
	out, err := run(t, "trust", "--agent=127.0.0.1:1")
	if err == nil || !strings.Contains(out, "127.0.0.1:1") {
		t.Errorf("without an agent, the test succeeds: %s, %v", out, err)
	}
	all, _ = rendered(t, map[string]any{"scheduler": map[string]any{"enabled": true, "name": "mine"}})
	if name := as[v1.Pod](t, all, "Pod paddock-test").Spec.SchedulerName; name != "mine" {
		t.Errorf("with the scheduler, the test is placed by %q", name)
	}
}

// TestNotes checks that the notes of a release have a label for the nodes of each group, and the
// steps that the options need.
func TestNotes(t *testing.T) {
	for name, want := range map[string][]string{
		"":                      {"Every Linux node without a label of Paddock is\nobserved", "kubectl get paddocknodes\n", "kubectl label node NODE paddock-project.github.io/mode=manage\n", "helm -n paddock test paddock --logs"},
		"groups.yaml":           {"paddock-project.github.io/mode=manage\n", "paddock-node=gpu\n"},
		"only-group.yaml":       {"kubectl label node NODE paddock-project.github.io/mode=observe\n", "kubectl label node NODE node.kubernetes.io/instance-type=metal topology.kubernetes.io/zone=edge-1\n"},
		"required-plugins.yaml": {"get configmap paddock-required-plugins", "Before you uninstall the chart, remove this file", "\"What an uninstall\nleaves\""},
	} {
		_, made := rendered(t, values(t, name))
		for _, text := range want {
			if !strings.Contains(made.Info.Notes, text) {
				t.Errorf("%s: the notes do not have %q:\n%s", name, text, made.Info.Notes)
			}
		}
	}
}

// TestRequiredPlugins checks that the file of the option has the settings of deploy/containerd, and
// that the agents have the annotation.
func TestRequiredPlugins(t *testing.T) {
	settings := func(text []byte) string {
		var lines []string
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
				lines = append(lines, string(line))
			}
		}
		return strings.Join(lines, "\n")
	}
	want, err := os.ReadFile("../../deploy/containerd/required-plugins.toml")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := rendered(t, values(t, "required-plugins.yaml"))
	got := as[v1.ConfigMap](t, all, "ConfigMap paddock-required-plugins").Data["required-plugins.toml"]
	if diff := cmp.Diff(settings(want), settings([]byte(got))); diff != "" {
		t.Errorf("- deploy/containerd\n+ the chart's\n%s", diff)
	}
	set := as[appsv1.DaemonSet](t, all, "DaemonSet paddock")
	if !strings.Contains(got, "tolerate-missing-nri-plugins.noderesource.dev") || set.Spec.Template.Annotations["tolerate-missing-nri-plugins.noderesource.dev"] != "true" {
		t.Errorf("the agents have the annotations %v", set.Spec.Template.Annotations)
	}
}
