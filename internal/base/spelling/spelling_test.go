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
		if got, expected := Distance(a, b), plainDistance(a, b); got != expected {
			t.Fatalf("%d, expected %d", got, expected)
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
	for name, expected := range map[string]string{
		"cpuManagerPolcy": "cpuManagerPolicy", "CPUMANAGERPOLICY": "cpuManagerPolicy", "kubereserve": "kubeReserved",
		"topologyManagerScope": "", "x": "", "": "",
	} {
		if got := Nearest(name, known); got != expected {
			t.Errorf("%q: %q, expected %q", name, got, expected)
		}
	}
}

func TestNearestResource(t *testing.T) {
	known := []string{"nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "example.com/nic"}
	for name, expected := range map[string]string{
		"nvidia.com/gpus": "nvidia.com/gpu", "nvidia.com/GPU": "nvidia.com/gpu", "nvdia.com/gpu": "nvidia.com/gpu",
		"example.com/gpu": "", "amd.com/gpu": "", "example.com/dongle": "", "nvidia.com/mig-1g.20gb": "nvidia.com/mig-1g.10gb", "": "",
	} {
		if got := nearestResource(name, known); got != expected {
			t.Errorf("%q: %q, expected %q", name, got, expected)
		}
	}
}

func TestInsteadOfUnlisted(t *testing.T) {
	for name, expected := range map[string]string{
		"nvidia.com/gpuz": "ask for nvidia.com/gpu, if you mean that, or give a list", "nvdia.com/gpu": "ask for nvidia.com/gpu, if you mean that, or give a list",
		"nvidia.com/gpu": "give a list", "aws.amazon.com/neuroncore": "give a list", "example.com/dongle": "give a list", "": "give a list",
	} {
		if got := InsteadOfUnlisted([]string{name}, "give a list"); got != expected {
			t.Errorf("%q: %q, expected %q", name, got, expected)
		}
	}
}

func TestExpected(t *testing.T) {
	for _, c := range []struct {
		word     string
		known    []string
		expected string
	}{
		{"jsn", []string{"text", "json", "yaml"}, "expected text, json or yaml; did you mean json?"},
		{"jsno", []string{"text", "json"}, "expected text or json; did you mean json?"},
		{"html", []string{"text", "yaml"}, "expected text or yaml"},
		{"pdf", []string{"text", "json"}, "expected text or json"},
		{"txt", []string{"text"}, "expected text; did you mean text?"},
	} {
		if got := Expected(c.word, c.known); got != c.expected {
			t.Errorf("%q: %s", c.word, got)
		}
	}
}
