package silencer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
	"github.com/paddock-project/paddock/internal/testing/fakekernel"
)

// wantFiles checks the content of files.
func (r *rig) wantFiles(want map[string]string) {
	r.t.Helper()
	for name, text := range want {
		if got := r.kernel.Get(name); got != text {
			r.t.Errorf("%s: %q, want %q", name, got, text)
		}
	}
}

const irq = "proc/irq/24/smp_affinity_list"

// TestAReplacedContainer is cri-o#9405: the end of a container came after the start of its
// successor on the same CPUs, and gave these CPUs back under it. Two containers that begin at the
// same time lost each other's change.
func TestAReplacedContainer(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	r.start()
	r.pod("old", cpuset.Of(2, 3), nil)
	r.rounds(1)
	r.pod("new", cpuset.Of(2, 3), nil)
	r.pod("other", cpuset.Of(5), nil)
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-1,4,6-7"})
	r.end("old")
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-1,4,6-7"})
	// irqbalance got one list for each change, and was never restarted: five restarts in 10 seconds
	// stop a service.
	if got := strings.Join(r.bans, " "); got != "2-3 2-3,5" {
		t.Errorf("irqbalance got the lists %q", got)
	}
}

// TestShortMasks is cri-o#6145: a mask that was shorter than the machine was extended on the wrong
// side. On 80 CPUs, the mask f is CPUs 0 to 3.
func TestShortMasks(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 80}, quiet.DefaultPolicy())
	must(t, r.kernel.Write(quiet.NewInterruptsFile, "f"))
	must(t, r.kernel.Write(quiet.WorkqueuesFile, "1,00000000,0000000f"))
	r.start()
	r.pod("a", cpuset.Of(2, 40), nil)
	r.rounds(1)
	r.wantFiles(map[string]string{
		quiet.NewInterruptsFile: "0000,00000000,0000000b", quiet.WorkqueuesFile: "0001,00000000,0000000b", irq: "0-1,3-39,41-79",
	})
}

// TestTheOtherProgramIsRestarted is cri-o#6388 and cluster-node-tuning-operator#396 and #400: a
// restart of tuned sets the affinities and the ban list again, under running pods. The CPUs are
// quiet again after one round, and what tuned has set is what the files go back to.
func TestTheOtherProgramIsRestarted(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(1)
	must(t, r.kernel.Write(irq, "0-5"))
	must(t, r.kernel.Write(quiet.NewInterruptsFile, "3f"))
	must(t, r.kernel.Write(quiet.WorkqueuesFile, "3f"))
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-1,4-5", quiet.NewInterruptsFile: "33", quiet.WorkqueuesFile: "33"})
	r.end("a")
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-5", quiet.NewInterruptsFile: "3f", quiet.WorkqueuesFile: "3f"})
	must(t, r.kernel.Write(irq, "4"))
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "4"})
	if n := len(r.s.saved.Files); n != 0 {
		t.Errorf("%d records without a container", n)
	}
}

// TestNobodyIsForgotten is a restart of CRI-O, which forgets the CPUs that are banned: they stay so
// until the machine is restarted. Here, the pod ends while no process runs.
func TestNobodyIsForgotten(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, everything())
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(1)
	r.stop()
	r.end("a")
	r.start()
	r.rounds(1)
	r.wantBefore()
}

// TestAfterARestartOfTheMachine checks that nothing is given back that another kernel had.
func TestAfterARestartOfTheMachine(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	must(t, r.kernel.Write(irq, "2-5"))
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "4-5"})
	r.stop()
	r.source.list = nil
	must(t, r.kernel.Reboot("another-boot"))
	r.start()
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-7"})
	if n := len(r.s.saved.Files); n != 0 || r.s.counts.writes != 0 {
		t.Errorf("%d records, %d writes after a restart of the machine", n, r.s.counts.writes)
	}
}

