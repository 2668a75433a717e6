package cpu_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain sets 1,000 checks for each property unless -rapid.checks is given. The properties are
// cheap, and their rare cases matter.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "1000"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
