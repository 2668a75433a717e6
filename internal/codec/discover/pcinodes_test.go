package discover

import (
	"fmt"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestPCINodes covers devices of every class, PCIe roots, and texts that are neither.
func TestPCINodes(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/live/pci-devices.txtar")
	if err != nil {
		t.Fatal(err)
	}
	root, err := fixture(string(archive.Files[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	nodes := PCINodes{root}
	for text, want := range map[string]string{
		"0000:19:00.0": "{0} {}", "0000:16:01.0": "{0} {}", "10000:e1:00.0": "{1} {}", "0000:02:00.0": "{} {}", "0000:32:00.0": "{} {}", "0000:ff:00.0": "{} {}",
		"pci0000:16": "{} {0}", "pci0000:80": "{} {1}", "pci0000:00": "{} {0}", "pci0000:99": "{} {}", "": "{} {}", "../../kernel": "{} {}", "pci0000:16/..": "{} {}",
	} {
		if got := fmt.Sprint(nodes.Function(text), nodes.Root(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
