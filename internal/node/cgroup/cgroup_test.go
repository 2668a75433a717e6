package cgroup_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/cgroup"
)

// put writes files below a new root, which it returns. The names are relative to the root.
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
	pinned := converge.Setting{CPUs: cpuset.Of(2, 3, 7), Mems: mask.Of(0, 1), Quota: quota.None}
	for _, c := range []struct {
		name, path string
		fs         cgroup.FS
		want       converge.Setting
		bad        bool
	}{
		{"v2 pinned", "/kubepods/podp/abc", v2(t), pinned, false},
		{"v2 nothing set", "/kubepods/podp/def", v2(t), converge.Setting{Quota: 300_000}, false},
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
			if err == nil && !got.Equal(c.want) {
				t.Errorf("read %+v, want %+v", got, c.want)
			}
		})
	}
	if _, err := v2(t).Read("/kubepods/podgone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is gone: %v, want fs.ErrNotExist", err)
	}
}

// TestSet writes what is given, and leaves the rest as it is.
func TestSet(t *testing.T) {
	fs := v2(t)
	for _, c := range []struct {
		set, want converge.Setting
	}{
		// As long as what is there: a write to a plain file does not replace it.
		{converge.Setting{CPUs: cpuset.Of(0, 1, 5), Quota: quota.Keep}, converge.Setting{CPUs: cpuset.Of(0, 1, 5), Mems: mask.Of(0, 1), Quota: quota.None}},
		{converge.Setting{Mems: mask.Of(0, 2), Quota: 200_000}, converge.Setting{CPUs: cpuset.Of(0, 1, 5), Mems: mask.Of(0, 2), Quota: 200_000}},
	} {
		if err := fs.Set("kubepods/podp/abc", c.set); err != nil {
			t.Fatal(err)
		}
		if got, err := fs.Read("kubepods/podp/abc"); err != nil || !got.Equal(c.want) {
			t.Errorf("it has %+v, %v, want %+v", got, err, c.want)
		}
	}
	if err := fs.Set("kubepods/podp/gone", converge.Setting{CPUs: cpuset.Of(0), Quota: quota.None}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a cgroup that is gone: %v", err)
	}
}

// TestInner finds the cgroup of a virtual machine that has CPUs of its own, and no other one.
func TestInner(t *testing.T) {
	files := func(controller string) map[string]string {
		return map[string]string{
			controller + "pod/vm/cpuset.cpus": "2-5\n", controller + "pod/vm/housekeeping/cpuset.cpus": "5\n",
			controller + "pod/systemd/cpuset.cpus": "2-5\n", controller + "pod/systemd/init.scope/cpuset.cpus": "\n", controller + "pod/systemd/plain/cpu.max": "max\n",
			controller + "pod/inherits/cpuset.cpus": "2-5\n", controller + "pod/inherits/a/cpuset.cpus": "2-5\n",
			controller + "pod/bad/cpuset.cpus": "2-5\n", controller + "pod/bad/a/cpuset.cpus": "5-\n",
		}
	}
	unified := files("")
	unified["cgroup.controllers"] = "cpuset\n"
	for version, fs := range map[string]cgroup.FS{"v1": put(t, files("cpuset/")), "v2": put(t, unified)} {
		for path, want := range map[string]string{"pod/vm": "housekeeping", "pod/systemd": "", "pod/inherits": ""} {
			name, cpus, err := fs.Inner(path)
			if name != want || err != nil || (want != "" && !cpus.Equal(cpuset.Of(5))) {
				t.Errorf("%s %s: %q with CPUs %s, %v; want %q", version, path, name, cpus, err, want)
			}
		}
		if _, _, err := fs.Inner("pod/bad"); err == nil {
			t.Errorf("%s: CPUs that cannot be read are no error", version)
		}
		if _, _, err := fs.Inner("pod/gone"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a cgroup that is gone: %v", version, err)
		}
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
		changed, err := c.fs.SetQuota("/kubepods/podp", quota.None)
		if err != nil || !changed {
			t.Fatalf("%s: changed %v, error %v", name, changed, err)
		}
		// The kernel replaces the value. A file of a test keeps the rest of a longer one.
		text, err := os.ReadFile(filepath.Join(c.fs.Root, c.file))
		if err != nil || string(text[:len(c.want)]) != c.want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if changed, err = c.fs.SetQuota("/kubepods/podp/abc", quota.None); changed || err != nil {
			t.Errorf("%s: a quota that is not there: changed %v, error %v", name, changed, err)
		}
	}
	if _, err := v2(t).SetQuota("/kubepods/podgone", quota.None); !errors.Is(err, fs.ErrNotExist) {
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

// TestFindByRuntime has the names that runtimes give to the cgroups of a container and of the
// process that watches it.
func TestFindByRuntime(t *testing.T) {
	const (
		id     = "3f2a9c0e5d7b8a6f1c4e2d0b9a8f7e6d5c4b3a291807f6e5d4c3b2a190807f6e"
		systmd = "kubepods.slice/kubepods-pod0a1b.slice/"
		fs     = "kubepods/burstable/pod0a1b-22cc/"
	)
	for name, c := range map[string]struct {
		dirs []string
		want string
	}{
		"containerd, systemd":  {[]string{systmd + "cri-containerd-" + id + ".scope"}, systmd + "cri-containerd-" + id + ".scope"},
		"containerd, cgroupfs": {[]string{fs + id}, fs + id},
		"containerd, cgroupfs with a systemd path": {
			[]string{"system.slice/containerd.service/kubepods-pod0a1b.slice:cri-containerd:" + id},
			"system.slice/containerd.service/kubepods-pod0a1b.slice:cri-containerd:" + id,
		},
		"CRI-O, systemd": {
			[]string{systmd + "crio-" + id + ".scope", systmd + "crio-conmon-" + id + ".scope"}, systmd + "crio-" + id + ".scope",
		},
		"CRI-O, systemd, a cgroup within": {
			[]string{systmd + "crio-" + id + ".scope/container", systmd + "crio-conmon-" + id + ".scope"}, systmd + "crio-" + id + ".scope",
		},
		"CRI-O, cgroupfs":            {[]string{fs + "crio-conmon-" + id, fs + "crio-" + id}, fs + "crio-" + id},
		"a runtime within":           {[]string{fs + "aaa", fs + "aaa/docker/" + id, fs + id}, fs + id},
		"only conmon":                {[]string{systmd + "crio-conmon-" + id + ".scope"}, ""},
		"another with a longer name": {[]string{fs + id + "0"}, ""},
	} {
		files := map[string]string{"cgroup.controllers": "cpuset cpu"}
		for _, dir := range c.dirs {
			files[dir+"/cpuset.cpus"] = ""
		}
		got, err := put(t, files).Find([]string{id, "aaa"})
		if want := c.want; err != nil || strings.TrimPrefix(got[id], "/") != want {
			t.Errorf("%s: %q, %v; want %q", name, got[id], err, want)
		}
	}
}
