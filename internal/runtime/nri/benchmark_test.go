package nri_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/node"
)

// BenchmarkAdmission is the life of a pod that fits without moves, on a node that moves no pods and
// on one that does: its sandbox is created and removed, and its grant is released. The disk takes
// no time.
func BenchmarkAdmission(b *testing.B) {
	for name, policy := range map[string]node.MovePolicy{"static": {}, "dynamic": {Pods: 2, Bytes: 1 << 30}} {
		b.Run(name, func(b *testing.B) {
			n := newBench(b.Context())
			n.policy.Moves = policy
			n.start()
			defer n.disconnect()
			n.list(guaranteed("other", 2), guaranteed("g", 2))
			if err := n.run("other"); err != nil {
				b.Fatal(err)
			}
			box := &api.PodSandbox{Id: "x", Uid: "g", Name: "g", Namespace: "default"}
			b.ReportAllocs()
			for b.Loop() {
				if err := n.plugin.RunPodSandbox(b.Context(), box); err != nil {
					b.Fatal(err)
				}
				if err := n.plugin.RemovePodSandbox(b.Context(), box); err != nil {
					b.Fatal(err)
				}
				if err := n.engine.Release(b.Context(), "g"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCreateContainer is the answer for one exclusive container on a node where that many
// others share and each of them must be moved.
func BenchmarkCreateContainer(b *testing.B) {
	for _, others := range []int{10, 100, 500} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			n := newBench(b.Context())
			n.start()
			defer n.disconnect()
			n.list(guaranteed("g", 2))
			for i := range others {
				n.list(burstable(fmt.Sprint("b", i)))
				if err := n.run(fmt.Sprint("b", i)); err != nil {
					b.Fatal(err)
				}
			}
			box := &api.PodSandbox{Id: "x", Uid: "g", Name: "g", Namespace: "default"}
			if err := n.plugin.RunPodSandbox(b.Context(), box); err != nil {
				b.Fatal(err)
			}
			c := &api.Container{Id: "y", PodSandboxId: "x", Name: "app"}
			for b.Loop() { // Nothing is confirmed, so every answer has all the updates.
				_, updates, err := n.plugin.CreateContainer(b.Context(), box, c)
				if err != nil || len(updates) != others {
					b.Fatalf("%d updates, %v", len(updates), err)
				}
				n.clock.pass(time.Second)
			}
		})
	}
}
