package publication

import (
	"testing"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/classtest"
)

// TestClassOf checks that rejected pods are counted apart by what they request of the caches.
func TestClassOf(t *testing.T) {
	pods := classtest.Pods()
	unclear, same := pods[0], pods[0]
	unclear.CacheUnclear = "no number"
	same.Containers = append([]request.Container{same.Containers[0]}, same.Containers...)
	for want, pod := range map[string]request.Pod{
		"4 CPUs, 2Gi of memory, cache l3=4ways,mb=20%":         pods[0],
		"12 CPUs, 8Gi of memory, several parts of the caches":  pods[1],
		"2 CPUs, 2Gi of memory":                                pods[2],
		"4 CPUs, 2Gi of memory, an unclear part of the caches": unclear,
		"8 CPUs, 4Gi of memory, cache l3=4ways,mb=20%":         same,
	} {
		if got := classOf(&pod); got != want {
			t.Errorf("%s: %q, want %q", pod.ID(), got, want)
		}
	}
}
