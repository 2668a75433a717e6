package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// commands are the commands of scenarios. Answers never contain times.
var commands = map[string]func(*node, context.Context, scenario.Command) ([]string, error){
	// agent [settings]: starts the agent with a new configuration, without assignments
	"agent": (*node).cmdAgent,
	// agent-stop [KILL]; agent-start
	"agent-stop":  (*node).cmdAgentStop,
	"agent-start": (*node).cmdAgentStart,
	// runtime-restart [KILL]
	"runtime-restart": (*node).cmdRuntime,
	// kubelet-stop; kubelet-start: set whether /pods answers
	"kubelet-stop":  (*node).cmdKubelet,
	"kubelet-start": (*node).cmdKubelet,
	// run NAME [amounts], and its containers: runs a pod; without containers, a known pod again
	"run": (*node).cmdRun,
	// run-hidden: the same, but /pods does not list the pod
	"run-hidden": (*node).cmdRun,
	// remove NAME…: removes pods for good
	"remove": (*node).cmdRemove,
	// stop-pod NAME: removes the sandbox of a pod, which stays known
	"stop-pod": (*node).cmdStopPod,
	// restart POD/CONTAINER
	"restart": (*node).cmdRestart,
	// all: prints every running container
	"all": (*node).cmdAll,
	// settle: as all, when it has not changed for a while and every invariant is true
	"settle": (*node).cmdSettle,
	// limits NAME: prints the cgroup files that are not about CPUs
	"limits": (*node).cmdLimits,
	// burn POD/CONTAINER THREADS DURATION: reports whether the container was throttled
	"burn": (*node).cmdBurn,
	// busy POD DURATION CONTAINER=THREADS…: keeps all of them busy at once; reports whether the pod
	// and the containers were throttled
	"busy": (*node).cmdBusy,
	// debug POD/CONTAINER: adds an ephemeral container to a running pod
	"debug": (*node).cmdDebug,
	// resize POD/CONTAINER QUOTA: writes another quota as the kubelet does
	"resize": (*node).cmdResize,
	// huge POD/CONTAINER BYTES: touches huge pages; reports the NUMA nodes that they come from
	"huge": (*node).cmdHuge,
	// podresources: prints the answer of the API
	"podresources": (*node).cmdPodResources,
	// verify: prints the output of paddock verify
	"verify": (*node).cmdVerify,
	// tamper POD[/CONTAINER] FILE VALUE: writes a cgroup file without the agent
	"tamper": (*node).cmdTamper,
	// offline LIST; online LIST: take CPUs offline or online, and wait until the agent has noticed
	"offline": (*node).cmdHotplug,
	"online":  (*node).cmdHotplug,
	// churn N: runs and removes pods
	"churn": (*node).cmdChurn,
}

// answer carries out one command and checks the invariants.
func (n *node) answer(ctx context.Context, c scenario.Command) []string {
	f := commands[c.Name]
	if f == nil {
		return []string{"error: no such command"}
	}
	lines, err := f(n, ctx, c)
	if err != nil {
		return append(lines, strings.Split("error: "+strings.TrimSpace(err.Error()), "\n")...)
	}
	if len(lines) == 0 {
		lines = []string{"ok"}
	}
	broken := n.invariants(ctx)
	// The agent repairs what happened while it did not run shortly after it is back.
	for end := time.Now().Add(patience); comesBack[c.Name] && len(broken) > 0 && time.Now().Before(end); broken = n.invariants(ctx) {
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			break
		}
	}
	for _, b := range broken {
		lines = append(lines, "error: "+b)
	}
	return lines
}

// comesBack has the commands after which the agent has something to repair.
var comesBack = map[string]bool{"agent-start": true, "runtime-restart": true, "tamper": true, "offline": true, "online": true}

func (n *node) cmdAgent(ctx context.Context, c scenario.Command) ([]string, error) {
	s, err := parseSettings(c.Args)
	if err != nil {
		return nil, err
	}
	if err := n.reset(ctx); err != nil {
		return nil, err
	}
	n.settings = s
	if err := n.configure(ctx, s); err != nil {
		return nil, err
	}
	return nil, n.startAgent(ctx)
}

