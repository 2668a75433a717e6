package converge

import "github.com/paddock-project/paddock/internal/core/node"

// DesiredFor is what a container should run on, whatever is known of it. One that its pod had when
// it was admitted gets what Desired returns. Any other runs on the node shared pool, memory where
// the runtime put it: one that was added to its pod later, which is an ephemeral container, with
// the quota of node.Grant.EphemeralQuota; one of a pod without a grant with the quota that the
// kubelet wrote. CPUs are empty where the policy does not manage them, and where the node shared
// pool is empty.
func DesiredFor(s *node.State, podUID, container string) Setting {
	g, known := s.Grant(podUID)
	if !known {
		return Setting{CPUs: s.SharedCPUs()}
	}
	if _, i := g.Pod.Container(container); i >= 0 {
		return Desired(s, g, i)
	}
	return Setting{CPUs: s.SharedCPUs(), Quota: g.EphemeralQuota(s.Policy())}
}

// DesiredPodQuota is the CFS quota that the cgroup of a pod should have; node.KeepQuota for a pod
// without a grant. A runtime cannot set it through NRI: the agent writes it, and again
// after the kubelet has written its own, as it does when a container of the pod is resized.
func DesiredPodQuota(s *node.State, podUID string) node.Quota {
	if g, known := s.Grant(podUID); known {
		return g.PodQuota(s.Policy())
	}
	return node.KeepQuota
}
