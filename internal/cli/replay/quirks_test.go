package replay_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/cli/replay"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
)

// TestQuirks compares what internal/kubelet/quirk names with every recorded answer of the
// reference: where the answer differs from ours, the quirk that divergences.txt lists, and no quirk
// anywhere else.
func TestQuirks(t *testing.T) {
	list, err := os.Open("../../../testdata/divergences.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	meant, err := replay.ReadDivergences(list.Name(), list)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(golden, "*.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	score := &quirkScore{t: t, meant: meant}
	for _, file := range files {
		if strings.Contains(file, "state-verdicts") {
			continue
		}
		for c := range cases(t, file) {
			score.scenario(c)
		}
	}
	t.Logf("%d answers with a quirk, of which %d are named; %d without, of which %d get a false alarm; %d began apart",
		score.changed, score.changed-score.missed, score.equal, score.alarms, score.apart)
	if score.missed+score.alarms > 0 || score.changed == 0 {
		t.Errorf("%d missed, %d false alarms", score.missed, score.alarms)
	}
}

// quirkScore counts answers of the reference.
type quirkScore struct {
	t     *testing.T
	meant *replay.Divergences
	// changed answers are those with a listed quirk, equal ones those without.
	// Those apart began with different states and have no listed quirk: what differs follows.
	changed, missed, equal, alarms, apart int
}

func (s *quirkScore) scenario(c replay.Case) {
	player := &replay.Player{Machine: goldenMachine(s.t), Now: time.Now, Quirks: true}
	got, err := player.Follow(&c.Scenario, c.Want)
	if err != nil {
		s.t.Error(err)
		return
	}
	listed := s.meant.Quirks(c.Scenario.Name)
	s.answer(c.Scenario.Name, -1, listed[-1], got.Quirks)
	for i, equal := range replay.Compare(&c.Scenario, &got, c.Want).Began {
		quirks := got.Answers[i].Quirks
		if c.Want.Answers[i].Memory.MachineState == nil { // What is counted is not in this recording.
			quirks = slices.DeleteFunc(quirks, func(q quirk.Quirk) bool { return q.Effect == quirk.CountedTwice })
		}
		if equal || listed[i] != "" {
			s.answer(c.Scenario.Name, i, listed[i], quirks)
		} else {
			s.apart++
		}
	}
}

func (s *quirkScore) answer(name string, event int, want string, named []quirk.Quirk) {
	ids := []string{}
	for _, q := range named {
		ids = append(ids, string(q.ID))
	}
	switch {
	case want == "" && len(ids) > 0:
		s.alarms++
		s.t.Logf("%s event %d: %v is named, and nothing differs", name, event, named)
	case want != "" && !slices.Equal(ids, []string{want}):
		s.missed++
		s.t.Logf("%s event %d: want %s, got %v", name, event, want, named)
	}
	if want == "" {
		s.equal++
	} else {
		s.changed++
	}
}
