package main

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/test/cluster/hollow"
)

// pod is a grant in the form of the state file: an init container that is over or not, and an app
// container.
const pod = `{"uid":"a","namespace":"n","name":"p","sequence":10,"qos":"Guaranteed","kind":"plain","created":1,"containers":[` +
	`{"name":"init","lane":"init","asks":{"cpus":1,"memory":{"memory":1024},"equivalent":true,"cpuRequestMilli":1000,"cpuLimitMilli":1000},` +
	`"has":{"cpus":"32","memory":[{"type":"memory","nodes":[1]}],"memoryNodes":[1],"affinity":{"nodes":[1],"hasMask":true,"preferred":true,"admit":true}}},` +
	`{"name":"app","lane":"app","asks":{"cpus":2,"memory":{"memory":2048},"equivalent":true,"cpuRequestMilli":2000,"cpuLimitMilli":2000},` +
	`"has":{"cpus":"32-33","memory":[{"type":"memory","bytes":2048,"nodes":[1]}],"memoryNodes":[1],"affinity":{"nodes":[1],"hasMask":true,"preferred":true,"admit":true}}}]}`

// TestMovedBetween checks what counts as a move: other CPUs, or other NUMA nodes. The memory of an
// init container that has ended is none.
func TestMovedBetween(t *testing.T) {
	at := func(text string) []hollow.NodeState {
		return []hollow.NodeState{{Name: "n1", Grants: map[string]string{"a": text}}}
	}
	for _, c := range []struct {
		old, new    string
		kept, moved int
	}{
		{"", "", 1, 0},
		{`"memory":[{"type":"memory","nodes":[1]}],`, "", 1, 0},
		{`"cpus":"32-33"`, `"cpus":"32,34"`, 0, 1},
		{`"bytes":2048,"nodes":[1]}],"memoryNodes":[1]`, `"bytes":2048,"nodes":[0]}],"memoryNodes":[0]`, 0, 1},
	} {
		kept, moved, err := movedBetween(at(pod), at(strings.Replace(pod, c.old, c.new, 1)))
		if err != nil || kept != c.kept || len(moved) != c.moved {
			t.Errorf("%s instead of %s: %d kept, %q moved, %v", c.new, c.old, kept, moved, err)
		}
	}
	if kept, moved, err := movedBetween(at(pod), nil); kept != 0 || len(moved) != 0 || err != nil {
		t.Errorf("a pod that has ended: %d kept, %q moved, %v", kept, moved, err)
	}
}
