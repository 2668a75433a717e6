package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// The machines run in parallel, as many as the host has CPUs. With one more, virtual CPUs would
// wait for each other, and all would end later. The load has its own machine, so that it ends no
// later than the others. On a host with two CPUs, a third machine would run alone: its scenarios
// are played if everywhere is set.

// byPolicy lists the scenarios in which only the decision of a policy differs, and which exercise
// nothing new in the kernel and the runtime. The recorded answers of the reference (make golden)
// have many more cases of every policy, without a machine.
var byPolicy = []string{
	"2numa/20-accounting", "2numa/30-container-scope", "2numa/40-policies", "2numa/50-full-cores",
	"5numa/10-pod-scope", "5numa/20-policies",
}

// long lists the scenarios that repeat a shorter one, and one that keeps all CPUs of its machine
// busy for minutes.
var long = []string{"2numa-load/25-long-churn", "2numa/75-quota"}

func TestTwoNUMANodes(t *testing.T) {
	m := open(t, "2numa", "2numa")
	m.scenarios(t)
	if *everywhere {
		m.besideKubelet(t, comparisons...)
	}
}

func TestFiveNUMANodes(t *testing.T) {
	if !*everywhere {
		t.Skip("five NUMA nodes are tried with -everywhere: make e2e-everywhere")
	}
	m := open(t, "5numa", "5numa")
	m.scenarios(t)
	m.besideKubelet(t, comparisons...)
}

func TestLoad(t *testing.T) {
	m := open(t, "2numa-load", "2numa")
	m.scenarios(t)
	m.run(t, "killed-during-an-admission", killedDuringAnAdmission)
	m.besideKubelet(t, sameRestricted)
}

// ofRuntime lists the scenarios whose answers depend on the runtime.
var ofRuntime = []string{
	"2numa/00-node", "2numa/10-pod-scope", "2numa/60-huge-pages", "2numa/70-hotplug",
	"2numa-load/10-restarts", "2numa-load/20-churn", "2numa-load/30-neighbours", "2numa-load/40-verify",
}

// TestCRIO tries CRI-O. CRI-O lists a container only after it has created it, and does not keep a
// plugin from registering meanwhile, so containers that are in creation then are tried every time.
// So is a container that stops slowly, which can block CRI-O.
// What else depends on the runtime is played if everywhere is set.
func TestCRIO(t *testing.T) {
	if !*withCRIO {
		t.Skip("CRI-O is tried with -crio: make e2e-crio")
	}
	m := open(t, "crio", "2numa")
	m.runtime = crio
	m.run(t, "created-during-a-reconnect", createdDuringAReconnect)
	m.run(t, "created-during-a-stop", createdDuringAStop)
	m.run(t, "killed-during-an-admission", killedDuringAnAdmission)
	m.run(t, "runtime-killed-during-an-admission", runtimeKilledDuringAnAdmission)
	if *everywhere {
		for _, name := range ofRuntime {
			m.scenario(t, filepath.Join("testdata", "scenarios", name+".txt"))
		}
	}
}

// scenarios plays the files of a machine, one after the other. It plays those of byPolicy and long
// only if everywhere is set.
func (m *machine) scenarios(t *testing.T) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "scenarios", m.name, "*.txt"))
	if err != nil {
		fail(t, "%v", err)
	}
	if len(names) == 0 {
		fail(t, "no scenarios of %s", m.name)
	}
	for _, name := range names {
		short := m.name + "/" + strings.TrimSuffix(filepath.Base(name), ".txt")
		if !*everywhere && slices.Contains(slices.Concat(byPolicy, long), short) {
			continue
		}
		m.scenario(t, name)
	}
}

// scenario plays a file.
func (m *machine) scenario(t *testing.T, name string) {
	t.Helper()
	m.run(t, strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T, n *node) {
		differs, blocks := m.playFile(t, n, name)
		if differs != "" {
			fail(t, "%s:%s", name, differs)
		}
		if *rewrite {
			writeScenario(t, name, blocks)
		}
	})
}

// playFile plays a file, once more if the machine went down. It returns the first difference, and
// the commands with their answers.
func (m *machine) playFile(t *testing.T, n *node, name string) (string, []scenario.Block) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		fail(t, "%v", err)
	}
	blocks, err := scenario.Parse(name, string(text))
	if err != nil {
		fail(t, "%v", err)
	}
	differs := n.play(t, blocks)
	if differs != "" && n.vm.Down() {
		// An emulator of several CPUs occasionally loses one. That is no fault of the agent.
		t.Logf("the machine went down: %s\nonce more on a new one", differs)
		differs = m.ready(t).play(t, blocks)
	}
	return differs, blocks
}

// play carries out the commands, puts the answers into the blocks, and returns the first
// difference.
func (n *node) play(t *testing.T, blocks []scenario.Block) string {
	t.Helper()
	for i := range blocks {
		b := &blocks[i]
		if b.Command.Name == "" {
			continue
		}
		want := *b
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		begin := time.Now()
		b.Answer = n.answer(ctx, b.Command)
		cancel()
		t.Logf("%5.1f s  line %d: %s %s", time.Since(begin).Seconds(), b.Line, b.Command.Name, strings.Join(b.Command.Args, " "))
		if b.String() != want.String() && !*rewrite {
			have := b.String()
			*b = want // It may be played again.
			return fmt.Sprintf("%d: want\n%s\nhave\n%s", b.Line, want.String(), have)
		}
	}
	return ""
}

func writeScenario(t *testing.T, name string, blocks []scenario.Block) {
	t.Helper()
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		texts[i] = b.String()
	}
	if err := os.WriteFile(name, []byte(strings.Join(texts, "\n")), 0o644); err != nil {
		fail(t, "%v", err)
	}
}
