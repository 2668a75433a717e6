package inputs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/cli/inputs"
)

const (
	lscpu  = `{"cpus": [{"cpu": 0, "node": 0, "socket": 0, "core": 0, "l1d:l3": "0:0", "online": true}]}`
	memory = `{"policyName":"Static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":{"memory":{"total":4096}},"cells":[0]}},"checksum":1}`
)

// TestMachineOfDirectory checks which files of a directory count, and the errors about a kubelet's
// memory state. A MachineInfo and the other files have their tests in package discover.
func TestMachineOfDirectory(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		notes []string
		err   string
	}{
		{"checksum", map[string]string{"a": lscpu, "b": memory}, []string{"b: its checksum is wrong"}, ""},
		{"others", map[string]string{"a": lscpu, "b": strings.Replace(memory, `"checksum":1`, `"checksum":0`, 1), "sub/a": lscpu, "gz": "\x1f\x8b", "cpu_manager_state": `{"policyName":"static","defaultCpuSet":"0`, "large": strings.Repeat(lscpu, 100000)}, nil, ""},
		{"damaged", map[string]string{"a": lscpu, "b": memory[:60]}, nil, "b: the memory state of a kubelet is damaged: it is cut off after 60 bytes: copy it again"},
		{"null", map[string]string{"a": lscpu, "b": `{"policyName":"Static","machineState":{"0":null}}`}, nil, "b: NUMA node 0 has no memory in the memory state of a kubelet: copy the file again"},
		{"policy None", map[string]string{"a": lscpu, "b": `{"policyName":"None","machineState":{},"checksum":0}`}, nil, "b has no memory, because the policy of the kubelet's Memory Manager is None: add"},
		{"damaged MachineInfo", map[string]string{"a": `{"num_cores":1,"topology":[`}, nil, "a: not the description of a machine: the JSON is cut off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				write(t, filepath.Join(dir, name), text)
			}
			if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			f, err := (inputs.Reader{Names: inputs.Flags}).Machine(dir)
			if c.err != "" {
				if f != nil || err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, %v; want %q", f, err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := f.Machine.Node(0); n.Memory != 4096 || f.Name != dir {
				t.Errorf("%s has %d bytes", f.Name, n.Memory)
			}
			if !slices.EqualFunc(f.Notes, c.notes, strings.Contains) {
				t.Errorf("notes %q, want %q", f.Notes, c.notes)
			}
		})
	}
}

func TestMachineOfTooManyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 1001 {
		write(t, filepath.Join(dir, strconv.Itoa(i)), "")
	}
	if _, err := (inputs.Reader{Names: inputs.Flags}).Machine(dir); err == nil || !strings.Contains(err.Error(), "--machine: "+dir+" has more than 1000 files") {
		t.Errorf("got %v", err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
