package search

import (
	"flag"
	"testing"
)

// TestMain sets 1,000 checks for rapid, more than its default, unless -rapid.checks is given.
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
