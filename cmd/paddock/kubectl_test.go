package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/testing/kubectltest"
)

// TestPlugin plays the scenarios of testdata/kubectl. Their commands are
//
//	agent NODE [pod=NAME] [namespace=NAME] [phase=WORD] [group=NAME] [mode=observe]   a node with an agent
//	pod NAMESPACE/NAME [node=NODE]                         a pod; the input is its status
//	user NAME token=TOKEN                                  who may ask; TOKEN is what the API server knows
//	context NAME [user=NAME] [token=TOKEN] [namespace=NAME]  a context of the kubeconfig file; the first is the current one
//	deny USER VERB RESOURCE NAMESPACE
//	break POD FAULT                                        see kubectltest.Fault
//	agents FIELDS                                          the configuration that the agents print, as YAML
//	answer COMMAND [code=N]                                what an agent's command prints; "stderr:" begins what it prints there;
//	                                                       "^[" is ESC and "^G" is BEL
//	kubectl [only=TEXT]                                    the input is the rest of the command line; the answer is what is
//	                                                       run in which pod, and what is printed, of the output only lines
//	                                                       that have TEXT
func TestPlugin(t *testing.T) {
	datadriven.Walk(t, "testdata/kubectl", func(t *testing.T, path string) {
		c := newCluster(t)
		datadriven.RunTest(t, path, c.play)
	})
}

// cluster has the objects that a scenario has created.
type cluster struct {
	t       *testing.T
	server  *kubectltest.Server
	file    string // the kubeconfig file
	config  map[string]any
	printed string // by an agent's --print-config
	answers map[string]datadriven.TestData
	ran     chan string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{
		t: t, file: filepath.Join(t.TempDir(), "config"), answers: map[string]datadriven.TestData{}, ran: make(chan string, 100),
		printed: "machine: live\nkubeletConfig: /etc/paddock/policy.yaml\nstate: /var/lib/paddock/state.json\n" +
			"listen: 127.0.0.1:9925\npodResources: {socket: /run/paddock/podresources.sock}\n",
		config: map[string]any{"apiVersion": "v1", "kind": "Config", "contexts": []any{}, "users": []any{}},
	}
	server := kubectltest.Start(c.run)
	t.Cleanup(server.Close)
	c.serve(server)
	t.Setenv("KUBECONFIG", c.file)
	return c
}

// serve makes server the API server that the kubeconfig names.
func (c *cluster) serve(server *kubectltest.Server) {
	c.server = server
	url, certificate := server.Cluster()
	c.config["clusters"] = []any{map[string]any{"name": "test", "cluster": map[string]any{"server": url, "certificate-authority-data": certificate}}}
}

// run is the program of the containers. It prints the scenario's answer.
func (c *cluster) run(pod *v1.Pod, container string, command []string, stdout, stderr io.Writer) int {
	c.ran <- fmt.Sprintf("%s/%s: %s", pod.Name, container, strings.Join(command, " "))
	text := c.printed
	code := 0
	if command[len(command)-1] != "--print-config" {
		answer := c.answers[command[1]]
		text = strings.NewReplacer("^[", "\x1b", "^G", "\a").Replace(answer.Input + "\n")
		if answer.HasArg("code") {
			answer.ScanArgs(c.t, "code", &code)
		}
	}
	text, complaint, _ := strings.Cut(text, "stderr:")
	_, _ = stdout.Write([]byte(text))
	_, _ = stderr.Write([]byte(complaint))
	return code
}

