package config

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// TestResolveOffline checks that reservedSystemCPUs may name offline CPUs, but no other CPUs that
// the machine lacks. A kubelet rejects both, and so does Resolve.
func TestResolveOffline(t *testing.T) {
	full := plans["pair"].machine(t) // CPUs 0-15
	m, err := full.Without(cpuset.Of(1, 8))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reserved string
		offline  cpuset.Set
		rejected string
	}{
		{"0-1", cpuset.Of(1, 8), ""},
		{"0-1", cpuset.Of(8), "the machine has no CPU 1"},
		{"0-1", cpuset.Set{}, "the machine has no CPU 1"},
		{"0-1,16", cpuset.Of(1, 8), "the machine has no CPU 16"},
		{"0,2", cpuset.Of(1, 8), ""},
	} {
		config, err := FromJSON([]byte(`{"cpuManagerPolicy": "static", "reservedSystemCPUs": "` + c.reserved + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		policy, err := config.ResolveOffline(m, c.offline)
		switch {
		case c.rejected == "" && (err != nil || policy.ReservedCPUs.String() != c.reserved):
			t.Errorf("reserved %s, offline %s: reserves %s, %v", c.reserved, c.offline, policy.ReservedCPUs, err)
		case c.rejected != "" && (err == nil || !strings.Contains(err.Error(), c.rejected)):
			t.Errorf("reserved %s, offline %s: error %v, want %q", c.reserved, c.offline, err, c.rejected)
		}
		if !config.NamesReserved() {
			t.Errorf("reserved %s are not named", c.reserved)
		}
	}
	config, err := FromJSON([]byte(`{"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "2"}}`))
	if err != nil || config.NamesReserved() {
		t.Errorf("a number of CPUs is named: %v", err)
	}
}
