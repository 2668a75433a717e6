package silencer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/kernelsettings"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
	"github.com/paddock-project/paddock/internal/testing/fakekernel"
)

// fixed is a source that shows the containers of a list.
type fixed struct {
	list   []quiet.Container
	caches *podres.Caches
	err    error
}

func (f *fixed) Containers(context.Context, []kernelfiles.Cgroup) ([]quiet.Container, error) {
	return f.list, f.err
}
func (f *fixed) classes() *podres.Caches   { return f.caches }
func (f *fixed) answered() []string        { return nil }
func (f *fixed) problems() []quiet.Problem { return nil }

// rig is a node with a fake kernel.
type rig struct {
	t      testing.TB
	kernel *fakekernel.Kernel
	disk   store.FS
	config Config
	source *fixed
	now    time.Time
	put    func(name, text string) error
	dir    func(name string, there bool) error
	s      *Silencer
	log    strings.Builder
	bans   []string
	// before has the settings before the first start.
	before map[string]string
	// division has the classes of pods, if there is resctrl, and count is how many pods there were.
	division division
	count    int
}

// everything is a policy that uses every setting for every container.
func everything() quiet.Policy {
	p := quiet.DefaultPolicy()
	p.Partition, p.CStates, p.Latency = quiet.Exclusive, quiet.Exclusive, 10
	p.Allow.Namespaces = []string{"prod"}
	return p
}

func newRig(t testing.TB, o fakekernel.Options, p quiet.Policy) *rig {
	t.Helper()
	k, err := fakekernel.New(t.TempDir(), o)
	must(t, err)
	for n := range 8 {
		managed := map[bool]error{true: syscall.EIO}[n == 7]
		must(t, k.AddInterrupt(24+n, managed))
	}
	must(t, k.AddDevice("eth0", 4))
	some := map[bool]string{true: "f", false: "ff"}[o.CPUs < 8]
	for i := range 4 {
		must(t, k.Write(fmt.Sprintf("sys/class/net/eth0/queues/rx-%d/rps_cpus", i), some))
	}
	must(t, k.Write(quiet.NewQueuesFile, some))
	c := DefaultConfig()
	c.Quiet, c.Root, c.State = p, k.Root(), "/state/quiet.json"
	r := &rig{t: t, kernel: k, disk: crashfs.New(), config: c, source: &fixed{}, now: time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC), put: k.Write, dir: k.Dir}
	r.division.init(t, o)
	r.before, err = k.Settings()
	must(t, err)
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) world() World {
	return World{
		Disk: r.disk, Files: kernelsettings.FS{Root: r.kernel.Root(), Put: func(name, text string) error { return r.put(name, text) }, Dir: func(name string, there bool) error { return r.dir(name, there) }},
		Now: func() time.Time { return r.now }, After: time.After, Environment: func(string) string { return "" },
		Ban: func(_ string, cpus cpuset.Set) (bool, error) {
			r.bans = append(r.bans, cpus.String())
			return true, nil
		},
	}
}

func (r *rig) logger() *slog.Logger { return slog.New(slog.NewTextHandler(&r.log, nil)) }

// start starts the process, without waiting for a source.
func (r *rig) start() {
	r.t.Helper()
	s, err := New(r.config, r.world(), r.logger())
	must(r.t, err)
	s.follow = r.source
	r.s = s
}

// rounds runs rounds, each after the interval.
func (r *rig) rounds(n int) {
	for range n {
		r.now = r.now.Add(time.Duration(r.config.Interval))
		r.s.Round(r.t.Context())
	}
}

func (r *rig) stop() {
	r.t.Helper()
	must(r.t, r.s.Close())
	r.s = nil
}

// pod adds a pod with one container, whose cgroup exists.
func (r *rig) pod(name string, cpus cpuset.Set, annotations map[string]string) *quiet.Container {
	r.t.Helper()
	r.count++
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", r.count)
	group := "/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-" + name + ".scope"
	must(r.t, r.kernel.AddCgroup(group, cpus))
	r.source.list = append(r.source.list, quiet.Container{
		Namespace: "prod", Pod: name, Name: "main", UID: uid, Assigned: cpus, Runs: cpus, Cgroup: group, Annotations: annotations,
	})
	must(r.t, r.kernel.AddThreads(group, 100*r.count, 100*r.count+1))
	r.divide()
	return &r.source.list[len(r.source.list)-1]
}

