package cgroup_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/cgroup"
)

func TestQuota(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  quota.Quota
		bad   string
	}{
		{"v2", map[string]string{"p/cpu.max": "150000 100000\n"}, 150_000, ""},
		{"v2 none", map[string]string{"p/cpu.max": "max 100000\n"}, quota.None, ""},
		{"v2 another period", map[string]string{"p/cpu.max": "5000 10000\n"}, 50_000, ""},
		{"v2 no number", map[string]string{"p/cpu.max": "much 100000\n"}, 0, "is not a quota"},
		{"v2 no period", map[string]string{"p/cpu.max": "1000 0\n"}, 0, "has no period"},
		{"v1", map[string]string{"cpu/p/cpu.cfs_quota_us": "150000\n", "cpu/p/cpu.cfs_period_us": "50000\n"}, 300_000, ""},
		{"v1 none", map[string]string{"cpu/p/cpu.cfs_quota_us": "-1\n", "cpu/p/cpu.cfs_period_us": "100000\n"}, quota.None, ""},
		{"v1 no period", map[string]string{"cpu/p/cpu.cfs_quota_us": "1000\n", "cpu/p/cpu.cfs_period_us": "x\n"}, 0, "is not a period"},
	} {
		if strings.HasPrefix(c.name, "v2") {
			c.files["cgroup.controllers"] = "cpu"
		}
		got, err := put(t, c.files).Quota("/p")
		if got != c.want || (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %s, %v; want %s, %q", c.name, got, err, c.want, c.bad)
		}
	}
}

func TestSetQuota(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   map[string]string
		want    quota.Quota
		changed bool
		after   map[string]string // the beginning: the kernel replaces the value, a file of a test keeps what is longer
	}{
		{"v2", map[string]string{"p/cpu.max": "max 100000\n"}, 150_000, true, map[string]string{"p/cpu.max": "150000 100000\n"}},
		{"v2 none", map[string]string{"p/cpu.max": "150000 100000\n"}, quota.None, true, map[string]string{"p/cpu.max": "max\n"}},
		{"v2 the same", map[string]string{"p/cpu.max": "15000 10000\n"}, 150_000, false, map[string]string{"p/cpu.max": "15000 10000\n"}},
		{"v2 keep", map[string]string{"p/cpu.max": "15000 10000\n"}, quota.Keep, false, map[string]string{"p/cpu.max": "15000 10000\n"}},
		{
			"v1",
			map[string]string{"cpu/p/cpu.cfs_quota_us": "-1\n", "cpu/p/cpu.cfs_period_us": "50000\n"},
			150_000, true,
			map[string]string{"cpu/p/cpu.cfs_quota_us": "150000\n", "cpu/p/cpu.cfs_period_us": "100000\n"},
		},
		{"v1 none", map[string]string{"cpu/p/cpu.cfs_quota_us": "150000\n"}, quota.None, true, map[string]string{"cpu/p/cpu.cfs_quota_us": "-1\n"}},
	} {
		if strings.HasPrefix(c.name, "v2") {
			c.files["cgroup.controllers"] = "cpu"
		}
		f := put(t, c.files)
		if changed, err := f.SetQuota("/p", c.want); changed != c.changed || err != nil {
			t.Errorf("%s: changed %v, %v", c.name, changed, err)
		}
		for name, want := range c.after {
			if text, err := os.ReadFile(filepath.Join(f.Root, name)); err != nil || !strings.HasPrefix(string(text), want) {
				t.Errorf("%s: %s has %q, want %q, %v", c.name, name, text, want, err)
			}
		}
	}
	if _, err := v2(t).SetQuota("/kubepods/podgone", 1000); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is gone: %v, want fs.ErrNotExist", err)
	}
}

func TestThrottled(t *testing.T) {
	f := put(t, map[string]string{
		"cgroup.controllers": "cpu",
		"p/cpu.stat":         "usage_usec 9000000\nnr_periods 89\nnr_throttled 35\nthrottled_usec 1500000\nnr_bursts 0\n",
		"none/cpu.stat":      "usage_usec 9000000\nuser_usec 1\n",
		"bad/cpu.stat":       "nr_periods many\n",
	})
	old := put(t, map[string]string{"cpu/p/cpu.stat": "nr_periods 89\nnr_throttled 35\nthrottled_time 1500000000\n"})
	want := cgroup.Throttling{Periods: 89, Throttled: 35, Time: 1500 * time.Millisecond}
	for name, f := range map[string]cgroup.FS{"v2": f, "v1": old} {
		if got, err := f.Throttled("/p"); got != want || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := f.Throttled("/none"); got != (cgroup.Throttling{}) || err != nil {
		t.Errorf("a kernel that counts nothing: %+v, %v", got, err)
	}
	if got, err := f.Throttled("/bad"); err == nil {
		t.Errorf("read %+v", got)
	}
	if _, err := f.Throttled("/gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is gone: %v, want fs.ErrNotExist", err)
	}
}
