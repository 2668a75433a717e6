package discover

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMade compares a machine with the numbers that describe it.
func TestMade(t *testing.T) {
	facts, err := ParseFacts("sockets=2, cores=48,threads=2,numa=2,memory=1Ti,gpus=8")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Made("made", facts)
	if err != nil {
		t.Fatal(err)
	}
	nodes := f.Machine.Nodes()
	if len(nodes) != 2 || nodes[1].CPUs.String() != "48-95,144-191" || nodes[1].Memory != 1<<39 || f.Machine.NumSockets() != 2 || len(f.Machine.Uncores()) != 2 || f.Machine.Distance(0, 1) != otherSocketDistance {
		t.Errorf("%+v", nodes)
	}
	if len(f.PCI) != 8 || *f.PCI[3].NUMANode != 0 || *f.PCI[4].NUMANode != 1 || f.PCI[0].Kind() != "GPU" || len(f.Remarks) > 0 {
		t.Errorf("%+v, remarks %q", f.PCI, f.Remarks)
	}
}

// TestMadeIsReadBack checks for any facts that the machine has their numbers, and that its JSON
// is the same machine.
func TestMadeIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := Facts{
			Sockets: rapid.IntRange(1, 4).Draw(t, "sockets"), Cores: rapid.IntRange(1, 12).Draw(t, "cores"), Threads: rapid.IntRange(1, 2).Draw(t, "threads"),
			NUMANodes: rapid.IntRange(1, 8).Draw(t, "numa"), Uncore: rapid.IntRange(0, 4).Draw(t, "uncore"), Memory: 1 << 36, GPUs: rapid.IntRange(0, 8).Draw(t, "gpus"),
		}
		if facts.check() != nil {
			t.Skip("they do not fit together")
		}
		f, err := Made("made", facts)
		if err != nil {
			t.Fatal(err)
		}
		m := f.Machine
		if len(m.Nodes()) != facts.NUMANodes || m.NumCPUs() != facts.Sockets*facts.Cores*facts.Threads || len(m.Sockets()) != facts.Sockets || len(f.PCI) != facts.GPUs {
			t.Fatalf("%+v: %d NUMA nodes, %d CPUs, %d sockets, %d GPUs", facts, len(m.Nodes()), m.NumCPUs(), len(m.Sockets()), len(f.PCI))
		}
		var out bytes.Buffer
		if err := f.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		back, err := Read("made", out.Bytes())
		if err != nil || len(back.PCI) != len(f.PCI) {
			t.Fatalf("%v: %s", err, out.Bytes())
		}
		x, _ := Describe(f.Machine)
		y, _ := Describe(back.Machine)
		if !bytes.Equal(x, y) {
			t.Fatalf("%s\nis read back as\n%s", x, y)
		}
	})
}

// TestParseFactsRejects checks that errors name the fact.
func TestParseFactsRejects(t *testing.T) {
	for text, expected := range map[string]string{
		"":                                       `"": expected NAME=VALUE`,
		"cores=4":                                "memory is missing",
		"cores=4,memory=x":                       `memory: "x"`,
		"core=4,memory=1Gi":                      `"core" is unknown: expected sockets,`,
		"cores=0,memory=1Gi":                     `cores: "0"`,
		"cores=4,cores=5,memory=1Gi":             "cores is given twice",
		"sockets=2,numa=3,cores=6,memory=1Gi":    "numa: 3 NUMA nodes",
		"sockets=1,numa=4,cores=6,memory=1Gi":    "cores: 6 cores of a socket",
		"uncore=4,cores=6,memory=1Gi":            "uncore: the 6 cores",
		"sockets=64,cores=64,threads=2,memory=1": "more than 4096 CPUs",
		"sockets=2,memory=64Gi":                  "cores is missing: expected the number of cores of a socket, such as cores=48",
		"cores=4,memory=512":                     `memory: "512" is 512 bytes: expected an amount with a unit (did you mean 512Gi?)`,
		"cores=4,memory=524288000":               `memory: "524288000": expected at least 1Gi`,
		"cores=4,memory=512Mi":                   `memory: "512Mi": expected at least 1Gi`,
	} {
		if _, err := ParseFacts(text); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%q: %v, expected %q", text, err, expected)
		}
	}
}
