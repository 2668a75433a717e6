package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/core/node"
)

// TestTakenHugePages checks that the kernel's free huge pages are compared with those of the Memory
// Manager by NUMA node and size, and that more of them are no fault.
func TestTakenHugePages(t *testing.T) {
	const numa = `{"node_id": %d, "memory": 8589934592, "hugepages": [{"page_size": 2048, "num_pages": 64}, {"page_size": 1048576, "num_pages": 1}],
		"cores": [{"core_id": %[1]d, "thread_ids": [%[1]d], "socket_id": 0}]}`
	const policy = `{"kubeletconfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0","memoryManagerPolicy":%q,"evictionHard":{"memory.available":"100Mi"},
		"reservedMemory":[{"numaNode":0,"limits":{"memory":"100Mi"}}]}}`
	machine := filepath.Join(t.TempDir(), "machine.json")
	text := `{"num_cores": 2, "num_sockets": 1, "topology": [` + fmt.Sprintf(numa, 0) + "," + fmt.Sprintf(numa, 1) + `]}`
	if err := os.WriteFile(machine, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	state := func(manager string) *node.State {
		r := inputs.Reader{Names: inputs.Fields, Minor: 36, Stdin: strings.NewReader(fmt.Sprintf(policy, manager))}
		n, err := r.Node(inputs.NodeFiles{Machine: machine, Policy: "-"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := node.New(n.Found.Machine, n.Policy.Policy)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	kernel := map[string]int64{"0 2097152": 64, "0 1073741824": 1, "1 2097152": 16, "1 1073741824": 3}
	free := func(numaNode int, size int64) (int64, error) {
		pages, known := kernel[fmt.Sprint(numaNode, " ", size)]
		if !known {
			return 0, errors.New("no such file")
		}
		return pages, nil
	}
	taken := takenHugePages(state("Static"), free)
	if len(taken) != 1 || taken[0].NUMANode != 1 || taken[0].Resource != "hugepages-2Mi" || taken[0].Bytes != 96<<20 {
		t.Errorf("taken are %+v", taken)
	}
	if text := textOf(taken[0]); !strings.HasPrefix(text, "NUMA node 1: 96Mi of hugepages-2Mi are in use") {
		t.Error(text)
	}
	delete(kernel, "1 2097152")
	for name, of := range map[string][]any{
		"sizes that cannot be read":  {state("Static"), freeHugePages(free)},
		"a description of a machine": {state("Static"), freeHugePages(nil)},
		"no Memory Manager":          {state("None"), freeHugePages(free)},
	} {
		s, isState := of[0].(*node.State)
		f, isFree := of[1].(freeHugePages)
		if taken := takenHugePages(s, f); !isState || !isFree || len(taken) > 0 {
			t.Errorf("%s: %+v", name, taken)
		}
	}
}
