package silencer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/kernelsettings"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/fakekernel"
)

// childOf is the environment variable that makes the test program a process of paddock quiet, with
// the kernel and the containers of a directory.
const childOf = "PADDOCK_QUIET_CHILD_OF"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childOf); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child runs until it is killed.
func child(dir string) error {
	var c Config
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return err
	}
	kernel, err := rpc.Dial("unix", filepath.Join(dir, "kernel.sock"))
	if err != nil {
		return err
	}
	s, err := New(c, World{
		Disk: store.OS(), Now: time.Now, After: func(time.Duration) <-chan time.Time { return time.After(time.Millisecond) },
		Files: kernelsettings.FS{
			Root: c.Root, Put: func(name, text string) error { return kernel.Call("Kernel.Write", [2]string{name, text}, &struct{}{}) },
			Dir: func(name string, there bool) error {
				return kernel.Call("Kernel.Dir", Directory{name, there}, &struct{}{})
			},
		},
		Ban: func(string, cpuset.Set) (bool, error) { return false, nil },
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	s.follow = &listed{file: filepath.Join(dir, "containers.json")}
	return s.Run(context.Background()) //nolint:forbidigo // It is killed.
}

// listed shows the containers of a file.
type listed struct {
	fixed

	file string
}

// showing is the content of the file.
type showing struct {
	List   []shown
	Caches *podres.Caches
}

// shown is a container in the file.
type shown struct {
	Name, Cgroup, CPUs, Governor string
}

func (l *listed) Containers(context.Context, []kernelfiles.Cgroup) (all []quiet.Container, err error) {
	var file showing
	data, err := os.ReadFile(l.file)
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	l.caches = file.Caches
	for _, c := range file.List {
		cpus, err := cpuset.Parse(c.CPUs)
		if err != nil {
			return nil, err
		}
		all = append(all, quiet.Container{
			Namespace: "prod", Pod: c.Name, Name: "main", Assigned: cpus, Runs: cpus, Cgroup: c.Cgroup, Annotations: map[string]string{quiet.AskGovernor: c.Governor},
		})
	}
	return all, err
}

// server serves the writes of a fake kernel.
type server struct{ kernel *fakekernel.Kernel }

// Write writes a text to a file.
func (s *server) Write(args [2]string, _ *struct{}) error { return s.kernel.Write(args[0], args[1]) }

// Directory is a directory to make or to remove.
type Directory struct {
	Name  string
	There bool
}

// Dir makes or removes a directory.
func (s *server) Dir(args Directory, _ *struct{}) error { return s.kernel.Dir(args.Name, args.There) }

// TestKill kills real processes with SIGKILL at random moments, while pods come, are resized and
// go. After each next start, every file is what the function says. After the release, it is what it
// was before the first start.
func TestKill(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"}, everything())
	dir := t.TempDir()
	r.disk, r.config.State = store.OS(), filepath.Join(dir, "state", "quiet.json")
	connections := serve(t, r.kernel, filepath.Join(dir, "kernel.sock"))
	kill := func(process *exec.Cmd) {
		must(t, process.Process.Kill())
		_ = process.Wait() // It was killed.
		connections.Wait() // A system call has ended when its process has.
	}
	data, err := json.Marshal(r.config)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600))
	chance := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // The same history every time.
	names := 0
	change := func() {
		switch list := r.source.list; {
		case len(list) < 2 || len(list) < 5 && chance.IntN(2) == 0:
			names++
			if free := r.free(); free.Len() > 2 {
				r.pod(fmt.Sprintf("pod-%d", names), cpuset.Of(free.Lowest()), map[string]string{quiet.AskGovernor: []string{"performance", "powersave"}[chance.IntN(2)]})
			}
		case chance.IntN(2) == 0:
			r.resize(list[0].Pod, cpuset.Of(r.free().Lowest()))
		default:
			r.end(list[chance.IntN(len(list))].Pod)
		}
		r.show(dir)
	}
	r.show(dir)
	for i := range *kills {
		process := startChild(t, dir)
		for range 1 + chance.IntN(3) {
			change()
			time.Sleep(time.Duration(chance.IntN(30)) * time.Millisecond) //nolint:forbidigo // The moment of the kill is any.
		}
		kill(process)
		change()
		process = startChild(t, dir)
		r.becomesQuiet(i)
		kill(process)
	}
	r.release()
	r.wantBefore()
}

// free returns the CPUs that no pod has, without CPU 0.
func (r *rig) free() cpuset.Set {
	var left cpuset.Builder
	for cpu := 1; cpu < 16; cpu++ {
		left.Add(cpu)
	}
	free := left.Set()
	for i := range r.source.list {
		free = free.Difference(r.source.list[i].Assigned)
	}
	return free
}

// show writes the containers to the file that the child reads.
func (r *rig) show(dir string) {
	r.t.Helper()
	list := []shown{}
	for i := range r.source.list {
		c := &r.source.list[i]
		list = append(list, shown{c.Pod, c.Cgroup, c.Assigned.String(), c.Annotations[quiet.AskGovernor]})
	}
	data, err := json.Marshal(showing{list, r.source.caches})
	must(r.t, err)
	name := filepath.Join(dir, "containers.json")
	must(r.t, os.WriteFile(name+".new", data, 0o600))
	must(r.t, os.Rename(name+".new", name))
}

// becomesQuiet waits until every file is what the function says.
func (r *rig) becomesQuiet(kill int) {
	r.t.Helper()
	var found []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // Another process has no event for it.
		if found = r.differences(); len(found) == 0 {
			return
		}
	}
	r.t.Fatalf("after kill %d:\n%q", kill, found)
}

func startChild(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childOf+"="+dir)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	return cmd
}

// open counts connections that have not ended. A [sync.WaitGroup] must not be waited for while the
// first one begins.
type open struct {
	mu    sync.Mutex
	ended *sync.Cond
	count int
}

func (o *open) add(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count += n
	o.ended.Broadcast()
}

// Wait waits until no connection is open.
func (o *open) Wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.count > 0 {
		o.ended.Wait()
	}
}

// serve serves the writes of a kernel. The connections are those that have not ended.
func serve(t *testing.T, k *fakekernel.Kernel, socket string) (connections *open) {
	t.Helper()
	s := rpc.NewServer()
	must(t, s.RegisterName("Kernel", &server{k}))
	l, err := net.Listen("unix", socket)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	connections = &open{}
	connections.ended = sync.NewCond(&connections.mu)
	go func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				connections.add(1)
				go func() {
					defer connections.add(-1)
					s.ServeConn(conn)
				}()
			}
		}
	}()
	return connections
}