// TestAFightEnds lets another program change a file back in every round. It is written again
// MostFights times, reported once with its name, and left alone for ten minutes.
func TestAFightEnds(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	for i := range 20 {
		r.rounds(1)
		must(t, r.kernel.Write(irq, fmt.Sprint(2+i%2)))
	}
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "3"})
	if n := strings.Count(r.log.String(), "another program keeps changing a file back"); n != 1 || !strings.Contains(r.log.String(), "file="+irq) {
		t.Errorf("reported %d times, want once, with its name:\n%s", n, r.log.String())
	}
	found := false
	for _, f := range r.s.Status().Files {
		found = found || f.File == irq && f.ChangedBack > r.config.Quiet.MostFights && f.Now == "3" && f.Wanted == "0-1,4-7" && !f.Until.IsZero()
	}
	if !found {
		t.Errorf("the status does not show the file: %+v", r.s.Status().Files)
	}
	r.now = r.now.Add(11 * 60e9)
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-1,4-7"})
	r.end("a")
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "3"})
}

// TestManagedInterrupts are reported once and left: EIO, and EPERM in newer kernels.
func TestManagedInterrupts(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	must(t, r.kernel.AddInterrupt(90, syscall.EPERM))
	writes := map[string]int{}
	r.put = func(name, text string) error {
		writes[name]++
		return r.kernel.Write(name, text)
	}
	r.start()
	r.pod("a", cpuset.Of(2), nil)
	r.rounds(100)
	if writes["proc/irq/31/smp_affinity_list"] != 1 || writes["proc/irq/90/smp_affinity_list"] != 1 {
		t.Errorf("managed interrupts were written %d and %d times, want once", writes["proc/irq/31/smp_affinity_list"], writes["proc/irq/90/smp_affinity_list"])
	}
}

// TestNewInterrupts checks that a new interrupt is quiet from its first moment, and after one round
// if its driver has chosen CPUs.
func TestNewInterrupts(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(1)
	must(t, r.kernel.AddInterrupt(100, nil))
	must(t, r.kernel.AddDevice("eth1", 1))
	r.wantFiles(map[string]string{"proc/irq/100/smp_affinity_list": "0-1,4-7", "sys/class/net/eth1/queues/rx-0/rps_cpus": "f3"})
	must(t, r.kernel.Write("proc/irq/100/smp_affinity_list", "3"))
	r.rounds(1)
	r.wantFiles(map[string]string{"proc/irq/100/smp_affinity_list": "0-1,4-7"})
	must(t, r.kernel.RemoveInterrupt(100))
	r.rounds(1)
	if _, kept := r.s.saved.Files["proc/irq/100/smp_affinity_list"]; kept {
		t.Error("the record of an interrupt that is gone is kept")
	}
}

// TestHotplug takes CPUs offline until the last CPU of an interrupt is an exclusive one.
func TestHotplug(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, everything())
	must(t, r.kernel.Write(irq, "0-3"))
	r.before[irq] = "0-3"
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-1"})
	must(t, r.kernel.SetOnline(cpuset.Of(2, 3, 6, 7)))
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "6-7"})
	must(t, r.kernel.SetOnline(cpuset.Of(2, 3)))
	r.rounds(1)
	if !strings.Contains(r.log.String(), "no online CPU") {
		t.Errorf("it is not reported that no CPU is left:\n%s", r.log.String())
	}
	must(t, r.kernel.SetOnline(cpuset.Of(0, 1, 2, 3, 4, 5, 6, 7)))
	r.rounds(1)
	r.now = r.now.Add(2 * 60e9)
	r.rounds(1)
	r.wantQuiet()
	r.stop()
	r.release()
	r.wantBefore()
}

// TestAMove is a container that moves: the new CPUs are quiet before the runtime changes the
// cgroup, the old ones stay quiet until it has left, and the partition follows the cgroup.
// kubevirt#1622 is an affinity outside a cpuset that shrank: the partition never has CPUs that the
// cgroup has not.
func TestAMove(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, everything())
	r.start()
	c := r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(1)
	c.Assigned = cpuset.Of(2, 3, 4, 5) // The agent moves it.
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-1,6-7", quiet.ExclusiveFile(c.Cgroup): "2-3", quiet.LatencyFile(4): "10"})
	c.Assigned = cpuset.Of(4, 5) // It has been moved, and the cgroup has not.
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-1,6-7", quiet.PartitionFile(c.Cgroup): "isolated"})
	must(t, r.kernel.SetCPUs(c.Cgroup, cpuset.Of(4, 5)))
	c.Runs = cpuset.Of(4, 5)
	r.rounds(1)
	r.wantFiles(map[string]string{
		irq: "0-3,6-7", quiet.ExclusiveFile(c.Cgroup): "4-5", quiet.ExclusiveFile("/kubepods.slice"): "4-5", quiet.LatencyFile(2): "0",
		quiet.PartitionFile(c.Cgroup): "isolated", "sys/fs/cgroup" + c.Cgroup + "/cpuset.cpus.effective": "4-5",
	})
	r.rounds(1) // The kernel has let the workqueues back when the partition had left.
	r.wantQuiet()
}

