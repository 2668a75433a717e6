package agent

import (
	"bytes"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

const (
	deployed = "../../deploy/"
	base     = deployed + "base/"
)

// object decodes a manifest strictly: an unknown field is an error.
func object[T any](t *testing.T, name string, document int) T {
	t.Helper()
	documents := bytes.Split(read(t, base+name), []byte("\n---\n"))
	if document >= len(documents) {
		t.Fatalf("%s has %d documents", name, len(documents))
	}
	var decoded T
	if err := yaml.UnmarshalStrict(documents[document], &decoded); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return decoded
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// deployedConfig returns the agent's configuration in the ConfigMap, as the agent reads it.
func deployedConfig(t *testing.T) Config {
	t.Helper()
	files := object[v1.ConfigMap](t, "configmap.yaml", 0)
	c, err := ReadConfig("agent.yaml", []byte(files.Data["agent.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestBase checks that the kustomization lists the existing files, and that all objects use the
// same few names.
func TestBase(t *testing.T) {
	var k struct {
		APIVersion, Kind string
		Resources        []string
	}
	if err := yaml.UnmarshalStrict(read(t, base+"kustomization.yaml"), &k); err != nil {
		t.Fatal(err)
	}
	there, err := filepath.Glob(base + "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crds, err := filepath.Glob(base + "crds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	there = append(crds, there...)
	named := []string{"kustomization.yaml"}
	named = append(named, k.Resources...)
	slices.Sort(named)
	for i := range there {
		there[i] = strings.TrimPrefix(there[i], base)
	}
	if slices.Sort(there); !slices.Equal(named, there) {
		t.Errorf("kustomization.yaml and its resources are %q, the files %q", named, there)
	}
	space, account := object[v1.Namespace](t, "namespace.yaml", 0), object[v1.ServiceAccount](t, "serviceaccount.yaml", 0)
	files, set := object[v1.ConfigMap](t, "configmap.yaml", 0), object[appsv1.DaemonSet](t, "daemonset.yaml", 0)
	for _, o := range []string{account.Namespace, files.Namespace, set.Namespace} {
		same(t, "namespace", o, space.Name)
	}
	role, binding := object[rbacv1.ClusterRole](t, "rbac.yaml", 0), object[rbacv1.ClusterRoleBinding](t, "rbac.yaml", 1)
	same(t, "rules", fmt.Sprint(role.Rules), fmt.Sprint([]rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes/pods"}},
		{Verbs: []string{"list", "watch"}, APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}},
		{Verbs: []string{"get"}, APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims"}},
		{Verbs: []string{"get", "list", "watch", "create", "update"}, APIGroups: []string{"paddock-project.github.io"}, Resources: []string{"paddocknodes"}},
		{Verbs: []string{"get", "create"}, APIGroups: []string{"paddock-project.github.io"}, Resources: []string{"paddockmachines"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}},
	}))
	same(t, "role", binding.RoleRef.Kind+" "+binding.RoleRef.Name, role.Kind+" "+role.Name)
	same(t, "subjects", fmt.Sprint(binding.Subjects), fmt.Sprint([]rbacv1.Subject{{Kind: account.Kind, Name: account.Name, Namespace: account.Namespace}}))
	same(t, "account", set.Spec.Template.Spec.ServiceAccountName, account.Name)
	same(t, "selector", fmt.Sprint(set.Spec.Selector.MatchLabels), fmt.Sprint(set.Spec.Template.Labels))
}

// TestDeployedPrivileges checks that the DaemonSet has only the privileges for which
// deploy/README.md gives reasons.
func TestDeployedPrivileges(t *testing.T) {
	for _, set := range []appsv1.DaemonSet{object[appsv1.DaemonSet](t, "daemonset.yaml", 0), object[appsv1.DaemonSet](t, "observe.yaml", 4)} {
		t.Run(set.Name, func(t *testing.T) { checkPrivileges(t, set.Spec.Template.Spec) })
	}
	for name, file := range map[string]string{"the DaemonSet": "base/daemonset.yaml", "the observing one": "base/observe.yaml", "the account": "base/rbac.yaml"} {
		if strings.Contains(string(read(t, deployed+file)), "privileged: true") {
			t.Errorf("%s is privileged", name)
		}
	}
}

func checkPrivileges(t *testing.T, spec v1.PodSpec) {
	t.Helper()
	if spec.HostPID || spec.HostIPC || len(spec.Containers) != 1 || len(spec.InitContainers) != 0 {
		t.Error("it shares the host's processes or memory, or has containers besides the agent")
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Error("the account's token is mounted twice")
	}
	same(t, "security context of the pod", fmt.Sprint(spec.SecurityContext), fmt.Sprint((*v1.PodSecurityContext)(nil)))
	got, err := yaml.Marshal(spec.Containers[0].SecurityContext)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "security context", string(got), `allowPrivilegeEscalation: false
capabilities:
  drop:
  - ALL
privileged: false
readOnlyRootFilesystem: true
runAsGroup: 0
runAsNonRoot: false
runAsUser: 0
seccompProfile:
  type: RuntimeDefault
`)
	readme := string(read(t, deployed+"README.md"))
	for _, v := range spec.Volumes {
		if v.HostPath != nil && !strings.Contains(readme, "| `"+v.HostPath.Path+"`") {
			t.Errorf("deploy/README.md does not say why %s is mounted", v.HostPath.Path)
		}
	}
}

// mountOf returns the mount that contains a file of the agent, and its volume.
func mountOf(t *testing.T, spec v1.PodSpec, file string) (v1.VolumeMount, v1.Volume) {
	t.Helper()
	for _, m := range spec.Containers[0].VolumeMounts {
		if file != m.MountPath && !strings.HasPrefix(file, m.MountPath+"/") {
			continue
		}
		i := slices.IndexFunc(spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Fatalf("no volume %s", m.Name)
		}
		return m, spec.Volumes[i]
	}
	t.Fatalf("%s is in no volume", file)
	return v1.VolumeMount{}, v1.Volume{}
}

// TestDeployedPaths checks that the DaemonSet mounts the paths of the configuration, and that those
// that are written are writable.
func TestDeployedPaths(t *testing.T) {
	c, files := deployedConfig(t), object[v1.ConfigMap](t, "configmap.yaml", 0)
	spec := object[appsv1.DaemonSet](t, "daemonset.yaml", 0).Spec.Template.Spec
	args := spec.Containers[0].Args
	env := spec.Containers[0].Env
	if len(args) != 4 || args[0] != "agent" || args[1] != "--config" || args[3] != "--node-name=$("+env[0].Name+")" || env[0].ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
		t.Fatalf("arguments %q", args)
	}
	for _, want := range []struct {
		file, host string // host is a directory of the node, or the name of the volume
		writable   bool
	}{
		{args[2], "config", false},
		{c.KubeletConfig, "config", false},
		{c.Kubelet.TokenFile, "token", false},
		{c.APIServer.TokenFile, "token", false},
		{c.APIServer.CAFile, "token", false},
		{c.NRI.Socket, path.Dir(DefaultConfig().NRI.Socket), false},
		{c.Kubelet.PodResources, path.Dir(DefaultConfig().Kubelet.PodResources), false},
		{c.CgroupRoot, DefaultConfig().CgroupRoot, true},
		{c.State, path.Dir(DefaultConfig().State), true},
		{c.PodResources.Socket, path.Dir(DefaultConfig().PodResources.Socket), true},
		{"/host/sys/fs/resctrl", "/sys/fs", false}, // See package discover.
		{c.NoticeDir, path.Dir(DefaultConfig().NoticeDir), true},
	} {
		m, v := mountOf(t, spec, want.file)
		host := v.Name
		if v.HostPath != nil {
			host = v.HostPath.Path
		}
		if host != want.host || m.ReadOnly == want.writable {
			t.Errorf("%s is in %s, read-only %t; want %s, writable %t", want.file, host, m.ReadOnly, want.host, want.writable)
		}
		if v.ConfigMap != nil && (v.ConfigMap.Name != files.Name || files.Data[path.Base(want.file)] == "") {
			t.Errorf("the ConfigMap %s has no %s", v.ConfigMap.Name, want.file)
		}
		if v.Projected != nil && v.Projected.Sources[0].ServiceAccountToken.Path != path.Base(want.file) && v.Projected.Sources[1].ConfigMap.Items[0].Path != path.Base(want.file) {
			t.Errorf("no token and no CA at %s", want.file)
		}
	}
	if len(spec.Containers[0].VolumeMounts) != len(spec.Volumes) || len(spec.Volumes) != 8 {
		t.Error("a volume is mounted that the agent has no use for")
	}
}

// TestDeployedProbes checks that the probes use the address on which the agent listens, and paths
// that it serves.
func TestDeployedProbes(t *testing.T) {
	c := deployedConfig(t)
	spec := object[appsv1.DaemonSet](t, "daemonset.yaml", 0).Spec.Template.Spec
	served := telemetry.New(telemetry.Config{}).Handler(false)
	for want, probe := range map[string]*v1.Probe{"/healthz": spec.Containers[0].LivenessProbe, "/readyz": spec.Containers[0].ReadinessProbe} {
		ask := probe.HTTPGet
		same(t, "probe", net.JoinHostPort(ask.Host, ask.Port.String())+ask.Path, c.Listen+want)
		answer := httptest.NewRecorder()
		served.ServeHTTP(answer, httptest.NewRequest("GET", ask.Path, nil))
		if answer.Code != 200 {
			t.Errorf("%s answers %d", ask.Path, answer.Code)
		}
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || !net.ParseIP(host).IsLoopback() || !strings.Contains(c.Kubelet.URL, "//127.0.0.1:") || !spec.HostNetwork {
		t.Errorf("listens on %s, asks %s, host's network %t: loopback is the node's in its network only", c.Listen, c.Kubelet.URL, spec.HostNetwork)
	}
}

// TestFirstPod checks that, on every example machine, a kubelet would start with the policy of the
// ConfigMap, and that the policy gives the pod of the README CPUs of one NUMA node.
func TestFirstPod(t *testing.T) {
	config, err := kubeletcfg.Read("policy.yaml", []byte(object[v1.ConfigMap](t, "configmap.yaml", 0).Data["policy.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	pods, notes, err := podspec.ReadFiles([]string{deployed + "first-pod.yaml"}, nil)
	if err != nil || len(pods) != 1 || len(notes) != 0 {
		t.Fatalf("%d pods, %v, %v", len(pods), notes, err)
	}
	machines, err := filepath.Glob("../../examples/machines/*.json")
	if err != nil || len(machines) < 10 {
		t.Fatalf("%d machines, %v", len(machines), err)
	}
	for _, name := range machines {
		found, err := discover.Read(name, read(t, name))
		if err != nil {
			t.Fatal(err)
		}
		policy, err := config.Resolve(found.Machine)
		if err != nil || len(config.Warnings(found.Machine)) > 0 {
			t.Errorf("%s: %v, %v", name, err, config.Warnings(found.Machine))
			continue
		}
		pod := podspec.Default(pods[0].Pod, podspec.GatesOf(policy))
		checkFirst(t, name, pod, found.Machine, policy)
	}
}

// checkFirst admits the pod on an empty node.
func checkFirst(t *testing.T, name string, pod *v1.Pod, m *machine.Machine, policy node.Policy) {
	t.Helper()
	s, _, err := node.Adopt(m, policy, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := podspec.Request(pod, podspec.GatesOf(policy))
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.Apply(s.Plan(asked)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	g := s.Grants()[0]
	_, i := g.Pod.Container("worker")
	_, k := g.Pod.Container("helper")
	worker, mems := s.Cgroup(g, i)
	helper, _ := s.Cgroup(g, k)
	if worker.Len() != 2 || helper.Len() != 1 || !worker.Intersection(helper).IsEmpty() || mems.Len() != 1 {
		t.Errorf("%s: the worker has %s with memory of %s, the helper %s", name, worker, mems, helper)
	}
}

// TestRiskyFieldsAreDocumented checks that fields which can leave containers unpinned, or move
// them, are explained where people look.
func TestRiskyFieldsAreDocumented(t *testing.T) {
	for _, name := range []string{"../../docs/agent.md", "../../deploy/README.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"takeOver", "timeout", "plugin_request_timeout", "releaseOnExit"} {
			if !strings.Contains(string(text), field) {
				t.Errorf("%s does not name %s", name, field)
			}
		}
	}
}

// TestDeployedAnnotations checks that the files that make the runtime require the plugin use the
// same names. How the validator of NRI reads them is tested in internal/node/runtime/nri.
func TestDeployedAnnotations(t *testing.T) {
	const required, tolerates = "required-plugins.noderesource.dev", "tolerate-missing-nri-plugins.noderesource.dev"
	name := deployedConfig(t).NRI.PluginName
	var first v1.Pod
	if err := yaml.UnmarshalStrict(read(t, deployed+"first-pod.yaml"), &first); err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := yaml.UnmarshalStrict([]byte(first.Annotations[required]), &names); err != nil || !slices.Equal(names, []string{name}) {
		t.Errorf("%s of the first pod names %q, %v; the agent is %q", required, names, err, name)
	}
	set := object[appsv1.DaemonSet](t, "daemonset.yaml", 0)
	same(t, tolerates+" of the agent", set.Spec.Template.Annotations[tolerates], "true")
	contains(t, "required-plugins.toml", string(read(t, deployed+"containerd/required-plugins.toml")),
		`[plugins."io.containerd.nri.v1.nri".default_validator]`, fmt.Sprintf("required_plugins = [%q]", name),
		fmt.Sprintf("tolerate_missing_plugins_annotation = %q", tolerates), required+": '"+first.Annotations[required]+"'")
	contains(t, "required-plugins.conf", string(read(t, deployed+"crio/required-plugins.conf")),
		"[crio.nri.default_validator]", fmt.Sprintf("nri_validator_required_plugins = [%q]", name),
		fmt.Sprintf("nri_validator_tolerate_missing_plugins_annotation = %q", tolerates), required+": '"+first.Annotations[required]+"'")
	contains(t, "deploy/README.md", string(read(t, deployed+"README.md")), required+": '"+first.Annotations[required]+"'", tolerates+`: "true"`)
}

// goingBack returns the commands of "How to go back" in deploy/README.md, one element for each
// block.
func goingBack(t *testing.T) [][]string {
	t.Helper()
	_, section, _ := strings.Cut(string(read(t, deployed+"README.md")), "\n## How to go back\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks [][]string
	inside := false
	for line := range strings.Lines(section) {
		command, is := strings.CutPrefix(line, "    ")
		if is && !inside {
			blocks = append(blocks, nil)
		}
		if inside = is; is {
			blocks[len(blocks)-1] = append(blocks[len(blocks)-1], strings.TrimSpace(command))
		}
	}
	if len(blocks) != 4 {
		t.Fatalf("%d blocks: want all nodes, one node, each node, and drain", len(blocks))
	}
	return blocks
}

// patched returns the DaemonSet after the operations of a command: "add" to the end of a list, or
// "replace".
func patched(t *testing.T, command string) appsv1.DaemonSet {
	t.Helper()
	_, operations, _ := strings.Cut(command, " --type json -p '")
	var patch []struct {
		Op, Path string
		Value    any
	}
	if err := yaml.UnmarshalStrict([]byte(strings.TrimSuffix(operations, "'")), &patch); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	var document map[string]any
	if err := yaml.Unmarshal(read(t, base+"daemonset.yaml"), &document); err != nil {
		t.Fatal(err)
	}
	for _, o := range patch {
		switch o.Op + " " + o.Path {
		case "replace /spec/updateStrategy":
			member(t, document, "spec")["updateStrategy"] = o.Value
		case "add /spec/template/spec/containers/0/args/-":
			pod := member(t, member(t, member(t, document, "spec"), "template"), "spec")
			agent := member(t, map[string]any{"agent": members(t, pod, "containers")[0]}, "agent")
			agent["args"] = append(members(t, agent, "args"), o.Value)
		default:
			t.Fatalf("%s: unknown operation %s %s", command, o.Op, o.Path)
		}
	}
	text, err := yaml.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(text, &set); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return set
}

// TestDeployedEnd checks that the agent gets the time that a final end takes, and that the steps of
// "How to go back" wait for each other.
func TestDeployedEnd(t *testing.T) {
	set := object[appsv1.DaemonSet](t, "daemonset.yaml", 0)
	if grace := time.Duration(*set.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; grace < handingBack+ending+2*time.Second {
		t.Errorf("the pod has %v to end, and handing back takes %v and the state %v", grace, handingBack, ending)
	}
	blocks := goingBack(t)
	for i, want := range [][]string{
		{"patch daemonset " + set.Name, "rollout status daemonset " + set.Name, "delete daemonset " + set.Name + " --cascade=foreground", "delete -k deploy/base"},
		{"patch daemonset " + set.Name, "delete pod", "--for condition=Ready", "get pod", "label node NODE paddock-node-", "--for delete", "apply -k deploy/base"},
		{"-name cpuset.cpus", "rm -r " + path.Dir(DefaultConfig().State) + " " + path.Dir(DefaultConfig().PodResources.Socket)},
		{"drain NODE --ignore-daemonsets --force", "label node NODE paddock-node-", "--for delete", "rm -r", "uncordon"},
	} {
		if len(want) != len(blocks[i]) {
			t.Fatalf("block %d: %q; want %q", i, blocks[i], want)
		}
		for k := range want {
			contains(t, fmt.Sprintf("block %d, line %d", i, k), blocks[i][k], want[k])
			if _, of, is := strings.Cut(blocks[i][k], " -l "); is {
				contains(t, "label", of, "app.kubernetes.io/name="+set.Spec.Template.Labels["app.kubernetes.io/name"]+",paddock-project.github.io/group --field-selector spec.nodeName=NODE")
			}
		}
	}
	all, one := patched(t, blocks[0][0]), patched(t, blocks[1][0])
	for _, s := range []appsv1.DaemonSet{all, one} {
		same(t, "arguments", fmt.Sprint(s.Spec.Template.Spec.Containers[0].Args), fmt.Sprint(append(set.Spec.Template.Spec.Containers[0].Args, "--release-on-exit")))
	}
	same(t, "strategy for all nodes", string(all.Spec.UpdateStrategy.Type), string(appsv1.RollingUpdateDaemonSetStrategyType))
	same(t, "strategy for one node", string(one.Spec.UpdateStrategy.Type), string(appsv1.OnDeleteDaemonSetStrategyType))
}

// member returns a field of an object that is an object itself.
func member(t *testing.T, of map[string]any, field string) map[string]any {
	t.Helper()
	o, ok := of[field].(map[string]any)
	if !ok {
		t.Fatalf("%s is no object: %v", field, of[field])
	}
	return o
}

// members returns a field of an object that is a non-empty list.
func members(t *testing.T, of map[string]any, field string) []any {
	t.Helper()
	l, ok := of[field].([]any)
	if !ok || len(l) == 0 {
		t.Fatalf("%s is no list: %v", field, of[field])
	}
	return l
}