// end ends a pod: its cgroup goes, and the source no longer shows it.
func (r *rig) end(name string) {
	r.t.Helper()
	at := slices.IndexFunc(r.source.list, func(c quiet.Container) bool { return c.Pod == name })
	c := r.source.list[at]
	must(r.t, r.kernel.RemoveCgroup(c.Cgroup))
	r.source.list = slices.Delete(r.source.list, at, at+1)
	r.divide()
}

// release runs paddock quiet --release.
func (r *rig) release() {
	r.t.Helper()
	if _, left, err := Release(r.config, r.world(), r.logger()); err != nil || len(left) > 0 {
		r.t.Fatalf("release: %v, left %q", err, left)
	}
}

// wantQuiet checks that every file is what the pure function says, of what files had before.
func (r *rig) wantQuiet() {
	r.t.Helper()
	for _, text := range r.differences() {
		r.t.Error(text)
	}
}

// differences returns the files that are not what the pure function says.
func (r *rig) differences() (found []string) {
	r.t.Helper()
	settings, err := r.kernel.Settings()
	must(r.t, err)
	m, err := r.world().Files.Machine(&quiet.Machine{})
	must(r.t, err)
	base := map[string]string{}
	for name := range settings {
		before, had := r.before[name]
		if !had {
			before = map[quiet.Kind]string{quiet.Partition: "member"}[quiet.KindOf(name)]
		}
		base[name], err = quiet.KindOf(name).Value(before)
		must(r.t, err)
	}
	var caches *quiet.Caches
	if r.source.caches != nil {
		caches = &classesOf(r.source.caches, nil).caches
		for group := range caches.Groups {
			if name := quiet.ClassFile(group); settings[name] == "" {
				base[name], settings[name] = "", ""
			}
		}
		found = append(found, r.strayThreads()...)
	}
	wanted, _ := quiet.Want(&m, r.source.list, caches, &r.config.Quiet, base)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		now, err := quiet.KindOf(name).Value(settings[name])
		must(r.t, err)
		if now != wanted[name].Value && name != "proc/irq/31/smp_affinity_list" {
			found = append(found, fmt.Sprintf("%s: %q, want %q for %v", name, now, wanted[name].Value, wanted[name].For))
		}
	}
	return found
}

// wantBefore checks that every file is what it was before the first start.
func (r *rig) wantBefore() {
	r.t.Helper()
	now, err := r.kernel.Settings()
	must(r.t, err)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		kind := quiet.KindOf(name)
		want, had := r.before[name]
		if !had {
			want = map[quiet.Kind]string{quiet.Partition: "member"}[kind]
		}
		a, err := kind.Value(now[name])
		must(r.t, err)
		b, err := kind.Value(want)
		must(r.t, err)
		if a != b {
			r.t.Errorf("%s: %q after the release, %q before the first start", name, a, b)
		}
	}
}

func TestALife(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, everything())
	r.start()
	r.rounds(1)
	r.wantQuiet()
	r.pod("database", cpuset.Of(2, 3), map[string]string{quiet.AskGovernor: "performance", quiet.AskFrequency: "2400-3200"})
	r.rounds(1)
	r.wantQuiet()
	for name, want := range map[string]string{
		"proc/irq/24/smp_affinity_list": "0-1,4-7", quiet.NewInterruptsFile: "f3", quiet.WorkqueuesFile: "f3", quiet.NewQueuesFile: "f3",
		quiet.PartitionFile(r.source.list[0].Cgroup): "isolated", quiet.ExclusiveFile("/kubepods.slice"): "2-3", quiet.LatencyFile(2): "10",
		"sys/devices/system/cpu/cpufreq/policy3/scaling_governor": "performance", "sys/devices/system/cpu/cpufreq/policy3/scaling_min_freq": "2400000",
		"proc/irq/31/smp_affinity_list": "0-7", quiet.LatencyFile(4): "0",
	} {
		if got := r.kernel.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	r.pod("cache", cpuset.Of(4, 5), nil)
	r.rounds(2)
	r.wantQuiet()
	if n := strings.Count(r.log.String(), "proc/irq/31/"); n != 1 {
		t.Errorf("the managed interrupt was reported %d times, want once:\n%s", n, r.log.String())
	}
	r.end("database")
	r.rounds(1)
	r.wantQuiet()
	writes := r.s.counts.writes
	r.rounds(3)
	if r.s.counts.writes != writes {
		t.Errorf("%d writes although nothing changed", r.s.counts.writes-writes)
	}
	r.stop()
	r.release()
	r.wantBefore()
	if last := r.bans[len(r.bans)-1]; last != "" {
		t.Errorf("irqbalance bans %q after the release", last)
	}
}

