package fakekernel_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/testing/fakekernel"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func kernel(t *testing.T, cpus int) *fakekernel.Kernel {
	t.Helper()
	k, err := fakekernel.New(t.TempDir(), fakekernel.Options{CPUs: cpus})
	must(t, err)
	must(t, k.AddInterrupt(1, nil))
	must(t, k.AddInterrupt(2, syscall.EIO))
	must(t, k.AddDevice("eth0", 1))
	return k
}

// TestWrites checks what the kernel accepts, and what a file then contains.
func TestWrites(t *testing.T) {
	k := kernel(t, 40)
	must(t, k.SetOnline(cpuset.Of(0, 1, 2, 3)))
	const irq, queue = "proc/irq/1/smp_affinity_list", "sys/class/net/eth0/queues/rx-0/rps_cpus"
	governor := quiet.FrequencyFile("policy1", quiet.Governor)
	for _, c := range []struct {
		file, text, want string
		err              error
	}{
		{irq, "1-2", "1-2", nil},
		{irq, "8", "1-2", syscall.EINVAL},
		{irq, "", "1-2", syscall.EINVAL},
		{irq, "40", "1-2", syscall.ERANGE},
		{irq, "x", "1-2", syscall.EINVAL},
		{"proc/irq/2/smp_affinity_list", "1", "0-39", syscall.EIO},
		{quiet.NewInterruptsFile, "3", "00,00000003", nil},
		{quiet.NewInterruptsFile, "f0", "00,00000003", syscall.EINVAL},
		{quiet.NewInterruptsFile, "100,00000000", "00,00000003", syscall.EOVERFLOW},
		{quiet.WorkqueuesFile, "0", "ff,ffffffff", syscall.EINVAL},
		{quiet.WorkqueuesFile, "ff,00000001", "ff,00000001", nil},
		{queue, "ff", "00,0000000f", nil},
		{queue, "0", "00,00000000", nil},
		{quiet.LatencyFile(1), "n/a", "n/a", nil},
		{quiet.LatencyFile(1), "-1", "n/a", syscall.EINVAL},
		{quiet.LatencyFile(1), "soon", "n/a", syscall.EINVAL},
		{quiet.LatencyFile(1), "20", "20", nil},
		{governor, "performance", "performance", nil},
		{governor, "turbo", "performance", syscall.EINVAL},
		{quiet.FrequencyFile("policy1", quiet.MinFrequency), "1", "800000", nil},
	} {
		if err := k.Write(c.file, c.text); !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%q to %s: %v, want %v", c.text, c.file, err, c.err)
		}
		if got := k.Get(c.file); got != c.want {
			t.Errorf("%s: %q after %q, want %q", c.file, got, c.text, c.want)
		}
	}
	if err := k.Write("proc/irq/3/smp_affinity_list", "1"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("an interrupt that does not exist: %v", err)
	}
}

// TestPartitions follows a remote partition through what makes it valid and invalid.
func TestPartitions(t *testing.T) {
	k := kernel(t, 4)
	const pod, container = "/kubepods/pod", "/kubepods/pod/c"
	must(t, k.AddCgroup(container, cpuset.Of(2, 3)))
	must(t, k.AddCgroup("/kubepods/pod/shared", cpuset.Of(1)))
	partition, own := quiet.PartitionFile(container), quiet.ExclusiveFile(container)
	check := func(what, want, isolated, effective string) {
		t.Helper()
		got := []string{k.Get(partition), k.Get("sys/fs/cgroup/cpuset.cpus.isolated"), k.Get("sys/fs/cgroup" + container + "/cpuset.cpus.effective")}
		if got[0] != want || got[1] != isolated || got[2] != effective {
			t.Errorf("%s: %q, want %q, %q, %q", what, got, want, isolated, effective)
		}
	}
	must(t, k.Write(partition, "isolated"))
	check("without exclusive CPUs", "isolated invalid (Invalid cpu list in cpuset.cpus.exclusive)", "", "2-3")
	must(t, k.Write(own, "2-3"))
	check("without those of the parents", "isolated invalid (Invalid cpu list in cpuset.cpus.exclusive)", "", "2-3")
	must(t, k.Write(quiet.ExclusiveFile("/kubepods"), "2-3"))
	must(t, k.Write(quiet.ExclusiveFile(pod), "2-3"))
	check("with all", "isolated", "2-3", "2-3")
	if got := k.Get(quiet.WorkqueuesFile); got != "3" {
		t.Errorf("unbound workqueues: %q", got)
	}
	if err := k.Write(quiet.ExclusiveFile("/kubepods/pod/shared"), "3"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CPUs of a sibling: %v", err)
	}
	if err := k.Write(own, "1-3"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("all CPUs of a sibling: %v", err)
	}
	if err := k.SetCPUs("/kubepods/pod/shared", cpuset.Of(3)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a runtime that gives a sibling only exclusive CPUs: %v", err)
	}
	must(t, k.SetCPUs(container, cpuset.Of(1)))
	check("the runtime moves it", "isolated", "2-3", "2-3")
	must(t, k.SetOnline(cpuset.Of(0, 1)))
	check("its CPUs are offline", "isolated invalid (Invalid cpu list in cpuset.cpus.exclusive)", "", "1")
	must(t, k.SetOnline(cpuset.Of(2, 3)))
	check("no other CPU is online", "isolated invalid (Parent unable to distribute cpu downstream)", "", "2-3")
	must(t, k.SetOnline(cpuset.Of(0, 1, 2, 3)))
	must(t, k.Write(quiet.ExclusiveFile("/kubepods"), ""))
	check("a parent gives none", "isolated invalid (Invalid cpu list in cpuset.cpus.exclusive)", "", "1")
	must(t, k.Write(partition, "member"))
	must(t, k.Write(own, ""))
	check("as before", "member", "", "1")
}
