package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// freeHugePages returns the number of free huge pages of a size, in bytes, that the kernel has on a
// NUMA node.
type freeHugePages func(numaNode int, size int64) (pages int64, err error)

// hugePagesOfKernel reads sysfs.
func hugePagesOfKernel(numaNode int, size int64) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/node/node%d/hugepages/hugepages-%dkB/free_hugepages", numaNode, size>>10))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// hugePages returns the function that reads the free huge pages of the node, or nil if a file
// describes the machine.
func (w World) hugePages(c Config) freeHugePages {
	if w.FreeHugePages == nil && c.Machine == discover.LiveName {
		return hugePagesOfKernel
	}
	return w.FreeHugePages
}

// takenHugePages returns the huge pages that a Memory Manager counts as free and that the kernel
// does not have. A pod begins to use its pages after they were assigned to it, so the kernel
// normally has at least as many free pages as the manager counts. It has fewer if something uses
// pages that the manager does not count: Burstable pods (KEP-5759), or the host. The result omits
// sizes that cannot be read.
func takenHugePages(s *node.State, free freeHugePages) []telemetry.HugePages {
	if free == nil || !s.Policy().StaticMemory {
		return nil
	}
	var taken []telemetry.HugePages
	types := s.Memory().Capacity().Types()
	for _, n := range s.Memory().Nodes() {
		for t, name := range types {
			text, is := strings.CutPrefix(name, v1.ResourceHugePagesPrefix)
			size, err := podspec.ParseQuantity(text)
			if !is || err != nil || n.Free[t] == 0 {
				continue
			}
			pages, err := free(n.ID, size.Value())
			if missing := n.Free[t] - pages*size.Value(); err == nil && missing > 0 {
				taken = append(taken, telemetry.HugePages{NUMANode: n.ID, Resource: name, Bytes: missing})
			}
		}
	}
	return taken
}

// textOf describes huge pages that are in use.
func textOf(p telemetry.HugePages) string {
	return fmt.Sprintf("NUMA node %d: %s of %s are in use although the kubelet's Memory Manager counts them as free: a Burstable pod or a program of the host can have taken them; a pod that asks for them is admitted and can fail later",
		p.NUMANode, request.Bytes(p.Bytes), p.Resource)
}
