package nri

import (
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// cpuText returns the quota and the period of a message, in microseconds.
func cpuText(cpu *api.LinuxCPU) (quota, period int64) {
	return cpu.GetQuota().GetValue(), int64(cpu.GetPeriod().GetValue())
}

// TestQuotaOfAMessage: a missing quota, or 0, is not known. A quota in another period is converted.
func TestQuotaOfAMessage(t *testing.T) {
	for _, c := range []struct {
		quota, period int64
		want          quota.Quota
	}{
		{0, 0, quota.Keep},
		{0, 100_000, quota.Keep},
		{-1, 100_000, quota.None},
		{-1, 0, quota.None},
		{150_000, 100_000, 150_000},
		{150_000, 0, 150_000},
		{5_000, 10_000, 50_000},
	} {
		cpu := &api.LinuxCPU{}
		if c.quota != 0 {
			cpu.Quota = api.Int64(c.quota)
		}
		if c.period != 0 {
			cpu.Period = api.UInt64(uint64(c.period))
		}
		s, err := settingOf(&api.LinuxResources{Cpu: cpu})
		if err != nil || s.Quota != c.want {
			t.Errorf("%d in %d is %s, want %s, %v", c.quota, c.period, s.Quota, c.want, err)
		}
	}
}

// TestQuotaInAMessage: a quota is sent with its period, no quota is sent as -1, and a quota that
// does not change is not sent.
func TestQuotaInAMessage(t *testing.T) {
	for _, c := range []struct {
		has           quota.Quota
		quota, period int64
	}{{quota.Keep, 0, 0}, {quota.None, -1, 0}, {133_000, 133_000, 100_000}} {
		s := converge.Setting{CPUs: cpuset.Of(1), Quota: c.has}
		quota, period := cpuText(resources(s).GetCpu())
		if quota != c.quota || period != c.period {
			t.Errorf("%s becomes %d in %d, want %d in %d", c.has, quota, period, c.quota, c.period)
		}
	}
}

// TestQuotaInAnUpdate: a quota that does not change is not sent, so that a quota which the kubelet
// is writing at that moment is not overwritten. A reply to the kubelet's own update sends it in any
// case.
func TestQuotaInAnUpdate(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after quota.Quota
		want          int64
	}{
		{"lifted", 200_000, quota.None, -1},
		{"not known before", quota.Keep, quota.None, -1},
		{"given", quota.None, 100_000, 100_000},
		{"the kubelet's stays", 50_000, 50_000, 0},
		{"none stays", quota.None, quota.None, 0},
	} {
		out := updatesOf([]converge.Update{{
			ID: "a", Before: converge.Setting{CPUs: cpuset.Of(1), Quota: c.before}, After: converge.Setting{CPUs: cpuset.Of(2), Quota: c.after},
		}})
		if got, _ := cpuText(out[0].GetLinux().GetResources().GetCpu()); got != c.want {
			t.Errorf("%s: sends %d, want %d", c.name, got, c.want)
		}
	}
}

// The releases are those of docs/runtimes.md, and those around the first ones that end the process.
func TestRuntimesThatLeaveSandboxes(t *testing.T) {
	for release, leaves := range map[string]bool{
		"1.7.31": false, "2.0.14": true, "2.1.9": true, "2.2.2": true, "2.2.7": true, "2.2.8": false, "2.2.9": false, "2.3.0": true, "2.3.3": true,
		"2.3.4": false, "v2.3.7": false, "2.4.0-rc.1": true, "2.4.0": false, "2.5.1": false, "3.0.0": false, "of our own": false, "": false,
	} {
		if got := leavesSandboxes("containerd", release); got != leaves {
			t.Errorf("containerd %s: %v, want %v", release, got, leaves)
		}
	}
	if leavesSandboxes("cri-o", "2.0.0") {
		t.Error("CRI-O does not")
	}
}
