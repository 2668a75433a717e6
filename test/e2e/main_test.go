package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/paddock-project/paddock/test/e2e/hooks"
	"github.com/paddock-project/paddock/test/e2e/parts"
	"github.com/paddock-project/paddock/test/e2e/vm"
)

var (
	rewrite    = flag.Bool("rewrite", false, "write the answers into the scenarios, and read the difference")
	keep       = flag.String("logs", "", "the directory for logs of runs that fail; a new one where nothing is said")
	kubelet    = flag.Bool("kubelet", os.Getenv("E2E_KUBELET") == "1", "also what needs a real kubelet; building it takes minutes, once")
	withCRIO   = flag.Bool("crio", os.Getenv("E2E_CRIO") == "1", "also what is tried with CRI-O; building it takes minutes, once")
	everywhere = flag.Bool("everywhere", false, "also what a policy alone decides, the long churn, the machine with five NUMA nodes, and every comparison with a real kubelet")
	runtimes   = flag.Bool("runtimes", false, "write a table of what several releases of container runtimes do; building them takes minutes, once")
	onlyRows   = flag.String("rows", "", "with -runtimes, the rows that are played, as a regular expression; the others stay as they are in the page")
	quiet      = flag.Bool("quiet", false, "also measure what interrupts exclusive CPUs, before and after paddock quiet; needs a second kernel")
	benefit    = flag.Bool("benefit", false, "print what policies do for a program beside noisy neighbours")
)

// limit is the time limit of all tests, and half of that with all container runtimes. It only ends
// tests that hang. On a slow day, a run without cached parts takes half of it.
const limit = 55 * time.Minute

// kernels returns the kernels of the machines that are used.
func kernels() []string {
	if *quiet {
		return []string{parts.Stable, parts.Moves}
	}
	return []string{parts.Stable}
}

// world is what the machines share.
var world struct {
	work  string
	parts func() (*parts.Parts, error)
	hooks hooks.Hooks
	// failures has the messages by test.
	failures failures
}

func TestMain(m *testing.M) {
	flag.Parse()
	most := limit
	if *runtimes {
		most *= 2
	}
	time.AfterFunc(most, func() {
		fmt.Fprintln(os.Stderr, "the end-to-end tests run for", most)
		os.Exit(3)
	})
	work, err := os.MkdirTemp("", "paddock-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	world.work, world.parts = work, sync.OnceValues(findParts)
	code := m.Run()
	if err := world.hooks.Print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	fmt.Print(&world.failures)
	if err := os.RemoveAll(work); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func findParts() (*parts.Parts, error) {
	source, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	return parts.Find(context.Background(), parts.Options{
		Source: source, Work: world.work, Kernels: kernels(), Kubelet: *kubelet, CRIO: *withCRIO || *runtimes, Containerds: containerds(),
		Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "e2e: "+format+"\n", args...) },
	})
}

// machine is a machine of testdata/machines with the node that runs on it. It belongs to one test.
type machine struct {
	// name is the name of the directory of its scenarios.
	name, description string
	// runtime is that of its node.
	runtime string
	// containerd is the version of containerd, if it is not that of the root disk.
	containerd string
	node       *node
}

// open prepares a machine for a test. The machine is booted when it is first needed, and ends with
// the test. The test runs in parallel with others, and is skipped if machines are not available.
func open(t *testing.T, name, description string) *machine {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("machines are not booted in a short run")
	}
	_, err := world.parts()
	if errors.Is(err, parts.ErrUnavailable) {
		if err := parts.Lack("virtual-machines"); err != nil {
			t.Fatal(err)
		}
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		fail(t, "%v", err)
	}
	m := &machine{name: name, description: description, runtime: containerd}
	t.Cleanup(func() {
		if err := m.shut(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// ready returns the node with its runtime and nothing else running. A machine that went down is
// booted again.
func (m *machine) ready(t *testing.T) *node {
	t.Helper()
	if m.node != nil && m.node.vm.Down() {
		m.node = nil
	}
	if m.node == nil {
		if err := m.boot(); err != nil {
			fail(t, "%v", err)
		}
	}
	err := m.node.reset(t.Context())
	if err != nil && *runtimes { // Some releases leave processes behind: see leavesNothing.
		t.Logf("once more on a new machine: %v", err)
		if err = errors.Join(m.shut(), m.boot()); err == nil {
			err = m.node.reset(t.Context())
		}
	}
	if err != nil {
		fail(t, "%v", err)
	}
	return m.node
}

func (m *machine) boot() error {
	p, err := world.parts()
	if err != nil {
		return err
	}
	description, err := vm.ReadMachine(filepath.Join("testdata", "machines", m.description+".json"))
	if err != nil {
		return err
	}
	switch {
	case m.runtime == crio:
		p = p.WithCRIO()
	case m.containerd != "":
		p = p.WithContainerd(m.containerd)
	}
	begin := time.Now()
	// The context of one test is not used, because the machine outlives it.
	if m.node, err = newNode(context.Background(), description, p, filepath.Join(world.work, m.name)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "e2e: %s with %s is up after %.1f s\n", m.name, m.runtime, time.Since(begin).Seconds())
	return nil
}

func (m *machine) shut() error {
	if m.node == nil {
		return nil
	}
	m.node.collectHooks()
	return m.node.vm.Kill()
}

// run plays something on the machine in a subtest, and reports whether that passed. Logs are kept if
// it fails.
func (m *machine) run(t *testing.T, name string, play func(*testing.T, *node)) bool {
	t.Helper()
	return t.Run(name, func(t *testing.T) {
		n := m.ready(t)
		t.Cleanup(func() {
			if t.Failed() {
				n.saveLogs(t)
			}
		})
		play(t, n)
	})
}
