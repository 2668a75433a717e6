package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/absence"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// killedDuringAnAdmission kills the agent at a different moment of each admission.
func killedDuringAnAdmission(t *testing.T, n *node) {
	n.killedDuringAnAdmission(t, "agent-stop KILL", "agent-start")
}

// runtimeKilledDuringAnAdmission kills the runtime instead, which takes the plugin's connection with
// it.
func runtimeKilledDuringAnAdmission(t *testing.T, n *node) {
	n.killedDuringAnAdmission(t, "runtime-restart KILL")
}

// killedDuringAnAdmission gives the commands at a different moment of each admission, while a
// neighbor runs on all CPUs. After the commands, either the pod runs on its CPUs or it can be run
// again, whatever the runtime has done. All invariants hold then, and nothing is held at the end.
func (n *node) killedDuringAnAdmission(t *testing.T, commands ...string) {
	t.Helper()
	ctx := t.Context()
	n.must(t, "agent topology=restricted scope=pod")
	n.must(t, "run best", "app a")
	for i := range 4 {
		name := fmt.Sprintf("kill%d", i)
		answer := make(chan []string, 1)
		go func() {
			lines, err := n.cmdRun(ctx, command("run "+name+" cpu=1 memory=64Mi", "app own cpu=1 memory=64Mi"))
			if err != nil {
				lines = append(lines, "error: "+err.Error())
			}
			answer <- lines
		}()
		if err := pause(ctx, time.Duration(i)*400*time.Millisecond); err != nil {
			fail(t, "%v", err)
		}
		for _, c := range commands {
			n.must(t, c)
		}
		lines := <-answer
		t.Logf("killed after %d ms: %q", i*400, lines)
		if slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "rejected") || strings.HasPrefix(l, "error") }) {
			n.must(t, "stop-pod "+name)
			n.must(t, "run "+name)
		}
		n.must(t, "settle")
	}
	// The runtime can end a pod while the agent is not connected. With best in the kubelet's list, the
	// agent learns of that from the list. Such a list also shows which kubelet process had best.
	n.must(t, "remove kill0 kill1 kill2 kill3")
	n.must(t, "settle")
	n.onlyAssigned(t, absence.Grace, "best")
	n.must(t, "remove best")
	n.must(t, "settle")
	n.nothingHeld(t)
}

// createdDuringAReconnect starts the agent again while containers are created all the time: pods that
// share CPUs, beside one with CPUs of its own. Wherever a container was when the agent came back, it
// ends on its CPUs.
func createdDuringAReconnect(t *testing.T, n *node) {
	ctx := t.Context()
	n.must(t, "agent topology=restricted scope=pod")
	n.must(t, "run own cpu=2 memory=64Mi", "app own cpu=2 memory=64Mi")
	const pods = 8
	created := make(chan struct{})
	go func() {
		defer close(created)
		for i := range pods {
			lines, err := n.cmdRun(ctx, command(fmt.Sprintf("run shares%d", i), "app a"))
			t.Logf("shares%d: %q, %v", i, lines, err)
		}
	}()
	for during := true; during; {
		n.must(t, "agent-stop KILL")
		n.must(t, "agent-start")
		select {
		case <-created:
			during = false
		default:
		}
	}
	n.must(t, "settle")
	for i := range pods {
		n.must(t, fmt.Sprintf("remove shares%d", i))
	}
	n.must(t, "remove own")
	n.must(t, "settle")
	n.nothingHeld(t)
}

