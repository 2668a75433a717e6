package agent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
)

// TestVerifyThrottling checks that Verify counts the periods of the exclusive container and of its
// pod while it watches, and not those of a shared container. Throttling from before is not counted,
// because that quota is gone.
func TestVerifyThrottling(t *testing.T) {
	const before = "nr_periods 92\nnr_throttled 83\nthrottled_usec 2500000"
	for name, c := range map[string]struct{ later, want string }{
		"throttled before":   {before, "1: 0 of 0 in 2 s; "},
		"throttled now":      {"nr_periods 112\nnr_throttled 90\nthrottled_usec 3500000", "1: 7 of 20 in 2 s; default/db (uid u1): its cgroup /kubepods/podu1 was throttled in 7 of 20 periods in 2s, for 1s in total"},
		"made again":         {"nr_periods 3\nnr_throttled 2\nthrottled_usec 7", "1: 2 of 3 in 2 s; default/db (uid u1): its cgroup /kubepods/podu1 was throttled in 2 of 3 periods in 2s, for 7µs in total"},
		"ended in this time": {"gone", "1: 0 of 0 in 2 s; "},
	} {
		t.Run(name, func(t *testing.T) {
			config := verifying(t, map[string]string{
				"kubepods/podu1/cpu.stat":     before,
				"kubepods/podu1/aaa/cpu.stat": "nr_periods 3\nnr_throttled 0\nthrottled_usec 0",
				"kubepods/podu1/bbb/cpu.stat": "nr_periods 50\nnr_throttled 50\nthrottled_usec 1",
			})
			v, err := Verify(t.Context(), config, slog.New(slog.DiscardHandler), func(d time.Duration) <-chan time.Time {
				file := filepath.Join(config.CgroupRoot, "kubepods/podu1/cpu.stat")
				if err := os.Remove(file); err != nil {
					t.Error(err)
				}
				if c.later != "gone" {
					if err := os.WriteFile(file, []byte(c.later), 0o600); err != nil {
						t.Error(err)
					}
				}
				return atOnce(d)
			})
			if err != nil || len(v.Differences) > 0 {
				t.Fatalf("%v, differences %q", err, v.Differences)
			}
			throttling := v.Throttling
			got := fmt.Sprintf("%d: %d of %d in %g s; %s", throttling.Exclusive, throttling.Throttled, throttling.Periods, throttling.Seconds, strings.Join(throttling.Notes, "; "))
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// TestVerifyEphemeral checks that a debug container in a pod without a quota must have a quota of
// its own, except in the kubelet's mode.
func TestVerifyEphemeral(t *testing.T) {
	files := map[string]string{"kubepods/podu1/bbb/cpu.max": "max 100000"}
	for mode, want := range map[string]string{
		QuotaIsolated: "container log: it has no CFS quota, expected a CFS quota of 50000 µs in 100000",
		QuotaKubelet:  "",
	} {
		c := verifying(t, files)
		c.CPUQuota = CPUQuotaConfig{Mode: mode, Ephemeral: "500m"}
		v := verifiedWithout(t, c, "log")
		if strings.Join(v.Differences, "; ") == "" != (want == "") || want != "" && !strings.Contains(v.Differences[0], want) {
			t.Errorf("%s: differences %q, want %q", mode, v.Differences, want)
		}
	}
}

// verifiedWithout verifies against a state in which pod db does not have the named container, as if
// it was added later.
func verifiedWithout(t *testing.T, c Config, name string) *Verified {
	t.Helper()
	s, err := stored(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	g := *s.Grants()[0]
	_, i := g.Pod.Container(name)
	g.Pod.Containers, g.Containers = g.Pod.Containers[:i], g.Containers[:i]
	if s, err = node.Restore(s.Machine(), s.Policy(), []*node.Grant{&g}); err != nil {
		t.Fatal(err)
	}
	v, running := &Verified{}, []kubelet.Running{
		{Pod: "u1", Who: "default/db", Container: "app", ID: "aaa"}, {Pod: "u1", Who: "default/db", Container: name, ID: "bbb"},
	}
	if err := v.cgroups(t.Context(), s, cgroup.FS{Root: c.CgroupRoot}, running, atOnce); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestThrottlingSample checks that the sample has the exclusive container and its pod once each,
// and omits cgroups that are gone.
func TestThrottlingSample(t *testing.T) {
	c := verifying(t, map[string]string{"kubepods/podu1/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_usec 7"})
	s, err := stored(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	sample := throttling(cgroup.FS{Root: c.CgroupRoot}, func() *node.State { return s }, func() []runningCgroup {
		return []runningCgroup{
			{Pod: "u1", Container: "app", Path: "/kubepods/podu1/aaa", Parent: "/kubepods/podu1"},
			{Pod: "u1", Container: "log", Path: "/kubepods/podu1/bbb", Parent: "/kubepods/podu1"},
			{Pod: "u1", Container: "app", Path: "/kubepods/podu1/new", Parent: "/kubepods/podu1"},
			{Pod: "gone", Container: "app", Path: "/kubepods/podgone/app", Parent: "/kubepods/podgone"},
		}
	})()
	if got, want := fmt.Sprintf("%+v", sample), "[{Cgroup:/kubepods/podu1 OfPod:true Periods:9 Throttled:4 Time:7µs}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCPUQuotaConfig(t *testing.T) {
	for _, c := range []struct {
		text, want string
	}{
		{"", "{Isolated:true EphemeralMilli:1000}"},
		{"cpuQuota: {ephemeral: 250m}", "{Isolated:true EphemeralMilli:250}"},
		{"cpuQuota: {ephemeral: \"0\"}", "{Isolated:true EphemeralMilli:0}"},
		{"cpuQuota: {mode: kubelet}", "{Isolated:false EphemeralMilli:0}"},
		{"cpuQuota: {mode: none}", `cpuQuota.mode: "none" is unknown: expected isolated or kubelet`},
		{"cpuQuota: {ephemeral: much}", `cpuQuota.ephemeral: "much" is not a quantity`},
		{"cpuQuota: {ephemeral: 9m}", "cpuQuota.ephemeral: is 9m; expected at least 10m"},
		{"cpuQuota: {ephemeral: \"-1\"}", "cpuQuota.ephemeral: is -1; expected at least 10m"},
		{"cpuQuota: {ephemeral: \"2e16\"}", "cpuQuota.ephemeral: cpu: out of range: 20e15 is too large"},
		// This would take hours to parse.
		{"cpuQuota: {ephemeral: \"1e-999999999\"}", `cpuQuota.ephemeral: "1e-999999999" is not a quantity`},
	} {
		config, err := ReadConfig("f", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		q, err := config.CPUQuota.Policy()
		got := fmt.Sprintf("%+v", q)
		if err != nil {
			got = err.Error()
			config.Pods = []string{"p"}
			if checked := config.Check(); checked == nil || !strings.Contains(checked.Error(), got) {
				t.Errorf("%s: Check does not tell: %v", c.text, checked)
			}
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}
