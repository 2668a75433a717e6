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

	"github.com/paddock-project/paddock/test/e2e/parts"
	"github.com/paddock-project/paddock/test/e2e/vm"
)

var (
	rewrite = flag.Bool("rewrite", false, "write the answers into the scenarios, and read the difference")
	keep    = flag.String("logs", "", "the directory for logs of runs that fail; a new one where nothing is said")
	kubelet = flag.Bool("kubelet", os.Getenv("E2E_KUBELET") == "1", "also what needs a real kubelet; building it takes minutes, once")
)

// limit is for everything: tests that hang end.
const limit = 40 * time.Minute

// world is what all tests share: the parts, and one machine at a time.
var world struct {
	sync.Mutex
	parts   *parts.Parts
	err     error
	tried   bool
	work    string
	machine string
	node    *node
	hooks   map[string]histogram
}

func TestMain(m *testing.M) {
	flag.Parse()
	time.AfterFunc(limit, func() {
		fmt.Fprintln(os.Stderr, "the end-to-end tests run for", limit)
		os.Exit(3)
	})
	work, err := os.MkdirTemp("", "paddock-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	world.work, world.hooks = work, map[string]histogram{}
	code := m.Run()
	if world.node != nil {
		world.node.collectHooks()
		if err := world.node.vm.Kill(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if err := printHooks(os.Stdout, world.hooks); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := os.RemoveAll(work); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// findParts skips the test where machines cannot be had.
func findParts(t *testing.T) *parts.Parts {
	t.Helper()
	if testing.Short() {
		t.Skip("machines are not booted in a short run")
	}
	if !world.tried {
		world.tried = true
		source, err := filepath.Abs(filepath.Join("..", ".."))
		if err != nil {
			t.Fatal(err)
		}
		world.parts, world.err = parts.Find(context.Background(), parts.Options{
			Source: source, Work: world.work, Kubelet: *kubelet,
			Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "e2e: "+format+"\n", args...) },
		})
	}
	if errors.Is(world.err, parts.ErrUnavailable) {
		t.Skipf("NOT TESTED: %v", world.err)
	}
	if world.err != nil {
		t.Fatal(world.err)
	}
	return world.parts
}

// boot returns the machine of that name, with containerd on it and nothing else.
func boot(t *testing.T, name string) *node {
	t.Helper()
	p := findParts(t)
	world.Lock()
	defer world.Unlock()
	if world.machine != name {
		if world.node != nil {
			world.node.collectHooks()
			if err := world.node.vm.Kill(); err != nil {
				t.Fatal(err)
			}
			world.node, world.machine = nil, ""
		}
		m, err := vm.ReadMachine(filepath.Join("testdata", "machines", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		n, err := newNode(context.Background(), m, p, filepath.Join(world.work, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(os.Stderr, "e2e: %s is up after %.1f s\n", name, time.Since(begin).Seconds())
		world.node, world.machine = n, name
	}
	n := world.node
	if err := n.reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			n.saveLogs(t)
		}
	})
	return n
}
