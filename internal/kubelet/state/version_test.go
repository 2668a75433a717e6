package state

import (
	"strings"
	"testing"
)

func TestParseMinor(t *testing.T) {
	for text, want := range map[string]int{
		"1.36": 36, "v1.36": 36, "1.21": 21, "1.37": 37, "1.36.3": 36, "v1.36.3": 36,
		"v1.36.3+k3s1": 36, "v1.35.0-rc.1": 35, "v1.36.2-gke.1043000": 36,
	} {
		if got, err := ParseMinor(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                       "expected a version of the kubelet, such as 1.36",
		"1":                      "expected a version",
		"1.36x":                  "expected a version",
		"1.36.x":                 "expected a version",
		"1.36 and later":         "expected a version",
		"2.36":                   "expected a version",
		"-1.36":                  "expected a version",
		"1.20":                   "the files of 1.21 to 1.37 are known",
		"1.38.0":                 "the files of 1.21 to 1.37 are known",
		"1.99999999999999999999": "expected a version",
	} {
		if got, err := ParseMinor(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v; want an error with %q", text, got, err, want)
		}
	}
}
