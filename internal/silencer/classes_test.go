package silencer

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/node/resctrl"
	"github.com/paddock-project/paddock/internal/testing/fakekernel"
)

// division divides the caches of a rig's machine as an agent does: each pod asks for two ways, and
// for 10 % of the memory bandwidth where there are percents.
type division struct {
	m     *machine.Machine
	usage cache.Usage
	has   map[string]cache.Class // by pod
}

// init makes the machine of a recorded one.
func (d *division) init(t testing.TB, o fakekernel.Options) {
	t.Helper()
	caches := map[string]machine.Caches{
		"xeon-cdp": {Classes: 8, Ways: 11, LeastWays: 1, HardwareWays: 0x600, CodeAndData: true, LeastBandwidth: 10, BandwidthStep: 10},
		"xeon-mba": {Classes: 8, Ways: 11, LeastWays: 1, HardwareWays: 0x600, LeastBandwidth: 10, BandwidthStep: 10},
		"epyc":     {Classes: 16, Ways: 16, LeastWays: 1, Sparse: true, AbsoluteBandwidth: true},
	}[o.Resctrl]
	ids := []int{0, 1}
	if o.Resctrl == "epyc" {
		ids = []int{0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23}
	}
	if caches.IsEmpty() {
		return
	}
	described := machine.NodeDescription{}
	for cpu := range o.CPUs {
		described.Cores = append(described.Cores, machine.CoreDescription{Threads: []int{cpu}, Uncore: ids[cpu*len(ids)/o.CPUs]})
	}
	var err error
	d.m, err = machine.New(machine.Description{Caches: caches, Nodes: []machine.NodeDescription{described}})
	must(t, err)
	d.usage, d.has = cache.NewUsage(d.m), map[string]cache.Class{}
}

// divide shows the classes of the pods.
func (r *rig) divide() {
	r.t.Helper()
	d := &r.division
	if d.m == nil {
		return
	}
	shown := &podres.Caches{Rules: d.m.Caches()}
	for name, class := range d.has {
		if !slices.ContainsFunc(r.source.list, func(c quiet.Container) bool { return c.Pod == name }) {
			d.usage = d.usage.Return(class)
			delete(d.has, name)
		}
	}
	for i := range r.source.list {
		c := &r.source.list[i]
		want := cache.Want{Ways: 2}
		if d.m.Caches().DividesBandwidth() {
			want.Bandwidth = 10
		}
		rest := d.usage.Return(d.has[c.Pod])
		class := rest.Extend([]cache.Want{want}, []cache.Class{d.has[c.Pod]}).Class(0, c.Assigned)
		next, err := rest.Take(class)
		must(r.t, err)
		d.usage, d.has[c.Pod] = next, class
		shown.Containers = append(shown.Containers, podres.ContainerClass{
			Namespace: c.Namespace, Pod: c.Pod, UID: c.UID, Container: c.Name, Group: resctrl.ContainerName(c.UID, c.Name), Class: class, CPUs: c.Runs,
		})
	}
	shown.Rest = d.usage.Rest()
	r.source.caches = shown
}

// strayThreads returns the threads that are not in the group of their container.
func (r *rig) strayThreads() (found []string) {
	for i := range r.source.list {
		c := &r.source.list[i]
		if len(r.division.has[c.Pod]) == 0 {
			continue // The caches had no room for a class.
		}
		in := strings.Fields(r.kernel.Get("sys/fs/resctrl/" + resctrl.ContainerName(c.UID, c.Name) + "/tasks"))
		for _, thread := range strings.Fields(r.kernel.Get(quiet.Cgroups + c.Cgroup + "/cgroup.threads")) {
			if !slices.Contains(in, thread) {
				found = append(found, fmt.Sprintf("thread %s of %s is not among %v", thread, c.Pod, in))
			}
		}
	}
	return found
}

// group returns the file of a pod's group.
func (r *rig) group(pod string) string {
	at := slices.IndexFunc(r.source.list, func(c quiet.Container) bool { return c.Pod == pod })
	return quiet.ClassFile(resctrl.ContainerName(r.source.list[at].UID, "main"))
}