func (c *cluster) play(t *testing.T, d *datadriven.TestData) string {
	first := ""
	if len(d.CmdArgs) > 0 {
		first = d.CmdArgs[0].Key
	}
	value := func(name, otherwise string) string {
		for _, a := range d.CmdArgs {
			if a.Key == name {
				return a.FirstVal(t)
			}
		}
		return otherwise
	}
	switch d.Cmd {
	case "agent":
		c.server.Add(agentPod(first, value("pod", "paddock-"+first), value("namespace", "paddock"), value("phase", "Running"), value("group", "default"), value("mode", "")))
	case "pod":
		c.server.Add(c.pod(first, value("node", ""), d.Input))
	case "user":
		c.server.User(first, value("token", ""))
	case "context":
		c.context(first, value("token", "t-"+value("user", first)), value("namespace", ""))
	case "deny":
		c.server.Deny(first, d.CmdArgs[1].Key, d.CmdArgs[2].Key, d.CmdArgs[3].Key)
	case "readyz":
		status, err := strconv.Atoi(first)
		if err != nil {
			t.Fatal(err)
		}
		c.server.Ready(status)
	case "break":
		var words []string
		for _, a := range d.CmdArgs[1:] {
			words = append(words, a.Key)
		}
		c.server.Break(first, kubectltest.Fault(strings.Join(words, " ")))
	case "agents":
		c.printed = strings.ReplaceAll(d.Input+"\n", "^[", "\x1b")
	case "answer":
		c.answers[first] = *d
	case "kubectl":
		return c.kubectl(d)
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	return ""
}

// agentPod returns a pod of the DaemonSet in deploy/base or of one of the chart.
func agentPod(node, name, namespace, phase, group, mode string) *v1.Pod {
	labels := map[string]string{"app.kubernetes.io/name": "paddock", "paddock-project.github.io/group": group}
	if mode != "" {
		labels = map[string]string{"app.kubernetes.io/name": "paddock", "paddock-project.github.io/mode": mode}
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels}}
	pod.Spec.NodeName = node
	pod.Spec.Containers = []v1.Container{{
		Name: "agent", Args: []string{"agent", "--config", "/etc/paddock/agent.yaml", "--kubelet-url=https://$(HOST_IP):10250"},
		Env: []v1.EnvVar{{Name: "HOST_IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIP"}}}},
	}}
	pod.Status.Phase, pod.Status.HostIP = v1.PodPhase(phase), "192.0.2.7"
	status := v1.ContainerStatus{Name: "agent", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
	if phase == "Running" {
		status.State = v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{status}
	return pod
}

func (c *cluster) pod(id, node, status string) *v1.Pod {
	namespace, name, _ := strings.Cut(id, "/")
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: v1.PodSpec{NodeName: node}}
	if err := yaml.UnmarshalStrict([]byte(status), &pod.Status); err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// context adds a context to the kubeconfig file.
func (c *cluster) context(name, token, namespace string) {
	add := func(list, kind string, value map[string]any) {
		all, is := c.config[list].([]any)
		if !is {
			c.t.Fatalf("%s is %T", list, c.config[list])
		}
		c.config[list] = append(all, map[string]any{"name": name, kind: value})
	}
	add("contexts", "context", map[string]any{"cluster": "test", "user": name, "namespace": namespace})
	add("users", "user", map[string]any{"token": token})
	if c.config["current-context"] == nil {
		c.config["current-context"] = name
	}
	text, err := json.Marshal(c.config)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(c.file, text, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

var (
	address = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)
	port    = regexp.MustCompile(`127\.0\.0\.1:\d{4,5}(->127\.0\.0\.1:\d+)?: `)
)

// kubectl runs the plugin.
func (c *cluster) kubectl(d *datadriven.TestData) string {
	rest, is := strings.CutPrefix(d.Input, "paddock")
	if !is {
		c.t.Fatalf("%s: want paddock and its arguments", d.Pos)
	}
	args := strings.Fields(strings.ReplaceAll(rest, "KUBECONFIG", c.file))
	var stdout, stderr, out bytes.Buffer
	code := console.Execute(newPluginCommand(), args, strings.NewReader(""), &stdout, &stderr)
	var ran []string
	for len(c.ran) > 0 {
		ran = append(ran, "ran "+<-c.ran+"\n")
	}
	slices.Sort(ran) // Agents are asked concurrently.
	out.WriteString(strings.Join(ran, ""))
	only := ""
	if d.HasArg("only") {
		d.ScanArgs(c.t, "only", &only)
	}
	for line := range strings.Lines(stdout.String()) {
		if strings.Contains(line, only) {
			out.WriteString(strings.ReplaceAll(line, filepath.Dir(c.file), "HOME"))
		}
	}
	for line := range strings.Lines(stderr.String()) {
		line = port.ReplaceAllString(address.ReplaceAllString(line, "https://SERVER"), "SERVER: ")
		fmt.Fprintf(&out, "stderr: %s", strings.ReplaceAll(line, filepath.Dir(c.file), "HOME"))
	}
	if code != 0 {
		fmt.Fprintf(&out, "exit code %d\n", code)
	}
	return out.String()
}
