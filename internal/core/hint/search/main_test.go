package search

import (
	"flag"
	"testing"
)

// TestMain asks rapid for more checks than it makes by default, unless a number is given.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			panic(err)
		}
	}
	m.Run()
}
