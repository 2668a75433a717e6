package config_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
)

// nodes returns a machine with n NUMA nodes. Each has one core with two threads and 4 GiB. The
// first has 1 GiB of its memory in huge pages.
func nodes(t *testing.T, n int) *machine.Machine {
	t.Helper()
	var d machine.Description
	for i := range n {
		d.Nodes = append(d.Nodes, machine.NodeDescription{
			ID: i, Memory: 4 << 30,
			Cores: []machine.CoreDescription{{Threads: []int{2 * i, 2*i + 1}, Uncore: machine.NoUncore}},
		})
	}
	d.Nodes[0].HugePages = []machine.HugePages{{SizeKiB: 2048, Count: 512}}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSuggestReservedMemory checks that suggested entries are accepted, and that correct entries
// are left unchanged.
func TestSuggestReservedMemory(t *testing.T) {
	m := nodes(t, 2)
	for _, c := range []struct{ reserved, entries, want string }{
		{"412Mi", `{"numaNode":0,"limits":{"memory":"512Mi"}}`, "[]"},
		{"412Mi", `{"numaNode":0,"limits":{"memory":"412Mi"}}`, "[{numaNode: 0, limits: {memory: 512Mi}}]"},
		{"412Mi", `{"numaNode":0,"limits":{"memory":"300Mi"}},{"numaNode":1,"limits":{"memory":"300Mi"}}`, "[{numaNode: 0, limits: {memory: 300Mi}} {numaNode: 1, limits: {memory: 212Mi}}]"},
		{"412Mi", `{"numaNode":7,"limits":{"memory":"512Mi"}}`, "[{numaNode: 0, limits: {memory: 512Mi}}]"},
		{"412Mi", `{"numaNode":0,"limits":{"memory":"512Mi","hugepages-2Mi":"2Mi"}}`, "[{numaNode: 0, limits: {memory: 512Mi}}]"},
		{"3996Mi", `{"numaNode":0,"limits":{"memory":"4Gi"}}`, "[{numaNode: 0, limits: {memory: 3Gi}} {numaNode: 1, limits: {memory: 1Gi}}]"},
		{"100Gi", `{"numaNode":0,"limits":{"memory":"4Gi"}}`, "[]"},
		{"x", `{"numaNode":0,"limits":{"memory":"4Gi"}}`, "[]"},
	} {
		config := func(entries string) *kubeletcfg.Config {
			return read(t, fmt.Sprintf(`{"memoryManagerPolicy":"Static","kubeReserved":{"memory":%q},"reservedMemory":[%s]}`, c.reserved, entries))
		}
		got := config(c.entries).SuggestReservedMemory(m)
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s, %s: got %v, want %s", c.reserved, c.entries, got, c.want)
		}
		if len(got) == 0 {
			continue
		}
		var entries string
		for i, r := range got {
			entries += fmt.Sprintf(`%s{"numaNode":%d,"limits":{"memory":%q}}`, []string{"", ","}[min(i, 1)], r.NUMANode, r.Memory)
		}
		if _, err := config(entries).Resolve(m); err != nil {
			t.Errorf("%s, %s: %v is refused: %v", c.reserved, c.entries, got, err)
		}
	}
}

func read(t *testing.T, text string) *kubeletcfg.Config {
	t.Helper()
	c, err := kubeletcfg.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEmptyNodes(t *testing.T) {
	for options, want := range map[string]string{
		`"reservedSystemCPUs":"0"`:   "[]",
		`"reservedSystemCPUs":"0-3"`: "[]",
		`"reservedSystemCPUs":"2-3"`: "[reservedSystemCPUs: all CPUs of NUMA node 1 (2-3) are reserved: no container gets CPUs of its own beside its memory]",
		`"reservedSystemCPUs":"0-1","cpuManagerPolicyOptions":{"strict-cpu-reservation":"true"}`: "[reservedSystemCPUs: all CPUs of NUMA node 0 (0-1) are reserved strictly: nothing runs there, and its memory is far from every container]",
	} {
		got := read(t, `{"cpuManagerPolicy":"static",`+options+`}`).EmptyNodes(nodes(t, 2))
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, want %s", options, got, want)
		}
	}
}

func TestKubeletRejects(t *testing.T) {
	for _, c := range []struct {
		nodes int
		text  string
		want  int
	}{
		{8, `{"topologyManagerPolicy":"restricted"}`, 0},
		{9, `{"topologyManagerPolicy":"restricted"}`, 1},
		{9, `{}`, 0},
		{9, `{"topologyManagerPolicy":"restricted","topologyManagerPolicyOptions":{"max-allowable-numa-nodes":"9"}}`, 0},
	} {
		if got := read(t, c.text).KubeletRejects(nodes(t, c.nodes)); len(got) != c.want {
			t.Errorf("%d NUMA nodes, %s: got %v, want %d", c.nodes, c.text, got, c.want)
		}
	}
}