func (n *node) cmdAgentStop(ctx context.Context, c scenario.Command) ([]string, error) {
	n.collectHooks()
	n.running = false
	signal := syscall.SIGTERM
	if len(c.Args) > 0 && c.Args[0] == "KILL" {
		signal = syscall.SIGKILL
	}
	code, err := n.stop(ctx, "agent", signal)
	if signal == syscall.SIGTERM && err == nil && code != 0 {
		err = fmt.Errorf("the agent ended with %d", code)
	}
	return nil, err
}

func (n *node) cmdAgentStart(ctx context.Context, _ scenario.Command) ([]string, error) {
	return nil, n.startAgent(ctx)
}

func (n *node) cmdRuntime(ctx context.Context, c scenario.Command) ([]string, error) {
	signal := syscall.SIGTERM
	if len(c.Args) > 0 && c.Args[0] == "KILL" {
		signal = syscall.SIGKILL
	}
	if _, err := n.stop(ctx, n.runtime, signal); err != nil {
		return nil, err
	}
	if err := n.startRuntime(ctx); err != nil {
		return nil, err
	}
	// Wait, because a pod that starts before the agent is connected again would start unpinned.
	return nil, n.awaitAgent(ctx)
}

func (n *node) cmdKubelet(ctx context.Context, c scenario.Command) ([]string, error) {
	_, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpServe, wire.Serve{Away: c.Name == "kubelet-stop"})
	return nil, err
}

func (n *node) cmdRun(ctx context.Context, c scenario.Command) ([]string, error) {
	var pod *v1.Pod
	if len(c.Input) == 0 && len(c.Args) == 1 {
		pod = n.pods[c.Args[0]]
	}
	if pod == nil {
		var err error
		if pod, err = parsePod(c.Args, c.Input); err != nil {
			return nil, err
		}
		n.pods[pod.Name] = pod
	}
	return n.run(ctx, pod, c.Name == "run-hidden")
}

func (n *node) run(ctx context.Context, pod *v1.Pod, hidden bool) ([]string, error) {
	result, err := vm.Do[wire.RunResult](ctx, n.vm, wire.OpRun, wire.Run{Pod: pod, Hidden: hidden})
	for again := 0; again < 2 && err == nil && late(result.Sandbox); again++ {
		fmt.Fprintf(os.Stderr, "e2e: %s is tried again: %s\n", pod.Name, result.Sandbox)
		result, err = vm.Do[wire.RunResult](ctx, n.vm, wire.OpRun, wire.Run{Pod: pod, Hidden: hidden})
	}
	if err != nil {
		return nil, err
	}
	if result.Sandbox != "" {
		return rejection(result.Sandbox), nil
	}
	o, err := n.observe(ctx)
	if err != nil {
		return nil, err
	}
	seen := containersOf(o, string(pod.UID))
	for _, s := range result.Containers {
		if s.Error != "" {
			return append([]string{"container " + s.Name + " not started"}, rejection(s.Error)...), nil
		}
		if s.Seen != nil {
			seen = append(seen, *s.Seen)
		}
	}
	return containerLines(pod, seen), nil
}

// late reports whether an agent rejected a pod only because it ran out of time, e.g. because a
// shared host stopped for a second. A kubelet always tries again then. Scenarios check other
// rejections.
func late(rejection string) bool {
	return strings.Contains(rejection, "the kubelet tries again") &&
		(strings.Contains(rejection, "context deadline exceeded") || strings.Contains(rejection, "no time to ask again") ||
			strings.Contains(rejection, "has not confirmed the write in time"))
}

// known returns the pod of "NAME" and the container of "NAME/CONTAINER".
func (n *node) known(words []string) (pod *v1.Pod, container string, err error) {
	if len(words) == 0 {
		return nil, "", errors.New("expected a name")
	}
	name, container, _ := strings.Cut(words[0], "/")
	pod = n.pods[name]
	if pod == nil {
		return nil, "", fmt.Errorf("no pod %s", name)
	}
	return pod, container, nil
}

