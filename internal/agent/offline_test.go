package agent

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// withoutCPUs returns c with a machine on which some of the eight CPUs have gone offline.
func withoutCPUs(t *testing.T, c Config, offline ...int) Config {
	t.Helper()
	b := &bench{t: t, config: c}
	var online []int
	for id := range 8 {
		if !strings.Contains(fmt.Sprint(offline), fmt.Sprint(id)) {
			online = append(online, id)
		}
	}
	b.machine(online...)
	return b.config
}

// TestVerifyNamesDegradedPods: the container app of pod db has CPUs 1-2. An offline CPU among them
// is not a difference. A container that runs on other CPUs than it should is one, and so is a
// container that shares and has no quota.
func TestVerifyNamesDegradedPods(t *testing.T) {
	shared := map[string]string{
		"kubepods/podu1/bbb/cpuset.cpus": "0,3-7", "kubepods/podu1/aaa/cpuset.cpus": "0,3-7", "kubepods/podu1/aaa/cpu.max": "200000 100000",
	}
	for _, c := range []struct {
		name, app, quota string
		offline          []int
		degraded         string
		want             []string
	}{
		{name: "one of two", app: "1", quota: "max 100000", offline: []int{2}, degraded: "default/db (uid u1): degraded: its CPUs 2 are offline"},
		{name: "both", app: "0,3-7", quota: "200000 100000", offline: []int{1, 2}, degraded: "its CPUs 1-2 are offline; these containers have no online CPU and run elsewhere: app 0,3-7"},
		{
			name: "both, and not moved", app: "1-2", quota: "max 100000", offline: []int{1, 2}, degraded: "its CPUs 1-2 are offline",
			want: []string{`container app: cpuset.cpus is "1-2", expected "0,3-7"`, "container app: it has no CFS quota, expected a CFS quota of 200000 µs"},
		},
		{name: "back, and not moved", app: "0,3-7", quota: "max 100000", want: []string{`cpuset.cpus is "0,3-7", expected "1-2"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			shared["kubepods/podu1/aaa/cpuset.cpus"], shared["kubepods/podu1/aaa/cpu.max"] = c.app, c.quota
			v, err := Verify(t.Context(), withoutCPUs(t, verifying(t, shared), c.offline...), slog.New(slog.DiscardHandler), atOnce)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(v.Degraded, "\n"); (c.degraded == "") != (got == "") || !strings.Contains(got, c.degraded) {
				t.Errorf("degraded: %q, want %q", got, c.degraded)
			}
			if len(v.Differences) != len(c.want) {
				t.Fatalf("differences %q, want %q", v.Differences, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(v.Differences[i], want) {
					t.Errorf("%q, want %q", v.Differences[i], want)
				}
			}
		})
	}
}
