package converge_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// TestDesiredFor checks that every container has a setting, whether its pod had it at admission or
// not.
func TestDesiredFor(t *testing.T) {
	isolated := node.QuotaPolicy{Isolated: true, EphemeralMilli: quota.DefaultEphemeralMilli}
	for _, c := range []struct {
		pod, container string
		quota          node.QuotaPolicy
		want           string
	}{
		{"own", "app", isolated, "cpus 1 quota none pod none"},
		{"own", "log", isolated, "cpus 0,2-3 quota keep pod none"},
		{"own", "debugger-x7", isolated, "cpus 0,2-3 quota 100000 pod none"},
		{"own", "debugger-x7", node.QuotaPolicy{Isolated: true, EphemeralMilli: 250}, "cpus 0,2-3 quota 25000 pod none"},
		{"own", "debugger-x7", node.QuotaPolicy{Isolated: true}, "cpus 0,2-3 quota keep pod none"},
		{"own", "debugger-x7", node.QuotaPolicy{}, "cpus 0,2-3 quota keep pod none"},
		{"other", "debugger-x7", isolated, "cpus 0,2-3 quota keep pod keep"},
		{"gone", "c", isolated, "cpus 0,2-3 quota keep pod keep"},
	} {
		s := quotaState(t, c.quota)
		got := converge.Want(s).Setting(c.pod, c.container)
		text := fmt.Sprintf("cpus %s quota %s pod %s", got.CPUs, got.Quota, converge.Want(s).PodQuota(c.pod))
		if text != c.want {
			t.Errorf("%s/%s under %+v: %s, want %s", c.pod, c.container, c.quota, text, c.want)
		}
	}
}

// quotaState returns state with another quota policy.
func quotaState(t *testing.T, q node.QuotaPolicy) *node.State {
	t.Helper()
	s := state(t, false, 1)
	p := s.Policy()
	p.Quota = q
	s, err := node.Restore(s.Machine(), p, s.Grants())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