func (n *node) cmdRemove(ctx context.Context, c scenario.Command) ([]string, error) {
	var all sync.WaitGroup
	errs := make([]error, len(c.Args))
	for i := range c.Args {
		pod, _, err := n.known(c.Args[i:])
		if err != nil {
			return nil, err
		}
		delete(n.pods, pod.Name)
		all.Go(func() {
			_, errs[i] = vm.Do[wire.Nothing](ctx, n.vm, wire.OpRemove, wire.Remove{UID: string(pod.UID)})
		})
	}
	all.Wait()
	if *runtimes { // A row of its own says whether a release leaves processes behind.
		for i, err := range errs {
			if err != nil && strings.Contains(err.Error(), "device or resource busy") {
				n.left, errs[i] = append(n.left, err.Error()), nil
			}
		}
	}
	return nil, errors.Join(errs...)
}

func (n *node) cmdStopPod(ctx context.Context, c scenario.Command) ([]string, error) {
	pod, _, err := n.known(c.Args)
	if err != nil {
		return nil, err
	}
	_, err = vm.Do[wire.Nothing](ctx, n.vm, wire.OpStopPod, wire.PodName{UID: string(pod.UID)})
	return nil, err
}

func (n *node) cmdRestart(ctx context.Context, c scenario.Command) ([]string, error) {
	pod, name, err := n.known(c.Args)
	if err != nil {
		return nil, err
	}
	result, err := vm.Do[wire.RunResult](ctx, n.vm, wire.OpRestart, wire.ContainerName{UID: string(pod.UID), Name: name})
	if err != nil {
		return nil, err
	}
	if text := result.Containers[0].Error; text != "" {
		return append([]string{"container " + name + " not started"}, rejection(text)...), nil
	}
	o, err := n.observe(ctx)
	if err != nil {
		return nil, err
	}
	return containerLines(pod, containersOf(o, string(pod.UID))), nil
}

func (n *node) cmdAll(ctx context.Context, _ scenario.Command) ([]string, error) {
	o, err := n.observe(ctx)
	if err != nil {
		return nil, err
	}
	return n.renderAll(o), nil
}

// cmdSettle waits until the agent has made its own repairs, which takes a tick or two. With a
// runtime that takes no unsolicited updates, it takes up to 15 s until the runtime gets them.
func (n *node) cmdSettle(ctx context.Context, _ scenario.Command) ([]string, error) {
	deadline := time.Now().Add(patience)
	var before string
	since := time.Now()
	for {
		o, err := n.observe(ctx)
		if err != nil {
			return nil, err
		}
		waits, err := n.unsettled(ctx)
		if err != nil {
			return nil, err
		}
		lines := n.renderAll(o)
		broken := append(n.brokenIn(ctx, o), waits...)
		now := strings.Join(append(lines, broken...), "\n")
		if now != before {
			before, since = now, time.Now()
		}
		if time.Since(since) >= soon && len(broken) == 0 || time.Now().After(deadline) {
			return lines, nil // If an invariant is still broken, answer reports it.
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// unsettled returns the line of the agent's metrics about containers that are being changed, or wait
// for it, if there are any.
func (n *node) unsettled(ctx context.Context) ([]string, error) {
	if !n.running {
		return nil, nil
	}
	text, err := n.metrics(ctx)
	if err != nil {
		return nil, err
	}
	const name = "paddock_unsettled_containers "
	_, rest, found := strings.Cut(text, "\n"+name)
	value, _, _ := strings.Cut(rest, "\n")
	switch {
	case !found:
		return nil, fmt.Errorf("the agent's metrics have no %s", name)
	case value == "0":
		return nil, nil
	}
	return []string{name + value}, nil
}

// metrics returns the agent's metrics.
func (n *node) metrics(ctx context.Context) (string, error) {
	answer, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpGet, wire.Get{URL: metricsURL + "/metrics"})
	return answer.Stdout, err
}

// soon is how long the output must be the same: longer than the agent's period.
const soon = 600 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
