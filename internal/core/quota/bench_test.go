package quota_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

// BenchmarkOfGrant computes the quotas of a pod with many containers, one of which has a CPU of its
// own. A pod of kind phases has as many sets of containers that run at the same time as it has init
// containers, and each has another division.
func BenchmarkOfGrant(b *testing.B) {
	policy := many(b, node.ContainerScope).Policy()
	for _, kind := range []string{"plain", "shares", "phases"} {
		for _, n := range []int{10, 1000, 5000} {
			b.Run(fmt.Sprintf("kind=%s/containers=%d", kind, n), func(b *testing.B) {
				g := &node.Grant{Pod: podOf(kind, n), Containers: make([]node.ContainerGrant, n)}
				g.Pod.Containers[n-1].CPUs, g.Containers[n-1].CPUs = 1, cpuset.Of(1)
				b.ReportAllocs()
				for b.Loop() {
					quota.OfGrant(g, policy)
				}
			})
		}
	}
}

func podOf(kind string, n int) request.Pod {
	pod := request.Pod{Identity: request.Identity{UID: kind, Namespace: "default", Name: kind}, Ask: request.Ask{QoS: request.Guaranteed}}
	if kind != "plain" {
		pod.Kind, pod.CPULimit = request.PodLevel, 500_000
	}
	for i := range n {
		c := request.Container{Name: fmt.Sprintf("c%04d", i), Type: request.App, Sharing: request.FractionalCPU}
		if kind == "phases" {
			c.Type, c.CPURequest, c.CPULimit = request.ContainerType(i%2), int64(i%7), int64(100+i*13%997)
		}
		pod.Containers = append(pod.Containers, c)
	}
	return pod
}