// cmdVerify gives the agent some time: the agent reports a repair only when it has seen the result
// in the cgroups.
func (n *node) cmdVerify(ctx context.Context, _ scenario.Command) ([]string, error) {
	for end := time.Now().Add(patience); ; {
		lines, err := n.verify(ctx, standInPods)
		if err != nil || time.Now().After(end) || !strings.Contains(strings.Join(lines, "\n"), "the PodResources API does not report it") {
			return lines, err
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// verify runs paddock verify, which asks the kubelet at url.
func (n *node) verify(ctx context.Context, url string) ([]string, error) {
	argv := []string{
		"/in/paddock", "verify", "--kubelet-config", kubeletFile, "--state", stateFile, "--kubelet-url", url, "--podresources-socket", podResSocket,
	}
	ended, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpExec, wire.Exec{Timeout: patience, Argv: append(argv, n.quotaFlag()...)})
	if err != nil {
		return nil, err
	}
	text := throttledOnce.ReplaceAllString(strings.TrimSpace(ended.Stdout+ended.Stderr), "")
	text = ofPeriods.ReplaceAllString(text, " in … periods")
	return append(strings.Split(text, "\n"), fmt.Sprintf("exit %d", ended.Code)), nil
}

// The number of periods differs from run to run. On a busy host, the quota that the kubelet writes
// when it creates a pod throttles the pod before the quota is removed. The command busy checks
// whether containers are throttled later.
var (
	ofPeriods     = regexp.MustCompile(` in [0-9]+ of [0-9]+ periods`)
	throttledOnce = regexp.MustCompile(`(?m)^note: .*: throttled in [0-9]+ of [0-9]+ periods.*\n`)
)

func (n *node) cmdTamper(ctx context.Context, c scenario.Command) ([]string, error) {
	pod, name, err := n.known(c.Args)
	if err != nil || len(c.Args) != 3 {
		return nil, fmt.Errorf("want POD[/CONTAINER] FILE VALUE: %w", err)
	}
	o, err := n.observe(ctx)
	if err != nil {
		return nil, err
	}
	dir := ""
	for _, p := range o.Pods {
		if p.UID == string(pod.UID) {
			dir = "/sys/fs/cgroup" + p.Path
		}
	}
	if name != "" {
		running := containersOf(o, string(pod.UID))
		i := slices.IndexFunc(running, func(seen wire.Container) bool { return seen.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s does not run", c.Args[0])
		}
		dir = "/sys/fs/cgroup" + running[i].Path
	}
	_, err = vm.Do[wire.Nothing](ctx, n.vm, wire.OpWrite, wire.File{Path: dir + "/" + c.Args[1], Data: []byte(c.Args[2])})
	return nil, err
}

// nothingHeld waits until the agent has no assignments. If the connection to the kubelet broke
// since it last listed the last pod of the node, the lists after that are empty and prove nothing:
// the pod is gone after absence.Unheard. That happens on a busy host.
func (n *node) nothingHeld(t *testing.T) {
	t.Helper()
	n.onlyAssigned(t, absence.Unheard)
}

// onlyAssigned waits until the agent has assignments of these pods alone. A pod that shares all its
// CPUs has one, too: it is empty. If the agent has others after this time and patience, the test
// fails.
func (n *node) onlyAssigned(t *testing.T, within time.Duration, pods ...string) {
	t.Helper()
	deadline := time.Now().Add(within + patience)
	for {
		assigned, err := n.assigned(t.Context())
		if err != nil {
			fail(t, "%v", err)
		}
		others := slices.DeleteFunc(assigned, func(a wire.Assigned) bool { return slices.Contains(pods, a.Pod) })
		if len(others) == 0 {
			return
		}
		if time.Now().After(deadline) {
			fail(t, "still assigned: %+v", others)
		}
		if err := pause(t.Context(), time.Second); err != nil {
			fail(t, "%v", err)
		}
	}
}

// command returns a command of a scenario.
func command(first string, input ...string) scenario.Command {
	words := strings.Fields(first)
	return scenario.Command{Name: words[0], Args: words[1:], Input: input}
}

// must carries out a command that may not fail, and checks the invariants.
func (n *node) must(t *testing.T, first string, input ...string) []string {
	t.Helper()
	lines := n.answer(t.Context(), command(first, input...))
	for _, line := range lines {
		if strings.HasPrefix(line, "error") || strings.HasPrefix(line, "rejected") {
			fail(t, "%s: %s", first, strings.Join(lines, "\n"))
		}
	}
	return lines
}
