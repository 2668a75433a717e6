package cpu_test

import (
	"flag"
	"os"
	"testing"
)

// The properties here are cheap and their rare cases matter: 1000 checks each, unless
// -rapid.checks says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "1000"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
