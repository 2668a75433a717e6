package cluster

import (
	"testing"

	"github.com/paddock-project/paddock/internal/core/request"
)

// TestConcerns checks that a pod of which only an annotation asks for something of the caches is a
// question to the nodes: one that divides its caches rejects it.
func TestConcerns(t *testing.T) {
	shared := request.Container{Name: "c", Type: request.App, Sharing: request.NoCPURequest}
	for name, c := range map[string]struct {
		change func(p *request.Pod)
		want   bool
	}{
		"nothing":              {func(*request.Pod) {}, false},
		"ways":                 {func(p *request.Pod) { p.Containers[0].Cache.Ways = 1 }, true},
		"bandwidth":            {func(p *request.Pod) { p.Containers[0].Cache.Bandwidth = 10 }, true},
		"ways of its pool":     {func(p *request.Pod) { p.PoolCache.Percent = 10 }, true},
		"an unclear amount":    {func(p *request.Pod) { p.CacheUnclear = "no number" }, true},
		"exclusive CPUs":       {func(p *request.Pod) { p.Containers[0].CPUs = 2 }, true},
		"an annotation beside": {func(p *request.Pod) { p.SharesIsolated = true }, false},
	} {
		pod := request.Pod{Ask: request.Ask{QoS: request.Burstable, Containers: []request.Container{shared}}}
		c.change(&pod)
		if got := Concerns(&pod); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