// TestClasses plays classes on the recorded machines.
func TestClasses(t *testing.T) {
	for name, want := range map[string][2]string{
		"xeon-cdp": {"L3CODE:0=7fc;1=7ff L3DATA:0=7fc;1=7ff MB:0=90;1=100", "L3CODE:0=3;1=7ff L3DATA:0=3;1=7ff MB:0=10;1=100"},
		"xeon-mba": {"L3:0=7fc;1=7ff MB:0=90;1=100", "L3:0=3;1=7ff MB:0=10;1=100"},
		"epyc": {
			"L3:0=ffff;1=ffff;2=fffc;3=ffff;4=ffff;5=ffff;6=ffff;7=ffff;16=ffff;17=ffff;18=ffff;19=ffff;20=ffff;21=ffff;22=ffff;23=ffff MB:" + amdLimits,
			"L3:0=ffff;1=ffff;2=3;3=ffff;4=ffff;5=ffff;6=ffff;7=ffff;16=ffff;17=ffff;18=ffff;19=ffff;20=ffff;21=ffff;22=ffff;23=ffff MB:" + amdLimits,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: name}, quiet.DefaultPolicy())
			r.start()
			r.rounds(1)
			r.pod("a", cpuset.Of(2), nil)
			r.rounds(1)
			r.wantQuiet()
			for file, want := range map[string]string{quiet.DefaultClassFile: want[0], r.group("a"): want[1]} {
				if got, err := quiet.KindOf(file).Value(r.kernel.Get(file)); got != want || err != nil {
					t.Errorf("%s: %s, want %s, %v", file, got, want, err)
				}
			}
			if s := r.s.Status(); len(s.Classes) != 1 || s.Counts.Moved != 2 || len(s.Problems) != 0 {
				t.Errorf("status %+v", s)
			}
			r.pod("b", cpuset.Of(3, 9), nil)
			r.rounds(1)
			r.wantQuiet()
			writes, moved := r.s.counts.writes, r.s.counts.moved
			r.rounds(12)
			if r.s.counts.writes != writes || r.s.counts.moved != moved {
				t.Errorf("%d writes and %d moves although nothing changed", r.s.counts.writes-writes, r.s.counts.moved-moved)
			}
			r.resize("b", cpuset.Of(3, 9, 15))
			r.end("a")
			r.rounds(1)
			r.wantQuiet()
			r.stop()
			r.release()
			r.wantBefore()
		})
	}
}

var amdLimits = strings.TrimSuffix(strings.Join(strings.Fields("0=2048; 1=2048; 2=2048; 3=2048; 4=2048; 5=2048; 6=2048; 7=2048; 16=2048; 17=2048; 18=2048; 19=2048; 20=2048; 21=2048; 22=2048; 23=2048;"), ""), ";")

// TestWithoutResctrl checks that a missing mount is a problem, and that nothing else changes.
func TestWithoutResctrl(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16}, quiet.DefaultPolicy())
	r.division.init(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"})
	r.start()
	must(t, r.kernel.AddCgroup("/kubepods.slice/kubepods-podx.slice/a.scope", cpuset.Of(2)))
	r.source.list = append(r.source.list, quiet.Container{Namespace: "prod", Pod: "a", Name: "main", UID: "x", Assigned: cpuset.Of(2), Runs: cpuset.Of(2)})
	r.divide()
	r.rounds(1)
	if p := r.s.Status().Problems; len(p) != 1 || !strings.Contains(p[0].Text, "resctrl is not mounted: mount it with") {
		t.Errorf("problems %+v", p)
	}
	r.wantFiles(map[string]string{irq: "0-1,3-15"})
}

// TestClassesOff checks that the policy gives everything back.
func TestClassesOff(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"}, quiet.DefaultPolicy())
	r.start()
	r.pod("a", cpuset.Of(2), nil)
	r.rounds(1)
	group := r.group("a")
	r.stop()
	r.config.Quiet.Caches = quiet.Off
	r.start()
	r.rounds(1)
	if r.kernel.Get(group) != "" || r.kernel.Get(quiet.DefaultClassFile) != r.before[quiet.DefaultClassFile] {
		t.Errorf("%q and %q are left", r.kernel.Get(group), r.kernel.Get(quiet.DefaultClassFile))
	}
}

