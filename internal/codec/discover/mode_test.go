package discover

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func example(t *testing.T, name string) *Found {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../examples/machines", name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestInMode checks that a machine in another mode has the same CPUs, caches and sockets, and that
// the way back leads to the same topology.
func TestInMode(t *testing.T) {
	for _, c := range []struct {
		name       string
		now, other int
		numa       int
	}{
		{"epyc-2s-nps4.json", 4, 1, 2},
		{"epyc-2s-nps4.json", 4, 2, 4},
		{"xeon-2s-snc2.json", 2, 1, 2},
		{"xeon-2s.json", 1, 2, 4},
		{"epyc-2s-l3numa-32n.json", 16, 4, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := example(t, c.name)
			other, err := f.InMode(c.other)
			if err != nil {
				t.Fatal(err)
			}
			m := other.Machine
			if len(m.Nodes()) != c.numa || !reflect.DeepEqual(m.Uncores(), f.Machine.Uncores()) || !reflect.DeepEqual(m.Sockets(), f.Machine.Sockets()) || !reflect.DeepEqual(m.Cores(), f.Machine.Cores()) {
				t.Errorf("%d NUMA nodes, expected %d, or other CPUs", len(m.Nodes()), c.numa)
			}
			back, err := other.InMode(c.now)
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range back.Machine.Nodes() {
				if now := f.Machine.Nodes()[i]; !n.CPUs.Equal(now.CPUs) || n.Memory != now.Memory {
					t.Errorf("NUMA node %d has CPUs %s and %d bytes, expected %s and %d", n.ID, n.CPUs, n.Memory, now.CPUs, now.Memory)
				}
			}
			if len(other.Remarks) == 0 || !strings.Contains(other.Remarks[0], "per socket") {
				t.Errorf("remarks: %q", other.Remarks)
			}
		})
	}
}

// TestInModeMovesDevices checks that a device stays on the NUMA node that has all CPUs of its own
// one, and that it is on none if its NUMA node is divided.
func TestInModeMovesDevices(t *testing.T) {
	f := example(t, "epyc-2s-nps4.json")
	at := 5
	f.PCI = []PCIDevice{{Address: "0000:01:00.0", NUMANode: &at}, {Address: "0000:02:00.0"}}
	one, err := f.InMode(1)
	if err != nil {
		t.Fatal(err)
	}
	if n := one.PCI[0].NUMANode; n == nil || *n != 1 || one.PCI[1].NUMANode != nil || *f.PCI[0].NUMANode != 5 {
		t.Errorf("%+v", one.PCI)
	}
	back, err := one.InMode(4)
	if err != nil || back.PCI[0].NUMANode != nil || !strings.Contains(strings.Join(back.Remarks, " "), "of 1 PCI devices") {
		t.Errorf("%+v, %q, %v", back.PCI, back.Remarks, err)
	}
}

// TestInSameMode checks that nothing changes in the mode that the machine has.
func TestInSameMode(t *testing.T) {
	f := example(t, "epyc-2s-nps4.json")
	same, err := f.InMode(4)
	if err != nil || same.Machine != f.Machine || !strings.Contains(same.Remarks[0], "already") {
		t.Errorf("%v, %v", same, err)
	}
}

// TestInModeRejects checks modes that the machine cannot have.
func TestInModeRejects(t *testing.T) {
	for _, c := range []struct {
		name      string
		perSocket int
		expected  string
	}{
		{"epyc-2s-nps4.json", 5, "socket 0 has 12 L3 caches, which 5 NUMA nodes cannot share equally"},
		{"epyc-2s-nps4.json", 0, "expected a number of NUMA nodes from 1"},
		{"xeon-2s.json", 3, "socket 0 has 32 cores, which 3 NUMA nodes"},
		{"xeon-2s-hbm.json", 2, "NUMA node 2 has no CPUs"},
	} {
		if _, err := example(t, c.name).InMode(c.perSocket); !errors.Is(err, ErrMode) || !strings.Contains(err.Error(), c.expected) {
			t.Errorf("%s in mode %d: %v, expected %q", c.name, c.perSocket, err, c.expected)
		}
	}
}
