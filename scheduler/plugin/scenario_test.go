package plugin

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScenarios runs testdata/*.txt: a whole scheduler with the plugin, on a fake API.
//
//	config                        the arguments of the plugin, before anything else
//	node NAME [policy=P] [ready=false] [numa=N] [cpus=N] [allocatable=N] [whole-cores] [isolated=CPUS] [moves=N] [kubelet] [unmanaged]
//	                              a Node with N NUMA nodes (default 2) of N CPUs each (default 8), and a PaddockNode;
//	                              allocatable: CPUs for the requests of all pods, in place of twice those of the machine;
//	                              isolated: with the option isolated-cpus: only
//	pod NAME cpus=N [memory=N] [priority=N] [device] [claim=NAME] [moves=CONSENT] [pool=N [shared]] [on=NODE [hand=CPUS]]
//	                              a Guaranteed pod; on: another component binds it; hand: with a grant of these CPUs;
//	                              pool: of that many CPUs, which a second container shares; shared: isolated ones too
//	manage NODE                   the PaddockNode of a node that was unmanaged
//	slice NODE DEVICE=NUMA…       devices of a DRA driver, each near a NUMA node
//	claim NAME [devices=N]        a ResourceClaim for N devices (default 1)
//	publish NODE POD=CPUS…        what the agent published
//	agent NODE ready|not-ready    the pod of the agent
//	delete POD
//	await POD…                    the next outcome of each pod: it is bound, or the event of a failed attempt
//	attempts POD                  the number of outcomes that no await has read
//	state NODE                    what the scheduler knows of a node
//	admits NODE                   what an agent gives the pods of a node with the grants of the scheduler
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" {
			return // A failure file of rapid.
		}
		w := &world{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			return w.run(d)
		})
	})
}

func (w *world) run(d *datadriven.TestData) string {
	if d.Cmd == "config" {
		w.args = d.Input
		return ""
	}
	w.start()
	name, args := "", map[string]string{}
	for i, a := range d.CmdArgs {
		if i == 0 && len(a.Vals) == 0 {
			name = a.Key
			continue
		}
		args[a.Key] = strings.Join(a.Vals, ",")
	}
	switch d.Cmd {
	case "node":
		w.node(name, args)
	case "pod":
		w.pod(name, args)
	case "manage":
		w.manage(name, args)
	case "publish":
		w.publish(name, args)
	case "slice":
		w.slice(name, args)
	case "claim":
		w.claim(name, args)
	case "agent":
		_, ready := args["ready"]
		w.agent(name, ready)
	case "delete":
		w.delete(name)
	case "await":
		return w.await(append([]string{name}, keys(d)...)...)
	case "attempts":
		return fmt.Sprintln(w.attempts(name))
	case "admits":
		return w.admits(name)
	case "state":
		return w.state(name)
	default:
		d.Fatalf(w.t, "unknown command")
	}
	return ""
}

func keys(d *datadriven.TestData) []string {
	var list []string
	for _, a := range d.CmdArgs[1:] {
		list = append(list, a.Key)
	}
	return list
}

// await waits for the next outcome of each pod.
func (w *world) await(names ...string) string {
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintln(&out, w.outcome(name))
	}
	return out.String()
}