// TestOutOfClasses checks what a user sees if others have all classes of the kernel, or all ids of
// monitoring, and that the class is made when one is free.
func TestOutOfClasses(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-cdp"}, quiet.DefaultPolicy())
	for i := range 7 {
		must(t, r.kernel.Dir(fmt.Sprintf("resctrl/tenant-%d", i), true))
	}
	r.start()
	r.pod("a", cpuset.Of(2), nil)
	r.rounds(1)
	file := r.group("a")
	if f := r.s.troubles[file]; !strings.Contains(f.Error, "no space left on device: Out of CLOSIDs; the groups tenant-0, tenant-1,") || !strings.Contains(f.Error, "are not Paddock's: remove those that nothing needs") {
		t.Errorf("the error is %q", f.Error)
	}
	must(t, r.kernel.Dir("resctrl/tenant-3", false))
	r.kernel.SetLimbo(192)
	r.rounds(2)
	if f := r.s.troubles[file]; !strings.Contains(f.Error, "busy: Out of RMIDs; ids of groups that were removed are free again when") {
		t.Errorf("the error is %q", f.Error)
	}
	r.kernel.SetLimbo(0)
	r.rounds(5)
	if _, is := r.s.troubles[file]; is || r.kernel.Get(file) == "" {
		t.Errorf("%q, %+v", r.kernel.Get(file), r.s.troubles)
	}
}

// TestOthersGroups checks that a group that is not Paddock's is never changed, and is reported if
// it has ways of a class. If it is exclusive, the kernel rejects the class, and the error has why.
func TestOthersGroups(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"}, quiet.DefaultPolicy())
	must(t, r.kernel.Dir("resctrl/tenant", true))
	must(t, r.kernel.Write("resctrl/tenant/schemata", "L3:0=1;1=7ff"))
	tenant := r.kernel.Get("resctrl/tenant/schemata")
	r.start()
	r.pod("a", cpuset.Of(2), nil)
	r.rounds(1)
	if p := r.s.Status().Problems; len(p) != 1 || !strings.Contains(p[0].Text, "of prod/a/main: the group tenant of resctrl has ways 0 of L3 0 too, and is not Paddock's") {
		t.Errorf("problems %+v", p)
	}
	must(t, r.kernel.Write("resctrl/tenant/schemata", "L3:0=7f8;1=7ff"))
	r.rounds(1)
	if p := r.s.Status().Problems; len(p) != 0 {
		t.Errorf("problems %+v", p)
	}
	r.end("a")
	r.rounds(1)
	must(t, r.kernel.Write("resctrl/tenant/schemata", "L3:0=1;1=2"))
	must(t, r.kernel.Write("resctrl/schemata", "L3:0=7f0;1=7f0"))
	must(t, r.kernel.Write("resctrl/tenant/mode", "exclusive"))
	r.rounds(1)
	r.pod("b", cpuset.Of(2), nil)
	r.rounds(1)
	if f := r.s.troubles[r.group("b")]; f.Error != "invalid argument: Overlaps with exclusive group" {
		t.Errorf("troubles %+v", r.s.troubles)
	}
	if r.kernel.Get(r.group("b")) != "" {
		t.Errorf("a group without its ways is left: %s", r.kernel.Get(r.group("b")))
	}
	if got := r.kernel.Get("resctrl/tenant/schemata"); got == tenant || !strings.Contains(got, "L3:0=1;1=2") {
		t.Errorf("the other group has %q", got)
	}
}

// TestGroupsWithoutRecords checks that groups are found by their names without a record: those of
// a runtime, and those that nothing needs.
func TestGroupsWithoutRecords(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"}, quiet.DefaultPolicy())
	must(t, r.kernel.Dir("resctrl/paddock-ended.main", true))
	r.pod("a", cpuset.Of(2), nil)
	at := strings.TrimSuffix(r.group("a"), "/schemata")
	must(t, r.kernel.Dir(at, true))
	must(t, r.kernel.Write(at+"/schemata", "L3:0=3"))
	must(t, r.kernel.Write(at+"/tasks", "100"))
	made := r.kernel.Get(at + "/schemata")
	r.start()
	r.rounds(1)
	r.wantQuiet()
	if got := r.kernel.Get("resctrl/paddock-ended.main/schemata"); got != "" {
		t.Errorf("the group of an ended pod has %q", got)
	}
	r.stop()
	r.release()
	if got := r.kernel.Get(at + "/schemata"); got != made {
		t.Errorf("a runtime's group has %q after the release, %q before the first start", got, made)
	}
}

// TestTheDefaultClassIsFought checks that another program that sets the default class is reported.
func TestTheDefaultClassIsFought(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"}, quiet.DefaultPolicy())
	r.start()
	r.pod("a", cpuset.Of(2), nil)
	for range 8 {
		r.rounds(1)
		must(t, r.kernel.Write(quiet.DefaultClassFile, "L3:0=7ff"))
	}
	r.rounds(1)
	if f := r.s.troubles[quiet.DefaultClassFile]; f.Times < 5 || f.Until.IsZero() || !strings.Contains(r.log.String(), "another program keeps changing a file back") {
		t.Errorf("troubles %+v", r.s.troubles)
	}
	r.stop()
	r.release()
	r.wantBefore()
}

