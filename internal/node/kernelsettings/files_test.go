package kernelsettings_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/kernelsettings"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/testing/fakekernel"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLook reads every kind of file, and leaves out what is missing.
func TestLook(t *testing.T) {
	k, err := fakekernel.New(t.TempDir(), fakekernel.Options{CPUs: 4})
	must(t, err)
	must(t, k.AddInterrupt(5, nil))
	must(t, k.AddDevice("eth0", 2))
	must(t, k.AddCgroup("/kubepods/pod/c", cpuset.Of(2)))
	f := kernelsettings.FS{Root: k.Root()}
	must(t, os.WriteFile(filepath.Join(k.Root(), "sys/class/net/bonding_masters"), []byte("bond0"), 0o600))
	must(t, os.MkdirAll(filepath.Join(k.Root(), "proc/irq/8/smp_affinity_list"), 0o700)) // It cannot be read.
	found, unread := f.Look(&kernelsettings.Scope{
		Interrupts: true, Workqueues: true, Queues: true, CPUs: cpuset.Of(2, 9), Frequencies: []string{"policy2"}, Groups: []string{"/kubepods/pod/c"},
		Also: []string{"proc/irq/6/smp_affinity_list", "proc/irq/5/smp_affinity_list"},
	})
	want := map[string]string{
		"proc/irq/5/smp_affinity_list": "0-3", quiet.NewInterruptsFile: "0-3", quiet.WorkqueuesFile: "0-3", quiet.NewQueuesFile: "",
		"sys/class/net/eth0/queues/rx-0/rps_cpus": "", "sys/class/net/eth0/queues/rx-1/rps_cpus": "", quiet.LatencyFile(2): "0",
		quiet.FrequencyFile("policy2", quiet.Governor): "schedutil", quiet.FrequencyFile("policy2", quiet.MinFrequency): "800000", quiet.FrequencyFile("policy2", quiet.MaxFrequency): "3600000",
		quiet.PartitionFile("/kubepods/pod/c"): "member", quiet.ExclusiveFile("/kubepods/pod/c"): "", quiet.ExclusiveFile("/kubepods/pod"): "", quiet.ExclusiveFile("/kubepods"): "",
		"sys/class/net/lo/queues/rx-0/rps_cpus": "",
	}
	for name, value := range want {
		if got, has := found[name]; !has || got != value {
			t.Errorf("%s: %q, %v, want %q", name, got, has, value)
		}
	}
	if len(found) != len(want) {
		t.Errorf("%d files, want %d: %v", len(found), len(want), found)
	}
	if unread["proc/irq/8/smp_affinity_list"] == nil || len(unread) != 1 {
		t.Errorf("files that cannot be read: %v", unread)
	}
	m, err := f.Machine(&quiet.Machine{})
	must(t, err)
	if m.Online.String() != "0-3" || m.Siblings[2].String() != "2-3" || m.Frequencies["policy2"].String() != "2" {
		t.Errorf("%+v", m)
	}
	if _, err := (kernelsettings.FS{Root: t.TempDir()}).Machine(&quiet.Machine{}); err == nil || !strings.Contains(err.Error(), "no CPU is online") {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestWrite writes to real files, as to those of the kernel.
func TestWrite(t *testing.T) {
	root := t.TempDir()
	name := "proc/irq/5/smp_affinity_list"
	must(t, os.MkdirAll(filepath.Join(root, "proc/irq/5"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, name), []byte("0-3"), 0o600))
	f := kernelsettings.FS{Root: root}
	if r := f.Write(&quiet.Write{File: name, Value: "0", Text: "0"}); r.Err != nil || !strings.HasPrefix(r.Text, "0") {
		t.Errorf("%+v", r)
	}
	if r := f.Write(&quiet.Write{File: "proc/irq/6/smp_affinity_list", Value: "0", Text: "0"}); !r.Gone {
		t.Errorf("an interrupt that is gone: %+v", r)
	}
}

// TestManaged tells a managed interrupt from one that this user may not write.
func TestManaged(t *testing.T) {
	root := t.TempDir()
	for i, c := range []struct {
		mode os.FileMode
		err  error
		want bool
	}{{0o644, syscall.EIO, true}, {0o644, syscall.EPERM, true}, {0o444, syscall.EACCES, true}, {0o644, syscall.EACCES, false}, {0o644, syscall.EROFS, false}} {
		name := fmt.Sprintf("proc/irq/%d/smp_affinity_list", i)
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(root, name), []byte("0-3"), 0o600))
		must(t, os.Chmod(filepath.Join(root, name), c.mode))
		f := kernelsettings.FS{Root: root, Put: func(string, string) error { return c.err }}
		if r := f.Write(&quiet.Write{File: name, Value: "0", Text: "0"}); r.Managed != c.want {
			t.Errorf("mode %o, %v: %v", c.mode, c.err, r.Managed)
		}
	}
}

