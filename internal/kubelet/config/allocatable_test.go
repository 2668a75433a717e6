package config

import (
	"encoding/json"
	"testing"
)

// TestAllocatableCPUs checks that named CPUs replace the amounts under every CPU policy.
func TestAllocatableCPUs(t *testing.T) {
	m := plans["pair"].machine(t)
	for text, want := range map[string]int64{
		`{}`: 16000,
		`{"kubeReserved":{"cpu":"1500m"},"systemReserved":{"cpu":"1"}}`:                           13500,
		`{"kubeReserved":{"cpu":"1500m"},"reservedSystemCPUs":"0-3"}`:                             12000,
		`{"cpuManagerPolicy":"static","kubeReserved":{"cpu":"1500m"},"reservedSystemCPUs":"0-3"}`: 12000,
	} {
		c, err := FromJSON(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		if a := c.Allocatable(m); a.Milli != want {
			t.Errorf("%s: %dm, want %dm", text, a.Milli, want)
		}
	}
}
