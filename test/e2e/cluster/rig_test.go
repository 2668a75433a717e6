package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paddock-project/paddock/test/e2e/control"
	"github.com/paddock-project/paddock/test/e2e/parts"
	"github.com/paddock-project/paddock/test/e2e/vm"
)

// rig is what the clusters of a run have in common. Its methods may be called concurrently.
type rig struct {
	parts *parts.Parts
	certs *control.Authority
	// dir is the directory of the snapshots and certificates.
	dir string
	// plugin is the path of kubectl-paddock. It is a copy, because pages build bin/paddock.
	plugin string
	// machine is the machine of all nodes, except for the kernel.
	machine vm.Machine
	// snapshots has, by name, functions that make a snapshot once and return it.
	snapshots map[string]func(context.Context) (*snapshot, error)
}

// snapshot is a cluster that was stopped so that other clusters with the same certificates can
// resume from it. It consists of the memory and the disk of the machine, and the data of its etcd.
type snapshot struct {
	dir    string
	kernel string
}

func (s *snapshot) disk() string   { return filepath.Join(s.dir, "disk.img") }
func (s *snapshot) memory() string { return filepath.Join(s.dir, "memory") }
func (s *snapshot) etcd() string   { return filepath.Join(s.dir, "etcd") }

func snapshotPage(name string) string { return filepath.Join("testdata", "snapshots", name+".txt") }

// booted returns the kernel and the container runtime of a page that starts from a new node. boots
// is false if the page starts from a snapshot.
func booted(from string) (kernel, runtime string, boots bool) {
	kernel, boots = strings.CutPrefix(from, "boot ")
	if own, is := strings.CutSuffix(kernel, " cri-o"); is {
		return own, crio, boots
	}
	return kernel, containerd, boots
}

// newRig prepares what the given pages need, including the snapshots that they start from. It is
// cleaned up with the test.
func newRig(ctx context.Context, t *testing.T, names []string) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), snapshots: map[string]func(context.Context) (*snapshot, error){}}
	wanted, err := r.trace(names)
	if err != nil {
		t.Fatal(err)
	}
	r.parts = find(t, wanted)
	if r.machine, err = vm.ReadMachine(filepath.Join("..", "testdata", "machines", "2numa-pci.json")); err != nil {
		t.Fatal(err)
	}
	if r.certs, err = newCerts(r.dir); err != nil {
		t.Fatal(err)
	}
	r.plugin = filepath.Join(r.dir, "kubectl-paddock")
	build := exec.CommandContext(ctx, "sh", "-c", `make build image && cp bin/paddock "$0"`, r.plugin)
	build.Dir, build.Env = filepath.Join("..", "..", ".."), surroundings()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make build image: %v\n%s", err, out)
	}
	return r
}

// needs is what pages need in addition to a node and a control plane.
type needs struct {
	kernels []string
	// helm is set if a command runs Helm, and before if one uses the manifests of parts.Before.
	helm, before bool
	// crio is set if a node has CRI-O.
	crio bool
}

// trace follows the pages to what they start from. It returns what they and their snapshots need.
func (r *rig) trace(names []string) (needs, error) {
	var n needs
	for _, name := range names {
		for range 10 { // The chain of snapshots is shorter than that.
			p, err := readPage(name)
			if err != nil {
				return needs{}, err
			}
			for _, b := range p.blocks {
				n.helm = n.helm || strings.Contains(b.command, "helm ")
				n.before = n.before || strings.Contains(b.command, "$BEFORE")
			}
			if kernel, runtime, boots := booted(p.from); boots {
				n.kernels, n.crio = append(n.kernels, kernel), n.crio || runtime == crio
				break
			}
			name = snapshotPage(p.from)
			if _, known := r.snapshots[p.from]; !known {
				r.snapshots[p.from] = r.once(p.from)
			}
		}
	}
	slices.Sort(n.kernels)
	n.kernels = slices.Compact(n.kernels)
	return n, nil
}

// once returns a function that makes a snapshot the first time that it is called.
func (r *rig) once(name string) func(context.Context) (*snapshot, error) {
	var mu sync.Mutex
	var made *snapshot
	var err error
	return func(ctx context.Context) (*snapshot, error) {
		mu.Lock()
		defer mu.Unlock()
		if made == nil && err == nil {
			made = &snapshot{dir: filepath.Join(r.dir, name)}
			if err = r.play(ctx, snapshotPage(name), made); err != nil {
				err = fmt.Errorf("the snapshot %s: %w", name, err)
			}
		}
		return made, err
	}
}