// TestEnvironmentIsNeverEmpty reads the environment file while it is written.
func TestEnvironmentIsNeverEmpty(t *testing.T) {
	const args = "IRQBALANCE_ARGS=--x\n"
	name := filepath.Join(t.TempDir(), "irqbalance")
	must(t, os.WriteFile(name, []byte(args), 0o600))
	f := kernelsettings.FS{Root: t.TempDir(), Balancer: name}
	done := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if data, err := os.ReadFile(name); err != nil || !strings.HasPrefix(string(data), args) {
				t.Errorf("%q, %v", data, err)
				return
			}
		}
	})
	for i := range 200 {
		list := []string{"2-3", "", "4-100,102-200"}[i%3]
		if r := f.Write(&quiet.Write{File: quiet.BalancerFile, Value: list, Text: list}); r.Err != nil || r.Now != list {
			t.Fatalf("%q: %+v", list, r)
		}
	}
	close(done)
	readers.Wait()
	if data, err := os.ReadFile(name); err != nil || !strings.HasPrefix(string(data), args) || strings.Contains(string(data), "\n\n") {
		t.Errorf("in the end %q, %v", data, err)
	}
	// A configuration that no longer names the file does not lose its record.
	f.Balancer = ""
	if found, unread := f.Look(&kernelsettings.Scope{Also: []string{quiet.BalancerFile}}); len(found) > 0 || unread[quiet.BalancerFile] == nil {
		t.Errorf("without its name: %v, %v", found, unread)
	}
}

// TestEnvironment changes one line of the environment file of irqbalance.
func TestEnvironment(t *testing.T) {
	name := filepath.Join(t.TempDir(), "irqbalance")
	f := kernelsettings.FS{Root: t.TempDir(), Balancer: name}
	for before, want := range map[string]string{
		"# a comment\nIRQBALANCE_ARGS=--x\n":                           "# a comment\nIRQBALANCE_ARGS=--x\nIRQBALANCE_BANNED_CPULIST=2-3\n",
		"IRQBALANCE_BANNED_CPULIST=\"7\"\nIRQBALANCE_ONESHOT=yes\n":    "IRQBALANCE_ONESHOT=yes\nIRQBALANCE_BANNED_CPULIST=2-3\n",
		"#IRQBALANCE_BANNED_CPULIST=5\n# IRQBALANCE_BANNED_CPULIST=\n": "#IRQBALANCE_BANNED_CPULIST=5\n# IRQBALANCE_BANNED_CPULIST=\nIRQBALANCE_BANNED_CPULIST=2-3\n",
		"": "IRQBALANCE_BANNED_CPULIST=2-3\n",
	} {
		must(t, os.WriteFile(name, []byte(before), 0o600))
		if r := f.Write(&quiet.Write{File: quiet.BalancerFile, Value: "2-3", Text: "2-3"}); r.Err != nil || r.Now != "2-3" {
			t.Errorf("%q: %+v", before, r)
		}
		got, err := os.ReadFile(name)
		must(t, err)
		if strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
			t.Errorf("%q becomes %q, want %q", before, got, want)
		}
		if r := f.Write(&quiet.Write{File: quiet.BalancerFile}); r.Err != nil || r.Now != "" {
			t.Errorf("%q, without a list: %+v", before, r)
		}
	}
}

// balancer is an irqbalance with a ban list.
type balancer struct {
	mu       sync.Mutex
	mask     string
	requests []string
}

func (b *balancer) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		data := make([]byte, 100)
		n, _ := conn.Read(data)
		b.mu.Lock()
		request := string(data[:n])
		b.requests = append(b.requests, request)
		if request == "setup" {
			_, _ = io.WriteString(conn, "SLEEP 10 BANNED "+b.mask)
		} else if strings.HasSuffix(request, " 2-3") {
			b.mask = "0000000c"
		}
		b.mu.Unlock()
		_ = conn.Close()
	}
}

// TestBan talks to irqbalance, and leaves one alone that has the list.
func TestBan(t *testing.T) {
	dir := t.TempDir()
	if found, err := kernelsettings.Ban(dir, cpuset.Of(2)); found || err != nil {
		t.Errorf("without irqbalance: %v, %v", found, err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "irqbalance7.sock"))
	must(t, err)
	b := &balancer{mask: "00000000"}
	done := make(chan struct{})
	go func() { defer close(done); b.serve(l) }()
	for range 2 {
		if found, err := kernelsettings.Ban(dir, cpuset.Of(2, 3)); !found || err != nil {
			t.Errorf("%v, %v", found, err)
		}
	}
	if _, err := kernelsettings.Ban(dir, cpuset.Set{}); err != nil {
		t.Error(err)
	}
	must(t, l.Close())
	<-done
	if got := strings.Join(b.requests, "; "); got != "setup; settings cpus 2-3; setup; setup; settings cpus NULL" {
		t.Errorf("requests %q", got)
	}
}
