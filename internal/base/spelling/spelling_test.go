package spelling

import (
	"testing"

	"pgregory.net/rapid"
)

// Distance must equal the simple recursive implementation.
func TestDistance(tt *testing.T) {
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 0, 6, -1)
	rapid.Check(tt, func(t *rapid.T) {
		a, b := letters.Draw(t, "a"), letters.Draw(t, "b")
		if got, want := Distance(a, b), plainDistance(a, b); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}

func plainDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	cost := 1
	if a[0] == b[0] {
		cost = 0
	}
	return min(plainDistance(a[1:], b[1:])+cost, plainDistance(a[1:], b)+1, plainDistance(a, b[1:])+1)
}

func TestNearest(t *testing.T) {
	known := []string{"cpuManagerPolicy", "memoryManagerPolicy", "kubeReserved"}
	for name, want := range map[string]string{
		"cpuManagerPolcy": "cpuManagerPolicy", "CPUMANAGERPOLICY": "cpuManagerPolicy", "kubereserve": "kubeReserved",
		"topologyManagerScope": "", "x": "", "": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
