package discover

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestPCIIsRecorded checks that a recording has the PCI devices of the machine, and that a
// recording of a recording has them too.
func TestPCIIsRecorded(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/live/pci-devices.txtar")
	if err != nil {
		t.Fatal(err)
	}
	root, err := fixture(string(archive.Files[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	live, err := Live(root)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, d := range live.PCI {
		kinds = append(kinds, d.Kind())
	}
	if got := strings.Join(kinds, " "); got != "GPU GPU NIC NIC NIC accelerator NIC NVMe" {
		t.Errorf("the kinds are %s", got)
	}
	var first, second bytes.Buffer
	if err := live.WriteJSON(&first); err != nil {
		t.Fatal(err)
	}
	recorded, err := Read("node7.json", first.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(recorded.PCI, live.PCI) {
		t.Errorf("%+v is recorded as %+v", live.PCI, recorded.PCI)
	}
	if err := recorded.WriteJSON(&second); err != nil || second.String() != first.String() {
		t.Errorf("%v: it is written again as %s", err, second.String())
	}
}

// TestRecordedPCI checks that a file without PCI devices is still read, and that an invalid device
// leads to an error that names it.
func TestRecordedPCI(t *testing.T) {
	old, err := os.ReadFile("../../../examples/machines/vm-4cpu.json")
	if err != nil {
		t.Fatal(err)
	}
	if f, err := Read("old", old); err != nil || f.PCI != nil {
		t.Fatalf("%v: %+v", err, f)
	}
	for list, want := range map[string]string{
		`[]`:   "",
		`null`: "",
		`[{"address":"0000:17:00.0","class":"0x030200","vendor":"0x10de","device":"0x2330","numa_node":1,"pcie_root":"pci0000:16"}]`: "",
		`[{"address":"0000:17:00.0","class":"0x030200","vendor":"0x10de","device":"0x2330","numa_node":null}]`:                       "",
		`{}`:                    "pci_devices: it is an object, expected a list",
		`[3]`:                   "pci_devices[0]: it is 3, expected an object",
		`[{}]`:                  `entry 0 of pci_devices: address is "", expected the form`,
		`[{"address":"17:00"}]`: `address is "17:00", expected the form`,
		`[{"address":"0000:17:00.0","class":"GPU"}]`:                                                                `class is "GPU", expected the form`,
		`[{"address":"0000:17:00.0","class":"0x030200","vendor":"0x10de","device":"0x2330","numa_node":-1}]`:        "numa_node is -1, expected 0 to 63",
		`[{"address":"0000:17:00.0","class":"0x030200","vendor":"0x10de","device":"0x2330","pcie_root":"0000:16"}]`: `pcie_root is "0000:16", expected the form`,
		`[{"address":"0000:17:00.0","class":"0x030200","vendor":"0x10de","device":"0x2330","physfn":"0000:16:00"}]`: `physfn is "0000:16:00", expected the form`,
	} {
		data := fmt.Sprintf(`{"pci_devices":%s,%s`, list, strings.TrimPrefix(strings.TrimSpace(string(old)), "{"))
		_, err := Read("node7.json", []byte(data))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", list, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "node7.json: ")):
			t.Errorf("%s: %v, want %s", list, err, want)
		}
	}
}
