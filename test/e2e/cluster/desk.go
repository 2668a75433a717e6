package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// command is a command that the shell of a page has in addition to those of this machine.
type command func(ctx context.Context, n *node, words []string, stdin []byte) (wire.Ended, error)

var commands = map[string]command{
	"ssh": ssh, "cpus": cpus, "watch": begin, "watched": watched, "devices": devices, "sample": sample, "sampled": sampled,
	"changed": changed, "numa": numa, "answers": answers, "hold": hold, "held": held, "release": release, "scheduler": scheduler,
	"observed": observed, "clock": clock, "before": before, "after": after,
}

// serveDesk answers the program ssh until the listener is closed.
func serveDesk(ctx context.Context, l net.Listener, n *node) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			var question wire.Exec
			if json.NewDecoder(conn).Decode(&question) != nil || len(question.Argv) == 0 {
				return
			}
			ended, err := commands[question.Argv[0]](ctx, n, question.Argv[1:], question.Stdin)
			if err != nil {
				ended.Code, ended.Stderr = max(ended.Code, 1), ended.Stderr+err.Error()+"\n"
			}
			_ = json.NewEncoder(conn).Encode(ended) // The client is gone, or has the answer.
		}()
	}
}

// ssh runs a command on the node. The program ssh passes no input if the first word is -n.
func ssh(ctx context.Context, n *node, words []string, stdin []byte) (wire.Ended, error) {
	if len(words) > 0 && words[0] == "-n" {
		words = words[1:]
	}
	if len(words) < 2 || words[0] != nodeName {
		return wire.Ended{}, fmt.Errorf("usage: ssh %s COMMAND", nodeName)
	}
	line := strings.Join(words[1:], " ")
	if url, ok := strings.CutPrefix(line, "curl -s "); ok {
		answer, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpGet, wire.Get{URL: url})
		return wire.Ended{Stdout: answer.Stdout}, err
	}
	if handled, err := n.control(ctx, strings.Fields(line)); handled {
		return wire.Ended{}, err
	}
	return n.shell(ctx, line, stdin)
}

// scheduler starts bin/paddock-scheduler beside the kube-scheduler of the cluster, with the
// configuration of deploy/scheduler. It ends with the cluster.
func scheduler(ctx context.Context, n *node, _ []string, _ []byte) (wire.Ended, error) {
	top, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return wire.Ended{}, err
	}
	config, err := os.ReadFile(filepath.Join(top, "deploy", "scheduler", "config.yaml"))
	if err != nil {
		return wire.Ended{}, err
	}
	name := filepath.Join(n.plane.dir, "paddock-scheduler.yaml")
	if err := os.WriteFile(name, append(config, "clientConnection: {kubeconfig: "+n.plane.config+"}\n"...), 0o600); err != nil {
		return wire.Ended{}, err
	}
	return wire.Ended{}, n.plane.programs.Start(ctx, filepath.Join(top, "bin", "paddock-scheduler"), "--config", name, "--secure-port=0")
}

// cpus prints where containers run: the CPUs that the kernel allows to their processes, and the
// quota of their cgroup. Without words it prints all containers outside of the namespace paddock.
// Otherwise it prints those of the pods named NAMESPACE/POD, where POD may be a prefix of the name.
func cpus(ctx context.Context, n *node, words []string, _ []byte) (wire.Ended, error) {
	o, err := vm.Do[wire.Observation](ctx, n.vm, wire.OpObserve, wire.Nothing{})
	if err != nil {
		return wire.Ended{}, err
	}
	var lines []string
	for _, c := range o.Containers {
		if named(c.Pod, words) {
			quota, _, _ := strings.Cut(c.Files["cpu.max"], " ")
			lines = append(lines, fmt.Sprintf("%s %s  cpus %s  mems %s  quota %s\n", c.Pod, c.Name, c.AllowedCPUs, c.AllowedMems, quota))
		}
	}
	slices.Sort(lines)
	return wire.Ended{Stdout: strings.Join(lines, "")}, nil
}

func named(pod string, words []string) bool {
	if len(words) == 0 {
		return !strings.HasPrefix(pod, "paddock/")
	}
	return slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(pod, word) })
}

// begin starts to watch where containers run.
func begin(ctx context.Context, n *node, _ []string, _ []byte) (wire.Ended, error) {
	_, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpWatch, wire.Nothing{})
	return wire.Ended{}, err
}

// watched prints what happened, since the watch began, to the containers whose pods begin with one
// of the words. These containers must have exclusive CPUs. It prints one line per word with the
// number of containers, and whether all of them kept their CPUs exclusively. More lines follow if
// they did not: they name containers that moved, and other containers that could run on the same
// CPUs at the same time. The agent's own container is left out: if the NRI plugin is required, the
// container starts without it.
func watched(ctx context.Context, n *node, words []string, _ []byte) (wire.Ended, error) {
	w, err := vm.Do[wire.Watched](ctx, n.vm, wire.OpWatched, wire.Nothing{})
	if err != nil {
		return wire.Ended{}, err
	}
	if w.Looks < 10 {
		return wire.Ended{}, fmt.Errorf("the watch looked %d times only", w.Looks)
	}
	var out strings.Builder
	for _, word := range words {
		count, faults := 0, ""
		for _, c := range w.Containers {
			if strings.HasPrefix(c.Pod, word) {
				count++
				faults += moves(c) + intruders(c, w.Containers)
			}
		}
		if faults == "" {
			fmt.Fprintf(&out, "%s  %d containers, none moved or shared its CPUs\n", word, count)
		} else {
			fmt.Fprintf(&out, "%s  %d containers\n%s", word, count, faults)
		}
	}
	return wire.Ended{Stdout: out.String()}, nil
}

func moves(c wire.WatchedContainer) string {
	if len(c.Stays) == 1 {
		return ""
	}
	line := fmt.Sprintf("  %s %s moved:", c.Pod, c.Name)
	for _, s := range c.Stays {
		line += fmt.Sprintf(" %s (looks %d to %d)", s.CPUs, s.First, s.Last)
	}
	return line + "\n"
}

// lost is the number of looks for which a container that starts may have CPUs of another one.
// containerd 2.4.2 loses an update of a container that it is about to start: it changes the
// container's specification, which it has already handed to runc. The agent detects that in the
// cgroup, and repairs it within seconds.
const lost = 10

// intruders returns the containers that could run on the CPUs of c. A look takes some time, in
// which containers may start and end. Two looks in a row leave no doubt.
func intruders(c wire.WatchedContainer, all []wire.WatchedContainer) string {
	text := ""
	for _, other := range all {
		if other.ID == c.ID || strings.HasPrefix(other.Pod, "paddock/") {
			continue
		}
		for _, own := range c.Stays {
			for i, s := range other.Stays {
				first, last := max(own.First, s.First), min(own.Last, s.Last)
				repaired := i == 0 && len(other.Stays) > 1 && s.Last-s.First <= lost
				if last > first && overlap(own.CPUs, s.CPUs) && !repaired {
					text += fmt.Sprintf("  %s %s, on CPUs %s in looks %d to %d: %s %s had %s in looks %d to %d\n",
						c.Pod, c.Name, own.CPUs, own.First, own.Last, other.Pod, other.Name, s.CPUs, s.First, s.Last)
				}
			}
		}
	}
	return text
}

// overlap reports whether two lists of CPUs, as the kernel writes them, have a CPU in common.
func overlap(a, b string) bool {
	x, errX := cpuset.Parse(a)
	y, errY := cpuset.Parse(b)
	return errX != nil || errY != nil || x.Intersects(y)
}
