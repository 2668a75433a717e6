package explain

import "testing"

func TestInstead(t *testing.T) {
	const mebi, gibi = 1 << 20, 1 << 30
	for _, x := range []struct {
		change Change
		want   string
	}{
		{Change{Resource: "cpu", From: 14, To: 1}, "1 CPU instead of 14"},
		{Change{Resource: "memory", From: 90 * gibi, To: 83 * gibi}, "83Gi of memory instead of 90Gi"},
		{Change{Resource: "memory", From: 46 * gibi, To: 3275 * mebi}, "3275Mi (3.1Gi) of memory instead of 46Gi"},
		{Change{Resource: "memory", From: 720 * gibi, To: 519068 * mebi}, "519068Mi (506.9Gi) of memory instead of 720Gi"},
		{Change{Resource: "memory", From: 46 * gibi, To: 64 * mebi}, "64Mi of memory instead of 46Gi"},
		{Change{Resource: "memory", From: 4 * gibi, To: 2779 * mebi}, "2779Mi of memory instead of 4Gi"},
		{Change{Resource: "memory", From: 20000 * mebi, To: 15000 * mebi}, "15000Mi of memory instead of 20000Mi"},
		{Change{Resource: "example.com/gpu", From: 4, To: 2}, "2 example.com/gpu instead of 4"},
	} {
		if got := x.change.Instead(); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}