// TestAFileThatCannotBeRead checks that a file that cannot be read, as those of frequencies while
// their CPUs are offline, keeps its record, and that everything else is done.
func TestAFileThatCannotBeRead(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, everything())
	r.start()
	r.pod("a", cpuset.Of(2, 3), map[string]string{quiet.AskGovernor: "performance"})
	r.rounds(1)
	name := quiet.FrequencyFile("policy2", quiet.Governor)
	at := filepath.Join(r.kernel.Root(), name)
	must(t, os.Rename(at, at+".saved"))
	must(t, os.Mkdir(at, 0o700)) // EISDIR, in place of EBUSY.
	r.pod("b", cpuset.Of(4), nil)
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-1,5-7"})
	if r.s.saved.Files[name].Before != "schedutil" || !strings.Contains(r.log.String(), "cannot be read, and is left as it is") {
		t.Errorf("record %+v, log:\n%s", r.s.saved.Files[name], r.log.String())
	}
	r.stop()
	if _, left, err := Release(r.config, r.world(), r.logger()); err != nil || len(left) != 1 || !strings.Contains(left[0], "is a directory") {
		t.Errorf("release: %v, left %q", err, left)
	}
	must(t, os.Remove(at))
	must(t, os.Rename(at+".saved", at))
	r.release()
	r.wantBefore()
}

// TestWithoutPartitions is a kernel before 6.7: everything else is done, and the reason is clear.
func TestWithoutPartitions(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8, WithoutExclusive: true}, everything())
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(2)
	r.wantFiles(map[string]string{irq: "0-1,4-7", quiet.PartitionFile(r.source.list[0].Cgroup): "member"})
	if n := strings.Count(r.log.String(), "it needs cgroup v2 and Linux 6.7"); n != 1 {
		t.Errorf("reported %d times, want once:\n%s", n, r.log.String())
	}
}

// TestWithoutPrivilege is a process without CAP_SYS_ADMIN and CAP_NET_ADMIN.
func TestWithoutPrivilege(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, everything())
	r.kernel.DropPrivilege()
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(2)
	for _, want := range []string{"Enable partition not permitted", "rx-0/rps_cpus"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, r.log.String())
		}
	}
	r.stop()
	r.release()
	r.wantFiles(map[string]string{irq: "0-7", quiet.PartitionFile(r.source.list[0].Cgroup): "member", quiet.ExclusiveFile("/kubepods.slice"): ""})
}

// TestPartitionsThatCannotBe checks that all CPUs are never isolated, and that a partition that
// another program took away comes back.
func TestPartitionsThatCannotBe(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 4}, everything())
	r.start()
	a := r.pod("a", cpuset.Of(0, 1, 2), nil)
	group := a.Cgroup
	r.pod("b", cpuset.Of(3), nil)
	r.rounds(1)
	r.wantFiles(map[string]string{quiet.PartitionFile(group): "isolated", quiet.PartitionFile(r.source.list[1].Cgroup): "member"})
	if !strings.Contains(r.log.String(), "no online CPU would be left") {
		t.Errorf("it is not reported:\n%s", r.log.String())
	}
	must(t, r.kernel.Write(quiet.PartitionFile(group), "member")) // systemd resets what it manages.
	r.rounds(1)
	r.wantFiles(map[string]string{quiet.PartitionFile(group): "isolated"})
}

