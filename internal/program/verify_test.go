package program

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/agent"
)

// TestVerifyPrintsThrottling checks that throttled periods are always shown and are not
// differences.
func TestVerifyPrintsThrottling(t *testing.T) {
	var out strings.Builder
	v := agent.Verified{Containers: 3, Throttling: agent.VerifiedThrottling{Exclusive: 2, Seconds: 2, Periods: 92, Throttled: 83, Notes: []string{"default/db: throttled"}}}
	if err := printVerified(&out, &v); err != nil {
		t.Error(err)
	}
	const line = "note: default/db: throttled\nexclusive containers: 2, throttled by their own or their pod's CFS quota in 83 of 92 periods of the last 2 s\n"
	if want := "3 containers run as they should\n" + line; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	v.WithoutClass = []string{"default/a asks for l3=1way"}
	if err := printVerified(&out, &v); err != nil || out.String() != "default/a asks for l3=1way\n3 containers run as they should\n"+line {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	v.WithoutClass = nil
	v.Differences = []string{"d"}
	if err := printVerified(&out, &v); err == nil || out.String() != "d\n"+line {
		t.Errorf("%q, %v", out.String(), err)
	}
}
