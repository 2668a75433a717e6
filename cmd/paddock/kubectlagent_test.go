package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/testing/kubectltest"
)

// TestPluginAsksAnAgent runs an agent. The plugin runs the program itself in the agent's container.
func TestPluginAsksAnAgent(t *testing.T) {
	h := newHome(t, machineText(1, 2, 4))
	h.write("pods/database.yaml", `
apiVersion: v1
kind: Pod
metadata: {name: database, namespace: shop}
spec: {containers: [{name: main, image: none, resources: {limits: {cpu: "2", memory: 1Gi}}}]}
`)
	p := h.start()
	p.await(t, 1, "pod admitted")
	agent := agentPod("node7", "paddock-x", "paddock", "Running", "default", "")
	agent.Spec.Containers[0].Args = slices.Concat(h.args, []string{"--listen", p.await(t, 1, "metrics and health").Address})
	c := newCluster(t)
	server := kubectltest.Start(func(_ *v1.Pod, _ string, command []string, stdout, stderr io.Writer) int {
		remote := exec.CommandContext(t.Context(), "paddock", command[1:]...) // TestMain has put it into PATH.
		remote.Stdout, remote.Stderr = stdout, stderr
		exit := (*exec.ExitError)(nil)
		if err := remote.Run(); err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
		return remote.ProcessState.ExitCode()
	})
	t.Cleanup(server.Close)
	c.serve(server)
	server.User("jane", "t-jane")
	server.Add(agent, c.pod("shop/database", "node7", ""))
	c.context("test", "t-jane", "shop")

	for _, q := range []struct {
		args, want string
		code       int
	}{
		{"explain database", "shop/database", 0},
		{"explain database -o json", `"pod": "shop/database"`, 0},
		{"explain none --node node7", "shop/none", 1},
		{"pods", "shop/database", 0},
		{"pods -o json", `"name": "database"`, 0},
		{"map", "shop/database", 0},
		{"map node7 -o svg", "<svg", 0},
		{"report", "NUMA NODE", 0},
		{"report node7 -o json", `"usage"`, 0},
	} {
		var stdout, stderr bytes.Buffer
		code := console.Execute(newPluginCommand(), strings.Fields(q.args), strings.NewReader(""), &stdout, &stderr)
		if all := stdout.String() + stderr.String(); code != q.code || !strings.Contains(all, q.want) {
			t.Errorf("kubectl paddock %s: exit code %d, want %d and %s in\n%s", q.args, code, q.code, q.want, all)
		}
	}
}

// TestPluginName checks that the name of the program decides whether it is the plugin.
func TestPluginName(t *testing.T) {
	for name, want := range map[string]bool{"/usr/local/bin/kubectl-paddock": true, "kubectl-paddock": true, "paddock": false, "/kubectl-paddock/paddock": false, "kubectl-paddock.old": false} {
		if isPlugin(name) != want {
			t.Errorf("%s is the plugin: %t, want %t", name, !want, want)
		}
	}
}

// TestPagesCallThePlugin checks that the commands and flags of kubectl paddock on the pages exist.
func TestPagesCallThePlugin(t *testing.T) {
	calls := regexp.MustCompile(`(?m)^ *kubectl paddock ([^\n|;&>#)]*)`)
	found := 0
	for _, page := range []string{"docs/commands.md", "docs/read-a-rejection.md", "deploy/README.md"} {
		text, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls.FindAllStringSubmatch(string(text), -1) {
			found++
			cmd, rest, err := newPluginCommand().Find(strings.Fields(call[1]))
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil || !cmd.HasParent() {
				t.Errorf("%s: kubectl paddock %s: %v", page, call[1], err)
			}
		}
	}
	if found < 8 {
		t.Errorf("%d calls are on the pages", found)
	}
}