// TestNothingIsWrittenThatIsNotSaved lets the disk fail.
func TestNothingIsWrittenThatIsNotSaved(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, everything())
	disk := crashfs.New()
	r.disk = disk
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	disk.Inject(func(crashfs.Op) error { return errors.New("no space left") })
	r.rounds(3)
	if r.s.counts.writes != 0 || !strings.Contains(r.s.Status().Waiting, "nothing is changed") {
		t.Errorf("%d writes, waiting: %q", r.s.counts.writes, r.s.Status().Waiting)
	}
	disk.Inject(nil)
	r.rounds(1)
	r.wantQuiet()
}

// TestASourceThatIsGone checks that an error of the source changes nothing.
func TestASourceThatIsGone(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(1)
	list := r.source.list
	r.source.list, r.source.err = nil, errNoSource
	r.rounds(3)
	r.wantFiles(map[string]string{irq: "0-1,4-7"})
	if r.s.Status().Waiting == "" {
		t.Error("the status does not show that the source does not answer")
	}
	r.source.list, r.source.err = list, nil
	r.rounds(1)
	r.wantQuiet()
}

// TestRejectedValues checks that a value that the kernel rejects is tried again later, and that
// nothing is recorded that was not written.
func TestRejectedValues(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	r.kernel.Reject(irq, syscall.ENOSPC) // The interrupt controller has no vector left on other CPUs.
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(20)
	if _, recorded := r.s.saved.Files[irq]; recorded || !strings.Contains(r.log.String(), "no space left on device") {
		t.Errorf("recorded %v, log:\n%s", recorded, r.log.String())
	}
	r.kernel.Reject(irq, nil)
	r.now = r.now.Add(61e9)
	r.rounds(1)
	r.wantFiles(map[string]string{irq: "0-1,4-7"})
	for _, f := range r.s.Status().Files {
		if f.File == irq && f.Error != "" {
			t.Errorf("the error stays after the write: %+v", f)
		}
	}
}

// TestTheBanListOutlivesTheMachine checks that the environment file of irqbalance, which is on the
// disk, loses the quiet CPUs after a restart of the machine too (cluster-node-tuning-operator#400
// is the opposite: the list was cleared under running pods).
func TestTheBanListOutlivesTheMachine(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	name := filepath.Join(t.TempDir(), "irqbalance")
	must(t, os.WriteFile(name, []byte("IRQBALANCE_BANNED_CPULIST=7\n"), 0o600))
	r.config.Irqbalance.Environment = name
	check := func(what, want string) {
		t.Helper()
		if got, err := os.ReadFile(name); err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	r.start()
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(1)
	check("with a container", "IRQBALANCE_BANNED_CPULIST=2-3,7")
	if got := r.bans[len(r.bans)-1]; got != "2-3,7" {
		t.Errorf("irqbalance got %q", got)
	}
	r.stop()
	r.source.list = nil
	must(t, r.kernel.Reboot("another-boot"))
	r.start()
	r.rounds(1)
	check("after a restart of the machine", "IRQBALANCE_BANNED_CPULIST=7")
	r.pod("b", cpuset.Of(4), nil)
	r.rounds(1)
	must(t, os.WriteFile(name, []byte("IRQBALANCE_BANNED_CPULIST=1\n"), 0o600)) // An administrator.
	r.rounds(1)
	check("after another list", "IRQBALANCE_BANNED_CPULIST=1,4")
	r.stop()
	r.release()
	check("after the release", "IRQBALANCE_BANNED_CPULIST=1")
}

// TestTheEndOfTheProcess covers onExit: nothing is changed, or everything is given back.
func TestTheEndOfTheProcess(t *testing.T) {
	for _, exit := range []string{ExitLeave, ExitRelease} {
		r := newRig(t, fakekernel.Options{CPUs: 8}, everything())
		r.config.OnExit = exit
		r.start()
		r.pod("a", cpuset.Of(2, 3), nil)
		ctx, cancel := context.WithCancel(t.Context())
		r.s.world.After = func(time.Duration) <-chan time.Time {
			cancel()
			return nil
		}
		must(t, r.s.Run(ctx))
		if exit == ExitLeave {
			r.wantQuiet()
		} else {
			r.wantBefore()
		}
		cancel()
	}
}
