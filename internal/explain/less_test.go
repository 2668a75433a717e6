package explain_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// TestLess checks that a proposal lowers the sum of all requests at least by the excess, raises
// nothing, and is admitted.
func TestLess(t *testing.T) {
	s := filled(t, "../../examples/machines/epyc-2s-nps4.json", node.TopologyRestricted, node.PodScope)
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		pod := simple("p", rapid.Int64Range(1, 60).Draw(t, "CPUs"), rapid.Int64Range(1, 120).Draw(t, "GiB")<<30)
		resource := rapid.SampledFrom([]string{request.CPU, request.Memory}).Draw(t, "resource")
		excess := rapid.Int64Range(1, 60_000).Draw(t, "excess") // thousandths, or MiB
		if resource == request.Memory {
			excess <<= 20
		}
		p, ok := explain.Less(t.Context(), s, pod, resource, excess)
		if !ok {
			return
		}
		found++
		off := int64(0)
		for _, c := range p.Changes {
			if c.To >= c.From {
				t.Fatalf("%+v is not less", c)
			}
			if c.Resource == resource {
				off += c.From - c.To
			}
		}
		if resource == request.CPU {
			off *= 1000
		}
		if off < excess || p.Outcome == "" {
			t.Fatalf("%q takes %d off, want %d; it would be %q", p.Text, off, excess, p.Outcome)
		}
	})
	if found == 0 {
		t.Error("no proposal at all")
	}
}
