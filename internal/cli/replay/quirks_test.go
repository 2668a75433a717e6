package replay_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/cli/replay"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
)

// TestQuirks compares the planner as kubelet 1.36 with every recorded answer of the reference, in
// two ways.
//
// It compares the answers: whether the pod is admitted, the reason of a rejection, CPU ids and
// memory of every container and pool, the node shared pool, the memory accounting, and whether the
// kubelet goes down. Differences must be listed in kubelet-differences.txt.
//
// It compares the names of quirks: an answer that differs from Paddock's must have the quirk that
// divergences.txt lists, and no other answer may have a quirk.
func TestQuirks(t *testing.T) {
	score := &quirkScore{t: t, meant: listed(t, "divergences.txt"), differences: listed(t, "kubelet-differences.txt")}
	files, err := filepath.Glob(filepath.Join(golden, "*.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(file, "state-verdicts") {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl.gz"), func(t *testing.T) {
			score.t = t
			before := score.missed + score.alarms + score.unlisted
			for c := range cases(t, file) {
				score.scenario(c)
			}
			if wrong := score.missed + score.alarms + score.unlisted - before; wrong > 0 {
				t.Errorf("%d answers or names are wrong", wrong)
			}
		})
	}
	t.Logf("as kubelet 1.36: %d of %d scenarios have the reference's answers, in %d events; %d differences are listed",
		score.scenarios-score.different, score.scenarios, score.events, score.listed)
	t.Logf("%d answers with a quirk, of which %d are named; %d without, of which %d get a false alarm; %d began apart",
		score.changed, score.changed-score.missed, score.equal, score.alarms, score.apart)
	t.Logf("%d differences are not listed; %d quirks missed, %d false alarms", score.unlisted, score.missed, score.alarms)
	if score.changed == 0 {
		t.Error("no answer with a quirk was compared")
	}
}

// listed reads a list of differences.
func listed(t *testing.T, name string) *replay.Divergences {
	t.Helper()
	list, err := os.Open(filepath.Join("../../../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	read, err := replay.ReadDivergences(list.Name(), list)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// quirkScore counts answers of the reference.
type quirkScore struct {
	t                  *testing.T
	meant, differences *replay.Divergences
	// scenarios counts all scenarios, and different those with differences. listed and unlisted
	// count the differences.
	scenarios, different, events, listed, unlisted int
	// changed counts the answers with a listed quirk, and equal those without. apart counts answers
	// that began with other states than Paddock's and have no listed quirk, so that their
	// differences follow from earlier ones.
	changed, missed, equal, alarms, apart int
}

func (s *quirkScore) scenario(c replay.Case) {
	player := &replay.Player{Machine: goldenMachine(s.t), Now: time.Now, Kubelet: behavior.Golden()}
	got, err := player.Follow(&c.Scenario, c.Want)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.compare(&c, &got)
	player.Kubelet = behavior.Version{}
	ours, err := player.Follow(&c.Scenario, c.Want)
	if err != nil {
		s.t.Error(err)
		return
	}
	quirks := s.meant.Quirks(c.Scenario.Name)
	s.named(c.Scenario.Name, -1, quirks[-1], got.Quirks)
	for i, equal := range replay.Compare(&c.Scenario, &ours, c.Want).Began {
		if i >= len(got.Answers) {
			break
		}
		found := got.Answers[i].Quirks
		if c.Want.Answers[i].Memory.MachineState == nil { // The recording does not have the counters.
			found = slices.DeleteFunc(found, func(q quirk.Quirk) bool { return q.Effect == quirk.CountedTwice })
		}
		if equal || quirks[i] != "" {
			s.named(c.Scenario.Name, i, quirks[i], found)
		} else {
			s.apart++
		}
	}
}

// compare compares the answers as a kubelet with the recorded ones.
func (s *quirkScore) compare(c *replay.Case, got *replay.Result) {
	s.scenarios++
	compared := replay.CompareKubelet(&c.Scenario, got, c.Want)
	s.events += compared.Events
	if len(compared.Differences) > 0 {
		s.different++
	}
	for _, d := range compared.Differences {
		switch {
		case s.differences.Listed(d):
			s.listed++
		case !d.Follows:
			s.unlisted++
			s.t.Log(d)
		}
	}
	for _, line := range s.differences.Unused(c.Scenario.Name) {
		s.t.Error(line)
	}
}

// named compares the quirks of an answer with the listed one.
func (s *quirkScore) named(name string, event int, want string, named []quirk.Quirk) {
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