// TestCachesGoOffline takes the CPUs of a cache offline, which removes the cache from every group,
// and online again, which gives every group all of its ways.
func TestCachesGoOffline(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"}, quiet.DefaultPolicy())
	r.start()
	r.pod("a", cpuset.Of(2, 9), nil)
	r.rounds(1)
	r.wantQuiet()
	all, err := cpuset.Parse("0-15")
	must(t, err)
	half, err := cpuset.Parse("0-7")
	must(t, err)
	must(t, r.kernel.SetOnline(half))
	r.rounds(1)
	if now, _ := quiet.DefaultClass.Value(r.kernel.Get(quiet.DefaultClassFile)); now != "L3:0=7fc MB:0=90" {
		t.Errorf("offline: %s", now)
	}
	must(t, r.kernel.SetOnline(all))
	r.rounds(1)
	if now, _ := quiet.DefaultClass.Value(r.kernel.Get(quiet.DefaultClassFile)); now != "L3:0=7fc;1=7fc MB:0=90;1=90" || r.s.troubles[quiet.DefaultClassFile].Times > 0 {
		t.Errorf("online again: %s, %+v", now, r.s.troubles)
	}
	r.stop()
	r.release()
	r.wantBefore()
}

// TestManyThreads checks that a round moves a bounded number of threads, that one that has ended is
// no problem, and that those of another runtime's process are moved later.
func TestManyThreads(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"}, quiet.DefaultPolicy())
	r.start()
	c := r.pod("a", cpuset.Of(2), nil)
	ids := make([]int, mostMoves)
	for i := range ids {
		ids[i] = 5000 + i
	}
	must(t, r.kernel.AddThreads(c.Cgroup, ids...))
	must(t, r.kernel.EndThread(5003))
	r.rounds(1)
	if moved := r.s.counts.moved; moved != mostMoves-1 || len(r.s.Status().Problems) > 0 {
		t.Errorf("%d threads were moved in one round: %+v", moved, r.s.Status().Problems)
	}
	r.rounds(1)
	if moved := r.s.counts.moved; moved != mostMoves+1 {
		t.Errorf("%d threads were moved in two rounds", moved)
	}
	must(t, r.kernel.AddThreads(c.Cgroup, 9000))
	r.rounds(6)
	if moved := r.s.counts.moved; moved != mostMoves+2 {
		t.Errorf("%d threads were moved after one that a runtime has added", moved)
	}
}

// TestAForkStorm checks that a container with new processes in each round, which have ended before
// they are moved, does not keep the threads of others in the default class.
func TestAForkStorm(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"}, quiet.DefaultPolicy())
	r.start()
	storm := r.pod("a", cpuset.Of(2), nil).Cgroup
	r.pod("b", cpuset.Of(3), nil)
	for round := range 3 {
		ids := make([]int, mostMoves)
		for i := range ids {
			ids[i] = 10_000*(round+1) + i
		}
		must(t, r.kernel.AddThreads(storm, ids...))
		for _, id := range ids {
			must(t, r.kernel.EndThread(id))
		}
		r.rounds(1)
	}
	for _, stray := range r.strayThreads() {
		if strings.Contains(stray, " of b ") {
			t.Error(stray)
		}
	}
}

