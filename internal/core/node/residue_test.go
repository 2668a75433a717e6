package node

import "testing"

// TestFirstPools names the pods of lost CPUs only where their number fits.
func TestFirstPools(t *testing.T) {
	pools := []OwnPool{{"prod/a", 3}, {"prod/plain", 0}, {"prod/b", 4}, {"prod/c", 3}}
	for lost, want := range map[int]string{0: "", 1: "", 3: "prod/a or prod/c", 4: "prod/b", 7: "", 10: "prod/a and prod/b and prod/c"} {
		if got := FirstPools(lost, pools); got != want {
			t.Errorf("%d lost CPUs: %q, expected %q", lost, got, want)
		}
	}
}