// kills is how often a process is killed. All moments of TestEveryMoment are about 150.
var kills = flag.Int("kills", 6, "how often TestEveryMoment and TestKill kill the process")

// TestEveryMoment kills the process at its writes, before the kernel has carried one out or after
// it, while pods come, are resized and go, and while everything is given back. Some of the next
// processes are killed too, after another change. The one after these makes every file what the
// function says, and a release makes it what it was before.
func TestEveryMoment(t *testing.T) {
	writes := playedWith(t, 0, 0, false)
	for i := range min(*kills, writes) {
		playedWith(t, 1+i*writes/min(*kills, writes), i%6, i%2 == 0)
	}
}

// errKilled ends a process at once.
var errKilled = errors.New("killed")

// playedWith plays a history that is killed at the n-th write, and again at the m-th one after
// that, and returns how many there were. If whole is set, the kernel has carried out these writes.
func playedWith(t *testing.T, n, m int, whole bool) (writes int) {
	t.Helper()
	r := newRig(t, fakekernel.Options{CPUs: 8, Resctrl: "xeon-cdp"}, everything())
	disk := crashfs.New()
	r.disk = disk
	count := 0
	kill := func(change func() error) error {
		if count++; count != n && (count != n+m || m == 0) {
			return change()
		}
		if whole {
			_ = change() // The kernel may reject it.
		}
		panic(errKilled)
	}
	r.put = func(name, text string) error { return kill(func() error { return r.kernel.Write(name, text) }) }
	r.dir = func(name string, there bool) error { return kill(func() error { return r.kernel.Dir(name, there) }) }
	governor := map[string]string{quiet.AskGovernor: "performance"}
	r.start()
	for i, step := range []func(){
		func() { r.pod("database", cpuset.Of(2, 3), governor) },
		func() { r.pod("cache", cpuset.Of(4), nil) },
		func() { r.resize("cache", cpuset.Of(5)) },
		func() { r.resize("database", cpuset.Of(2, 3, 4)) },
		func() { r.end("database") },
		func() { r.pod("web", cpuset.Of(2), nil) },
		func() { r.end("cache") },
	} {
		step()
		alive := r.survives(func() { r.rounds(1) })
		if !alive {
			disk.Kill()
			r.start()
		}
		if alive || count < n+m { // The next step comes before the second kill.
			continue
		}
		r.rounds(2)
		r.wantQuiet()
		if t.Failed() {
			t.Fatalf("killed at writes %d and %d (carried out: %v), in step %d", n, n+m, whole, i)
		}
	}
	r.survives(func() { r.rounds(1) })
	if disk.Kill(); count >= n+m {
		r.start()
		r.rounds(1)
		r.wantQuiet()
	}
	disk.Kill()
	for !r.survives(r.release) {
		disk.Kill()
	}
	r.wantBefore()
	if t.Failed() {
		t.Fatalf("after the release, killed at writes %d and %d (carried out: %v)", n, n+m, whole)
	}
	return count
}

// survives reports whether the process was not killed in a step.
func (r *rig) survives(step func()) (survived bool) {
	defer func() {
		if cause := recover(); cause != nil && cause != errKilled { //nolint:errorlint // It is the value that was thrown.
			panic(cause)
		}
	}()
	step()
	return true
}

// resize gives a container other CPUs, as a runtime does.
func (r *rig) resize(name string, cpus cpuset.Set) {
	r.t.Helper()
	at := slices.IndexFunc(r.source.list, func(c quiet.Container) bool { return c.Pod == name })
	must(r.t, r.kernel.SetCPUs(r.source.list[at].Cgroup, cpus))
	r.source.list[at].Assigned, r.source.list[at].Runs = cpus, cpus
	r.divide()
}
