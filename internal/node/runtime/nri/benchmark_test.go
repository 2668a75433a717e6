package nri_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// BenchmarkAdmission measures the life of a pod that fits without moves, on a node that moves no
// pods and on one that does: its sandbox is created and removed, and its grant is released. The
// disk takes no time.
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

// wide returns a pod-level pod with the given number of containers: one exclusive, the others share
// the rest of the pod's limit. Under every other scope they share the pod's pool.
func wide(containers int) request.Pod {
	pod := request.Pod{Identity: request.Identity{UID: "wide", Namespace: "default", Name: "wide"}, Ask: request.Ask{QoS: request.Guaranteed, Kind: request.PodLevel, BudgetCPUs: 4, BudgetCPUMilli: 4000, CPULimit: 4000}}
	for i := range containers - 1 {
		c := request.Container{Name: fmt.Sprint("c", i), Type: request.App, Sharing: request.NotEquivalent}
		if i < containers/2 {
			c.Type = []request.ContainerType{request.Sidecar, request.Init}[i%2]
		}
		pod.Containers = append(pod.Containers, c)
	}
	return withExclusive(pod)
}

func withExclusive(pod request.Pod) request.Pod {
	pod.Containers = append(pod.Containers, request.Container{Name: "app", Type: request.App, CPUs: 2, Equivalent: true, CPURequest: 2000, CPULimit: 2000})
	return pod
}

// BenchmarkManyContainers measures the loop on a node with many containers, all of one pod or one
// in each pod, which run on all CPUs when the agent connects. It measures the reply to Synchronize,
// which updates each of them, and the reply to one more creation, which does the same.
func BenchmarkManyContainers(b *testing.B) {
	for _, scope := range []node.Scope{node.PodScope, node.ContainerScope} {
		for _, containers := range []int{10, 1000, 5000} {
			b.Run(fmt.Sprintf("one pod, scope %s/%d", scope, containers), func(b *testing.B) {
				manyContainers(b, scope, wide(containers))
			})
		}
	}
	for _, containers := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprintf("pods/%d", containers), func(b *testing.B) {
			var pods []request.Pod
			for i := range containers {
				pods = append(pods, burstable(fmt.Sprint("b", i)))
			}
			manyContainers(b, node.PodScope, pods...)
		})
	}
}

func manyContainers(b *testing.B, scope node.Scope, pods ...request.Pod) {
	b.Helper()
	n := newBench(b.Context(), func(c *nri.Config) { c.Timeout = time.Minute })
	n.hurry = 10 * time.Minute
	n.policy.Scope = scope
	n.policy.Quota.Isolated = true
	n.start()
	defer n.disconnect()
	n.list(append(pods, guaranteed("one more", 2))...)
	var boxes []*api.PodSandbox
	var containers []*api.Container
	for _, pod := range pods {
		box := &api.PodSandbox{Id: "box-" + pod.UID, Uid: pod.UID, Name: pod.UID, Namespace: "default"}
		boxes = append(boxes, box)
		for _, c := range pod.Containers {
			containers = append(containers, &api.Container{
				Id: pod.UID + "-" + c.Name, PodSandboxId: box.Id, Name: c.Name, State: api.ContainerState_CONTAINER_RUNNING,
			})
		}
	}
	var create, synchronize time.Duration
	last := &api.PodSandbox{Id: "last", Uid: "one more", Name: "one more", Namespace: "default"}
	for b.Loop() {
		begin := time.Now()
		updates, err := n.plugin.Synchronize(b.Context(), boxes, containers)
		if err != nil || len(updates) < len(containers) {
			b.Fatalf("%d updates, %v", len(updates), err)
		}
		synchronize += time.Since(begin)
		n.clock.pass(time.Minute)
		if err := n.plugin.RunPodSandbox(b.Context(), last); err != nil {
			b.Fatal(err)
		}
		begin = time.Now()
		if _, _, err = n.plugin.CreateContainer(b.Context(), last, &api.Container{Id: "one more", PodSandboxId: "last", Name: "app"}); err != nil && !strings.Contains(err.Error(), "are not free yet") {
			b.Fatal(err)
		}
		create += time.Since(begin)
	}
	b.ReportMetric(float64(synchronize.Microseconds())/1000/float64(b.N), "ms/synchronize")
	b.ReportMetric(float64(create.Microseconds())/1000/float64(b.N), "ms/create")
}

// BenchmarkCreateContainer measures the answer for one exclusive container on a node on which the
// given number of other containers share CPUs and each of them must be moved.
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
