package journal_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/journal"
)

// TestWithoutIsolatedCPUs checks that a journal from before the annotation of R-CPU-136 is read and
// written again with the same bytes, and that only a pod with the annotation has the member.
func TestWithoutIsolatedCPUs(t *testing.T) {
	before, err := os.ReadFile("testdata/before-isolated.json")
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Decode(before)
	if err != nil {
		t.Fatal(err)
	}
	if again := encode(t, j); !bytes.Equal(again, before) {
		t.Errorf("it is written again as\n%s", again)
	}
	for i := range j.Rejections {
		if j.Rejections[i].Pod.SharesIsolated {
			t.Errorf("pod %s shares isolated CPUs", j.Rejections[i].Pod.ID())
		}
	}
	j.Rejections[0].Pod.SharesIsolated = true
	with := encode(t, j)
	if again := bytes.Replace(with, []byte(`"sharesIsolated":true,`), nil, 1); !bytes.Equal(again, before) {
		t.Errorf("with the annotation, it is written as\n%s", with)
	}
}