// TestClassMetrics checks the metrics of the classes, and that they are not read more often than
// needed.
func TestClassMetrics(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"}, quiet.DefaultPolicy())
	r.start()
	metrics := func() string {
		answer := httptest.NewRecorder()
		r.s.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1/metrics", nil))
		return answer.Body.String()
	}
	r.pod("a", cpuset.Of(2), nil)
	r.source.caches.Containers = append(r.source.caches.Containers, podres.ContainerClass{
		Namespace: "prod", Pod: "p", UID: "pool", Container: "helper", Group: resctrl.PoolName("pool"), Pool: true, Class: cache.Class{{Cache: 0, Ways: 0x30}},
	}, podres.ContainerClass{
		Namespace: "prod", Pod: "p", UID: "pool-2", Container: "helper", Group: resctrl.PoolName("pool-2"), Pool: true, Class: cache.Class{{Cache: 0, Ways: 0x40}},
	})
	r.rounds(1)
	must(t, r.kernel.SetUsage(strings.Split(r.group("a"), "/")[1], 1000))
	must(t, r.kernel.SetUsage("paddock-pool", 7))
	text := metrics()
	for _, want := range []string{
		"paddock_quiet_class_cache_bytes{namespace=\"prod\",pod=\"a\",container=\"main\"} 2000\n", // of two caches
		"paddock_quiet_class_memory_bytes_total{namespace=\"prod\",pod=\"a\",container=\"main\"} 20000\n",
		"paddock_quiet_class_cache_bytes{namespace=\"prod\",pod=\"p\",container=\"\"} 14\n", "paddock_quiet_changed_files{sets=\"cache class\"} 3\n", "paddock_quiet_moved_threads_total 2\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "paddock_quiet_class_cache_bytes{namespace=\"prod\",pod=\"p\""); n != 1 {
		t.Errorf("two pods with the same name have %d series:\n%s", n, text)
	}
	if strings.Contains(text, "local_memory") { // It is "Unavailable".
		t.Errorf("a number that is not known is in\n%s", text)
	}
	must(t, r.kernel.SetUsage("paddock-pool", 8))
	if again := metrics(); !strings.Contains(again, "} 14\n") {
		t.Errorf("it was read again at once:\n%s", again)
	}
	r.rounds(6)
	if again := metrics(); !strings.Contains(again, "} 16\n") {
		t.Errorf("it was not read again:\n%s", again)
	}
}

// TestUnreadableGroups checks that what cannot be read is a problem, and stops nothing else: a
// group of another program or of Paddock, the list of groups, and the list of interrupts.
func TestUnreadableGroups(t *testing.T) {
	for name, c := range map[string]struct {
		breaks    func(r *rig) (file string)
		interrupt bool // whether the interrupts are kept off the CPUs of b
		class     bool // whether b gets its class
	}{
		"a group of another program": {func(*rig) string { return "resctrl/tenant/schemata" }, true, true},
		"a group of Paddock":         {func(r *rig) string { return r.group("a") }, true, true},
		"the list of groups":         {func(*rig) string { return "resctrl" }, true, false},
		"the list of interrupts":     {func(*rig) string { return "proc/irq" }, false, true},
		"the queues of a device":     {func(*rig) string { return "sys/class/net/eth0/queues" }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fakekernel.Options{CPUs: 16, Resctrl: "xeon-mba"}, quiet.DefaultPolicy())
			must(t, r.kernel.Dir("resctrl/tenant", true))
			must(t, r.kernel.Write("resctrl/tenant/schemata", "L3:0=7f0;1=7f0"))
			r.start()
			r.pod("a", cpuset.Of(2), nil)
			r.rounds(1)
			r.pod("b", cpuset.Of(4), nil)
			file := c.breaks(r)
			heal := r.unreadable(file)
			r.rounds(1)
			s := r.s.Status()
			if s.Waiting != "" {
				t.Fatalf("the round waits: %s", s.Waiting)
			}
			if !slices.ContainsFunc(s.Problems, func(p quiet.Problem) bool { return p.File == file && p.Text != "" }) {
				t.Errorf("problems %+v, want one of %s", s.Problems, file)
			}
			heal()
			list, err := quiet.KindOf(quiet.NewInterruptsFile).Value(r.kernel.Get(quiet.NewInterruptsFile))
			must(t, err)
			if set, err := cpuset.Parse(list); err != nil || set.Contains(cpuset.Of(4)) == c.interrupt {
				t.Errorf("new interrupts have CPUs %s", list)
			}
			if has := r.kernel.Get(r.group("b")) != ""; has != c.class {
				t.Errorf("b has a class: %t, want %t", has, c.class)
			}
			r.rounds(2)
			r.wantQuiet()
			if s := r.s.Status(); len(s.Problems) != 0 {
				t.Errorf("afterwards: problems %+v", s.Problems)
			}
		})
	}
}

// unreadable replaces a file or a directory with a loop of links, which cannot be read, until the
// returned function is called.
func (r *rig) unreadable(file string) (heal func()) {
	r.t.Helper()
	if strings.HasPrefix(file, quiet.Resctrl) {
		file = "sys/fs/" + file
	}
	name := filepath.Join(r.kernel.Root(), file)
	must(r.t, os.Rename(name, name+".kept"))
	must(r.t, os.Symlink(name, name))
	return func() {
		r.t.Helper()
		must(r.t, os.Remove(name))
		must(r.t, os.Rename(name+".kept", name))
	}
}
