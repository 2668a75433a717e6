package discover

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// anIsolation draws what a kernel keeps away from CPUs. The CPUs need not be on the machine.
func anIsolation(t *rapid.T) machine.Isolation {
	set := func(name string) cpuset.Set {
		return cpuset.Of(rapid.SliceOfN(rapid.IntRange(0, 300), 0, 4).Draw(t, name)...)
	}
	return machine.Isolation{Isolated: set("isolated"), NoHzFull: set("nohz_full"), ManagedIRQ: set("managed_irq")}
}

func TestManagedIRQ(t *testing.T) {
	for cmdline, want := range map[string]string{
		"":                                      "",
		"quiet isolcpus=2-3":                    "",
		"isolcpus=domain,2-3":                   "",
		"isolcpus=managed_irq,2-3,7":            "2-3,7",
		"isolcpus=nohz,domain,managed_irq,2 ro": "2",
		"isolcpus=managed_irq":                  "",
		"isolcpus=managed_irq,1 isolcpus=2":     "1",
		"isolcpus=managed_irq,1 isolcpus=managed_irq,2-3": "2-3",
		"isolcpus=managed_irq,0-31:1/2":                   "",
		"xisolcpus=managed_irq,2 managed_irq=3":           "",
		"isolcpus=managed_irq,,":                          "",
		"isolcpus=managed_irq,2-":                         "",
		"isolcpus= isolcpus=, isolcpus=managed_":          "",
	} {
		if got := managedIRQ(cmdline).String(); got != want {
			t.Errorf("%q: %q, want %q", cmdline, got, want)
		}
	}
}

// TestIsolationIsRecorded checks that a machine without isolation has no new member, and that
// Describe and Read keep the isolation of others.
func TestIsolationIsRecorded(t *testing.T) {
	plain, err := Read("m.json", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Describe(plain.Machine)
	if err != nil || strings.Contains(string(text), "isolation") {
		t.Errorf("a machine without isolation is described as %s: %v", text, err)
	}
	f, err := Read("m.json", []byte(`{"isolation":{"isolated":"1","nohz_full":"0-1"},`+small[1:]))
	if err != nil {
		t.Fatal(err)
	}
	want := machine.Isolation{Isolated: cpuset.Of(1), NoHzFull: cpuset.Of(0, 1)}
	if got := f.Machine.Isolation(); !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if text, err = Describe(f.Machine); err != nil {
		t.Fatal(err)
	}
	again, err := Read("described", text)
	if err != nil || !reflect.DeepEqual(again.Machine.Isolation(), want) {
		t.Errorf("described as %s, which is read as %+v: %v", text, again, err)
	}
}

func TestBadIsolation(t *testing.T) {
	_, err := Read("m.json", []byte(`{"isolation":{"isolated":"1-x"},`+small[1:]))
	if err == nil || !strings.Contains(err.Error(), "m.json: isolated of isolation: ") || !strings.Contains(err.Error(), `such as "2-7"`) {
		t.Errorf("error %v, want one that names the file, the list and its form", err)
	}
}

// TestKernelFiles checks that a folder has the isolation that Live finds in the kernel's own files.
func TestKernelFiles(t *testing.T) {
	want := machine.Isolation{Isolated: cpuset.Of(1, 3), NoHzFull: cpuset.Of(3), ManagedIRQ: cpuset.Of(1, 3)}
	for text, want := range map[string]machine.Isolation{
		"/sys/devices/system/cpu/isolated:1,3\n/sys/devices/system/cpu/nohz_full:3\n/proc/cmdline:isolcpus=managed_irq,domain,1,3\n/proc/cmdline:nohz_full=3\n": want,
		"/proc/cmdline:quiet isolcpus=managed_irq,domain,1,3 nohz_full=3\n/sys/devices/system/cpu/nohz_full:  3\r\n/sys/devices/system/cpu/isolated:1,3":        want,
		"/sys/devices/system/cpu/isolated:\n/sys/devices/system/cpu/nohz_full:  (null)\n":                                                                       {},
		"/sys/devices/system/cpu/isolated:1-3": {Isolated: cpuset.Of(1, 2, 3)},
	} {
		f, err := Assemble("d", files(map[string]string{"a": tableText, "b": numactlFile, "c": text}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Machine.Isolation(); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
		written := &strings.Builder{}
		if err := f.WriteJSON(written); err != nil {
			t.Fatal(err)
		}
		again, err := Read("written", []byte(written.String()))
		if err != nil || !reflect.DeepEqual(again.Machine.Isolation(), want) {
			t.Errorf("%q: written and read again %+v, want %+v: %v", text, again, want, err)
		}
	}
}

func TestBadKernelFile(t *testing.T) {
	for _, text := range []string{"/sys/devices/system/cpu/isolated:1-x", "/sys/devices/system/cpu/nohz_full:none"} {
		_, err := Assemble("d", files(map[string]string{"a": tableText, "b": numactlFile, "c": text}), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "d/c: /sys/devices/system/cpu/") || !strings.Contains(err.Error(), `such as "2-7"`) {
			t.Errorf("%q: error %v, want one that names the files and the form", text, err)
		}
	}
}
