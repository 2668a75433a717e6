package cgroup_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cgroup"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// put writes files, names relative to a new root, which it returns.
func put(t *testing.T, files map[string]string) cgroup.FS {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cgroup.FS{Root: root}
}

func v2(t *testing.T) cgroup.FS {
	t.Helper()
	return put(t, map[string]string{
		"cgroup.controllers":            "cpuset cpu\n",
		"kubepods/podp/abc/cpuset.cpus": "2-3,7\n", "kubepods/podp/abc/cpuset.mems": "0-1\n", "kubepods/podp/abc/cpu.max": "max 100000\n",
		"kubepods/podp/def/cpuset.cpus": "\n", "kubepods/podp/def/cpuset.mems": "\n", "kubepods/podp/def/cpu.max": "300000 100000\n",
		"kubepods/podp/bad/cpuset.cpus": "2-\n", "kubepods/podp/bad/cpuset.mems": "\n", "kubepods/podp/bad/cpu.max": "max 100000\n",
		"kubepods/podp/odd/cpuset.cpus": "2\n", "kubepods/podp/odd/cpuset.mems": "64\n", "kubepods/podp/odd/cpu.max": "max 100000\n",
		"kubepods/podp/cpu.max": "300000 100000\n",
	})
}

func v1(t *testing.T) cgroup.FS {
	t.Helper()
	return put(t, map[string]string{
		"cpuset/kubepods/podp/abc/cpuset.cpus": "2-3,7\n", "cpuset/kubepods/podp/abc/cpuset.mems": "0-1\n",
		"cpu/kubepods/podp/abc/cpu.cfs_quota_us": "-1\n", "cpu/kubepods/podp/cpu.cfs_quota_us": "300000\n",
	})
}

func TestRead(t *testing.T) {
	pinned := converge.Setting{CPUs: cpuset.Of(2, 3, 7), Mems: mask.Of(0, 1), LiftQuota: true}
	for _, c := range []struct {
		name, path string
		fs         cgroup.FS
		want       converge.Setting
		bad        bool
	}{
		{"v2 pinned", "/kubepods/podp/abc", v2(t), pinned, false},
		{"v2 nothing set", "/kubepods/podp/def", v2(t), converge.Setting{}, false},
		{"v2 damaged", "/kubepods/podp/bad", v2(t), converge.Setting{}, true},
		{"v2 too many nodes", "/kubepods/podp/odd", v2(t), converge.Setting{}, true},
		{"v1 pinned", "/kubepods/podp/abc", v1(t), pinned, false},
		{"out of the root", "/../../kubepods/podp/abc", v2(t), pinned, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.fs.Read(c.path)
			if (err != nil) != c.bad {
				t.Fatalf("error %v", err)
			}
			if err == nil && (!got.CPUs.Equal(c.want.CPUs) || got.Mems != c.want.Mems || got.LiftQuota != c.want.LiftQuota) {
				t.Errorf("read %+v, want %+v", got, c.want)
			}
		})
	}
	if _, err := v2(t).Read("/kubepods/podgone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is gone: %v, want fs.ErrNotExist", err)
	}
}

func TestRemovedWhileItIsRead(t *testing.T) {
	err := cgroup.Gone(&fs.PathError{Op: "read", Path: "cpu.max", Err: syscall.ENODEV})
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, syscall.ENODEV) {
		t.Errorf("%v, want fs.ErrNotExist and what it was", err)
	}
	for _, err := range []error{nil, syscall.EACCES} {
		if got := cgroup.Gone(err); !errors.Is(got, err) || errors.Is(got, fs.ErrNotExist) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}

func TestLiftQuota(t *testing.T) {
	for name, c := range map[string]struct {
		fs         cgroup.FS
		file, want string
	}{
		"v2": {v2(t), "kubepods/podp/cpu.max", "max\n"},
		"v1": {v1(t), "cpu/kubepods/podp/cpu.cfs_quota_us", "-1\n"},
	} {
		changed, err := c.fs.LiftQuota("/kubepods/podp")
		if err != nil || !changed {
			t.Fatalf("%s: changed %v, error %v", name, changed, err)
		}
		// The kernel replaces the value; a file of a test keeps what is longer.
		text, err := os.ReadFile(filepath.Join(c.fs.Root, c.file))
		if err != nil || string(text[:len(c.want)]) != c.want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if changed, err = c.fs.LiftQuota("/kubepods/podp/abc"); changed || err != nil {
			t.Errorf("%s: a quota that is not there: changed %v, error %v", name, changed, err)
		}
	}
	if _, err := v2(t).LiftQuota("/kubepods/podgone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is gone: %v, want fs.ErrNotExist", err)
	}
}

func TestPath(t *testing.T) {
	for runtime, want := range map[string]string{
		"/kubepods/podp":                       "/kubepods/podp",
		"/kubepods/burstable/podp/abc":         "/kubepods/burstable/podp/abc",
		"kubepods-burstable-podp.slice":        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podp.slice",
		"/kubepods-podp.slice":                 "/kubepods.slice/kubepods-podp.slice",
		"kubepods-podp.slice:cri-containerd:a": "/kubepods.slice/kubepods-podp.slice/cri-containerd-a.scope",
		"kubepods.slice::a":                    "/kubepods.slice/a.scope",
		"/kubepods.slice/kubepods-podp.slice":  "/kubepods.slice/kubepods-podp.slice",
	} {
		if got := cgroup.Path(runtime); got != want {
			t.Errorf("Path(%q) = %q, want %q", runtime, got, want)
		}
	}
}

func TestPathNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { cgroup.Path(rapid.StringOf(rapid.SampledFrom([]rune("a-:/.slice"))).Draw(t, "name")) })
}

func TestFind(t *testing.T) {
	for name, f := range map[string]cgroup.FS{"v2": v2(t), "v1": v1(t)} {
		got, err := f.Find([]string{"abc", "none", ""})
		if err != nil || len(got) != 1 || got["abc"] != "/kubepods/podp/abc" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
