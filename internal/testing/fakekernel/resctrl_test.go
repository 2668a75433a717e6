package fakekernel_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/testing/fakekernel"
)

func withResctrl(t *testing.T, name string) *fakekernel.Kernel {
	t.Helper()
	k, err := fakekernel.New(t.TempDir(), fakekernel.Options{CPUs: 16, Resctrl: name})
	must(t, err)
	return k
}

// TestSchemata checks what the kernel accepts, and what it has about the rest. The lines of the
// kernel are beside the rules of the fake.
func TestSchemata(t *testing.T) {
	for _, c := range []struct {
		machine, text, want, status string
	}{
		{"xeon-mba", "L3:0=f", "0=f;1=7ff", "ok"},
		{"xeon-mba", "L3:0=f;1=3\nMB:0=20", "0=f;1=3 0=  20;1= 100", "ok"},
		{"xeon-mba", "L3:0=5", "0=7ff;1=7ff", "The mask 5 has non-consecutive 1-bits"},
		{"xeon-mba", "L3:0=0", "0=7ff;1=7ff", "Mask out of range"},
		{"xeon-mba", "L3:0=fff", "0=7ff;1=7ff", "Mask out of range"},
		{"xeon-mba", "L3:0=xy", "0=7ff;1=7ff", "Non-hex character in the mask xy"},
		{"xeon-mba", "L3:7=f", "0=7ff;1=7ff", "ok"},
		{"xeon-mba", "L3:0=f;0=3", "0=7ff;1=7ff", "Duplicate domain 0"},
		{"xeon-mba", "L3:0=f\nMB:0=5", "0=7ff;1=7ff 0= 100", "MB value 5 out of range [10,100]"},
		{"xeon-mba", "MB:0=15", "0=  20;1= 100", "ok"},
		{"xeon-mba", "MB:0=x", "0= 100", "Invalid MB value x"},
		{"xeon-mba", "L3CODE:0=f", "0=7ff", "Unknown or unsupported resource name 'L3CODE'"},
		{"xeon-mba", "L3", "0=7ff", "Missing ':'"},
		{"xeon-mba", "L3:", "0=7ff", "Missing 'L3' value"},
		{"xeon-mba", "L3:f", "0=7ff", "Missing '=' or non-numeric domain"},
		{"xeon-cdp", "L3CODE:0=f", "L3DATA:0=7ff;1=7ff L3CODE:0=f;1=7ff", "ok"},
		{"xeon-cdp", "L3:0=f", "L3DATA:0=7ff", "Unknown or unsupported resource name 'L3'"},
		{"epyc", "L3:16=f0f", "16=f0f", "ok"},
		{"epyc", "L3:16=0", "16=0", "ok"},
		{"epyc", "MB:23=16", "23=  16", "ok"},
		{"epyc", "MB:23=4096", "23=2048", "MB value 4096 out of range [0,2048]"},
	} {
		k := withResctrl(t, c.machine)
		must(t, k.Dir("resctrl/g", true))
		err := k.Write("resctrl/g/schemata", c.text)
		if (err == nil) != (c.status == "ok" && !strings.HasPrefix(c.text, "L3:7")) || err != nil && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %q: %v", c.machine, c.text, err)
		}
		if got := k.Get("resctrl/info/last_cmd_status"); got != c.status {
			t.Errorf("%s: %q: the status is %q, want %q", c.machine, c.text, got, c.status)
		}
		for word := range strings.SplitSeq(c.want, " ") {
			if got := k.Get("resctrl/g/schemata"); !strings.Contains(got, strings.TrimSpace(word)) {
				t.Errorf("%s: %q: %q lacks %q", c.machine, c.text, got, word)
			}
		}
	}
}