// play plays a page on a cluster. If save is not nil, it makes a snapshot of the cluster at the
// end. A page that failed because of the emulator is played once more.
func (r *rig) play(ctx context.Context, name string, save *snapshot) error {
	p, err := readPage(name)
	if err != nil {
		return err
	}
	for again := false; ; again = true {
		fault, err := r.playOnce(ctx, name, p, save)
		if fault == nil || again || ctx.Err() != nil {
			return err
		}
		say("%s: %v: once more on a new machine; the page: %v", filepath.Base(name), fault, err)
	}
}

// playOnce plays a page. It returns a fault of the emulator apart from other errors.
func (r *rig) playOnce(ctx context.Context, name string, p *page, save *snapshot) (fault, err error) {
	begin := time.Now()
	dir, err := os.MkdirTemp("", "e2e") // The path of a socket must be short.
	if err != nil {
		return nil, err
	}
	w := &whole{rig: r, dir: dir}
	defer func() { err = errors.Join(err, w.close()) }()
	begun, err := w.begin(ctx, p.from)
	if err == nil {
		say("%s begins from %s after %.0f s", filepath.Base(name), p.from, time.Since(begin).Seconds())
		err = w.play(ctx, name, p)
	}
	if err == nil && save != nil {
		save.kernel = begun
		err = w.save(ctx, save)
	}
	if err != nil {
		fault = w.fault(ctx, err)
		logs := filepath.Join(*keep, "cluster", strings.TrimSuffix(filepath.Base(name), ".txt"))
		if logsErr := w.saveLogs(logs); logsErr != nil {
			say("some logs of %s are missing: %v", filepath.Base(name), logsErr)
		}
		return fault, fmt.Errorf("%w\nlogs are in %s", err, logs)
	}
	say("%s took %.0f s", filepath.Base(name), time.Since(begin).Seconds())
	return nil, nil
}

// begin starts the cluster that a page starts from. It returns the series of the kernel.
func (w *whole) begin(ctx context.Context, from string) (kernel string, err error) {
	kernel, runtime, boots := booted(from)
	var s *snapshot
	if !boots {
		if s, err = w.rig.snapshots[from](ctx); err != nil {
			return "", err
		}
		kernel = s.kernel
		if err := copySparse(ctx, s.etcd(), filepath.Join(w.dir, "etcd")); err != nil {
			return "", err
		}
	}
	if w.control, err = startControl(ctx, w.rig.parts.Cluster, w.rig.certs, w.dir); err != nil {
		return "", err
	}
	n := &node{dir: filepath.Join(w.dir, "node"), plane: w.control, parts: w.rig.parts, machine: w.rig.machine, runtime: runtime, ids: map[string]string{}}
	n.machine.Kernel = kernel
	if runtime == crio {
		n.parts = n.parts.WithCRIO()
	}
	if err := os.Mkdir(n.dir, 0o755); err != nil {
		return "", err
	}
	if boots {
		err = n.boot(ctx)
	} else {
		err = n.goOn(ctx, s)
	}
	if n.vm != nil {
		w.node = n
	}
	if err != nil {
		return "", err
	}
	return kernel, w.openShell(ctx, w.rig.parts)
}

// save stops the cluster and keeps what other clusters resume from. It stops the API server first,
// and the machine when its programs have noticed that. So after the resume these programs connect
// again at once. Otherwise they would wait for connections that vanished silently.
func (w *whole) save(ctx context.Context, s *snapshot) error {
	begin := time.Now()
	if err := w.control.programs.Kill(w.control.apiServerPath); err != nil {
		return err
	}
	if err := w.node.awaitAlone(ctx); err != nil {
		return err
	}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return err
	}
	if err := w.node.vm.Save(ctx, s.memory()); err != nil {
		return err
	}
	err := errors.Join(w.control.stop(), os.Rename(w.node.disk(), s.disk()), os.Rename(filepath.Join(w.dir, "etcd"), s.etcd()))
	say("%s is saved after %.0f s", filepath.Base(s.dir), time.Since(begin).Seconds())
	return err
}

// fault returns why a page failed if the reason has nothing to do with the agent, or nil. An
// emulator of several CPUs occasionally loses one, or runs an instruction that the kernel is just
// changing and crashes it. An emulated network card occasionally stops sending.
func (w *whole) fault(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, vm.ErrDown), errors.Is(err, errNetwork):
		return err
	case w.node == nil || w.control == nil:
		return nil
	case w.node.vm.Down():
		return vm.ErrDown
	default:
		return w.node.reach(ctx)
	}
}

// copySparse copies a file with holes, or a directory. On a file system that can share blocks, the
// copy costs nothing.
func copySparse(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "-r", "--sparse=always", "--reflink=auto", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp %s %s: %w: %s", from, to, err, out)
	}
	return nil
}
