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

// rig is what the clusters of a run have in common. Its methods may be called by several at once.
type rig struct {
	parts *parts.Parts
	certs *control.Authority
	// dir is for the snapshots and the certificates.
	dir string
	// plugin is kubectl-paddock: a copy, since pages build bin/paddock.
	plugin string
	// machine is that of all nodes, but for its kernel.
	machine vm.Machine
	// snapshots are functions that make the snapshot of a name, once.
	snapshots map[string]func(context.Context) (*snapshot, error)
}

// snapshot is a cluster that was ended so that others, with the same certificates, can go on where
// it was: its machine in memory and disk, and the data of its etcd.
type snapshot struct {
	dir    string
	kernel string
}

func (s *snapshot) disk() string   { return filepath.Join(s.dir, "disk.img") }
func (s *snapshot) memory() string { return filepath.Join(s.dir, "memory") }
func (s *snapshot) etcd() string   { return filepath.Join(s.dir, "etcd") }

func snapshotPage(name string) string { return filepath.Join("testdata", "snapshots", name+".txt") }

// booting is what a page begins with that begins from a new node.
const booting = "boot "

// newRig makes what some pages need, and says what snapshots they begin from. It ends with the test.
func newRig(ctx context.Context, t *testing.T, names []string) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), snapshots: map[string]func(context.Context) (*snapshot, error){}}
	kernels, err := r.trace(names)
	if err != nil {
		t.Fatal(err)
	}
	r.parts = find(t, kernels)
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

// trace follows pages to what they begin from. It gives the kernels that they boot.
func (r *rig) trace(names []string) (kernels []string, err error) {
	for _, name := range names {
		for range 10 { // A page begins from no more snapshots than there are.
			p, err := readPage(name)
			if err != nil {
				return nil, err
			}
			if kernel, boots := strings.CutPrefix(p.from, booting); boots {
				kernels = append(kernels, kernel)
				break
			}
			name = snapshotPage(p.from)
			if _, known := r.snapshots[p.from]; !known {
				r.snapshots[p.from] = r.once(p.from)
			}
		}
	}
	slices.Sort(kernels)
	return slices.Compact(kernels), nil
}

// once is a function that makes a snapshot, the first time that it is called.
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

// play plays a page on a cluster, and makes a snapshot of it at the end if one is given. A page that
// failed because of the emulator is played once more.
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

// playOnce says apart from the error whether it is one of the emulator.
func (r *rig) playOnce(ctx context.Context, name string, p *page, save *snapshot) (fault, err error) {
	begin := time.Now()
	dir, err := os.MkdirTemp("", "e2e") // A socket's path must be short.
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

// begin starts the cluster that a page begins from. It gives the series of the kernel.
func (w *whole) begin(ctx context.Context, from string) (kernel string, err error) {
	kernel, boots := strings.CutPrefix(from, booting)
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
	n := &node{dir: filepath.Join(w.dir, "node"), plane: w.control, parts: w.rig.parts, machine: w.rig.machine, ids: map[string]string{}}
	n.machine.Kernel = kernel
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

// save ends the cluster and keeps what others begin from. The API server ends first, and the machine
// when its programs have noticed: they ask again at once then when they go on, where a connection
// that is gone without a word would keep them waiting.
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

// fault is why a page failed that says nothing of the agent; nil: there is no such reason. An
// emulator of several CPUs loses one now and then, or runs an instruction that the kernel is just
// changing, which then crashes, and an emulated network card stops sending.
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

// copySparse copies a file with holes, or a directory. The copy of a file system that can share
// blocks costs nothing.
func copySparse(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "-r", "--sparse=always", "--reflink=auto", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp %s %s: %w: %s", from, to, err, out)
	}
	return nil
}
