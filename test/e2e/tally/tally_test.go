package tally_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/test/e2e/tally"
)

// results are of two minors. One decision differs, one has no prediction, and one was not seen.
var results = []tally.Result{
	{Minor: "1.36", Seed: 1, Kind: "none", Decisions: 3, Admissions: view.TrustCount{All: 2, AsPredicted: 1, Reordered: 1}, Rejections: view.TrustCount{All: 1, AsPredicted: 1}, Seconds: 90},
	{
		Minor: "1.37", Seed: 1, Kind: "none", Decisions: 4, Admissions: view.TrustCount{All: 3, AsPredicted: 1, Differ: 1, Unsure: 1},
		Reasons: []view.Unpredicted{{Reason: "other pods ended", Count: 1}}, Differ: []view.Difference{{Pod: "default/web", Predicted: "admitted", Actual: "OutOfcpu"}},
		NotSeen: []string{"pod-4, admitted"}, Seconds: 30,
	},
}

// TestFile checks that results are read as they were appended, and that a line that was cut off is
// an error with the file's name.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	if all, err := tally.Read(file); err != nil || all != nil {
		t.Fatalf("a file that does not exist: %v, %v", all, err)
	}
	for _, r := range results {
		if err := tally.Append(file, r); err != nil {
			t.Fatal(err)
		}
	}
	all, err := tally.Read(file)
	if err != nil || len(all) != 2 || tally.Decisions(all) != 7 || all[1].Reasons[0] != results[1].Reasons[0] || all[0].AsPredicted() != 3 {
		t.Errorf("read %+v, %v", all, err)
	}
	if !tally.Has(all, "1.37", 1) || tally.Has(all, "1.37", 2) || tally.Has(all, "1.35", 1) {
		t.Error("Has finds other results than there are")
	}
	if err := os.WriteFile(file, []byte(`{"minor":"1.3`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tally.Read(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a line that was cut off: %v", err)
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	err := tally.Report(&out, results)
	if err == nil || err.Error() != "decisions that differ from their prediction: 1" {
		t.Errorf("error %v", err)
	}
	const want = `KUBELET SCENARIOS DECISIONS AS PREDICTED REORDERED DIFFER UNSURE NOT SEEN ENDLESS MINUTES
1.36 1 3 2 1 0 0 0 0 1.5
1.37 1 4 1 0 1 1 1 0 0.5
KIND SCENARIOS DECISIONS AS PREDICTED REORDERED DIFFER UNSURE NOT SEEN ENDLESS MINUTES
none 2 7 3 1 1 1 1 0 2.0
1.37 seed 1 none: default/web: predicted admitted; the kubelet: OutOfcpu
1.37 seed 1 none: not seen: pod-4, admitted
1 unsure: other pods ended
`
	var have strings.Builder
	for line := range strings.Lines(out.String()) {
		have.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	if have.String() != want {
		t.Errorf("have\n%s\nwant\n%s", have.String(), want)
	}
	if err := tally.Report(&out, results[:1]); err != nil {
		t.Errorf("nothing differs: %v", err)
	}
}