// TestGroups covers directories: how many there can be, what a new one has, and where tasks go.
func TestGroups(t *testing.T) {
	k := withResctrl(t, "xeon-mba")
	must(t, k.AddCgroup("/kubepods/pod1/a", cpuset.Of(2)))
	must(t, k.AddThreads("/kubepods/pod1/a", 11, 12))
	must(t, k.Dir("resctrl/a", true))
	must(t, k.Write("resctrl/a/tasks", "11,12"))
	must(t, k.Write("resctrl/schemata", "L3:0=7f0;1=7f0"))
	must(t, k.Write("resctrl/a/schemata", "L3:0=f;1=f"))
	must(t, k.Write("resctrl/a/tasks", "11"))
	for file, want := range map[string]string{"resctrl/a/tasks": "11\n12", "resctrl/tasks": "", "resctrl/a/mode": "shareable"} {
		if got := k.Get(file); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	for name, c := range map[string]struct {
		err, want error
		status    string
	}{
		"a group that is there": {k.Dir("resctrl/a", true), syscall.EEXIST, ""},
		"a reserved name":       {k.Dir("resctrl/info", true), syscall.EEXIST, ""},
		"the default group":     {k.Dir("resctrl/", false), syscall.EPERM, ""},
		"a missing group":       {k.Dir("resctrl/b", false), syscall.ENOENT, ""},
		"a missing task":        {k.Write("resctrl/a/tasks", "99"), syscall.ESRCH, ""},
		"no task":               {k.Write("resctrl/a/tasks", "x"), syscall.EINVAL, ""},
		"no mode":               {k.Write("resctrl/a/mode", "mine"), syscall.EINVAL, ""},
		"a file of monitoring":  {k.Write("resctrl/a/mon_data/mon_L3_00/llc_occupancy", "1"), syscall.ENOENT, ""},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	must(t, k.Dir("resctrl/a", false))
	if got := k.Get("resctrl/tasks"); got != "11\n12" {
		t.Errorf("the tasks of a removed group: %q", got)
	}
	must(t, k.RemoveCgroup("/kubepods/pod1/a"))
	if got := k.Get("resctrl/tasks"); got != "" {
		t.Errorf("the tasks after their end: %q", got)
	}
}

// TestLimits covers exclusive groups, and how many groups there can be.
func TestLimits(t *testing.T) {
	k := withResctrl(t, "xeon-mba")
	must(t, k.Dir("resctrl/a", true))
	must(t, k.Write("resctrl/schemata", "L3:0=7f0;1=7f0"))
	must(t, k.Write("resctrl/a/schemata", "L3:0=f;1=f"))
	must(t, k.Write("resctrl/a/mode", "exclusive"))
	must(t, k.Dir("resctrl/b", true))
	if got := k.Get("resctrl/b/schemata"); !strings.Contains(got, "L3:0=7f0;1=7f0") { // Not the exclusive ways.
		t.Errorf("a new group has %q", got)
	}
	if err := k.Write("resctrl/b/schemata", "L3:0=8"); !errors.Is(err, syscall.EINVAL) || k.Get("resctrl/info/last_cmd_status") != "Overlaps with exclusive group" {
		t.Errorf("ways of an exclusive group: %v, %s", err, k.Get("resctrl/info/last_cmd_status"))
	}
	if err := k.Write("resctrl/b/mode", "exclusive"); !errors.Is(err, syscall.EINVAL) || k.Get("resctrl/info/last_cmd_status") != "Schemata overlaps" {
		t.Errorf("two exclusive groups: %v", err)
	}
	must(t, k.Dir("resctrl/a", false))
	for i := range 6 {
		must(t, k.Dir(fmt.Sprintf("resctrl/more-%d", i), true))
	}
	if err := k.Dir("resctrl/last", true); !errors.Is(err, syscall.ENOSPC) || k.Get("resctrl/info/last_cmd_status") != "Out of CLOSIDs" {
		t.Errorf("a ninth class: %v", err)
	}
	must(t, k.Dir("resctrl/more-0", false))
	k.SetLimbo(200)
	if err := k.Dir("resctrl/last", true); !errors.Is(err, syscall.EBUSY) || k.Get("resctrl/info/last_cmd_status") != "Out of RMIDs" {
		t.Errorf("without an id of monitoring: %v", err)
	}
	k.SetLimbo(0)
	k.DropPrivilege()
	if err := k.Dir("resctrl/last", true); !errors.Is(err, syscall.EACCES) {
		t.Errorf("without capabilities: %v", err)
	}
}

// TestHotplug takes the CPUs of a cache offline and online.
func TestHotplug(t *testing.T) {
	k := withResctrl(t, "xeon-mba")
	must(t, k.Dir("resctrl/a", true))
	must(t, k.Write("resctrl/a/schemata", "L3:0=f;1=f"))
	half := cpuset.Of(0, 1, 2, 3, 4, 5, 6, 7)
	must(t, k.SetOnline(half))
	if got := k.Get("resctrl/a/schemata"); got != "MB:0= 100\nL3:0=f" {
		t.Errorf("offline: %q", got)
	}
	if err := k.Write("resctrl/a/schemata", "L3:1=f"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a cache that is offline: %v", err)
	}
	must(t, k.SetOnline(half.Union(cpuset.Of(9))))
	if got := k.Get("resctrl/a/schemata"); got != "MB:0= 100;1= 100\nL3:0=f;1=7ff" {
		t.Errorf("online again: %q", got)
	}
	must(t, k.Reboot("again"))
	if got := k.Get("resctrl/a/schemata") + k.Get("resctrl/schemata"); got != "MB:0= 100;1= 100\nL3:0=7ff;1=7ff" {
		t.Errorf("after a restart: %q", got)
	}
}
