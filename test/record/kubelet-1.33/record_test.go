package main

import (
	"os"
	"testing"

	"github.com/paddock-project/paddock/test/record"
)

// TestMain is the worker too: the program starts its own executable.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == record.WorkerFlag {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestRecorded checks that the managers still give every recorded answer.
func TestRecorded(t *testing.T) { record.CheckMinor(t, "1.33") }

// TestLive checks that a kubelet of this minor can be observed.
func TestLive(t *testing.T) { record.CheckLive(t, minor{}) }
