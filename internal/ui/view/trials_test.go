package view

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

func trial(policy, scope, option string, placed, aligned float64) Trial {
	return Trial{
		Nodes: "n", Policy: policy, Scope: scope, Option: option, Scoring: "s",
		Pods: &FleetPods{Placed: int64(placed), Own: int64(placed), Aligned: int64(aligned)},
		CPUs: &FleetAllCPUs{FleetCPUs: FleetCPUs{Placed: placed, Aligned: aligned, Allocatable: 100}},
	}
}

// TestBestTrial checks that a policy that places more because it does not align is not the best
// one, and that nothing is best if nothing is placed.
func TestBestTrial(t *testing.T) {
	trials := []Trial{trial("best-effort", "pod", "", 90, 40), trial("restricted", "pod", "", 80, 80), trial("single-numa-node", "pod", "", 70, 70)}
	MarkBest(trials)
	if trials[0].Best || !trials[1].Best || trials[2].Best {
		t.Errorf("%+v", trials)
	}
	none := []Trial{trial("restricted", "pod", "", 0, 0)}
	MarkBest(none)
	if text := TrialsText(none, terminal.Style{}); none[0].Best || !strings.Contains(text, "none is best") {
		t.Error(text)
	}
}

// TestInterruptedTrials checks that no form of a comparison that was interrupted has a best setting
// without that it is the best one so far.
func TestInterruptedTrials(t *testing.T) {
	trials := []Trial{trial("restricted", "pod", "", 80, 80), trial("single-numa-node", "pod", "", 70, 70)}
	for i := range trials {
		trials[i].Interrupted = "after 2 of 20 settings"
	}
	MarkBest(trials)
	text := TrialsText(trials, terminal.Style{})
	if !strings.Contains(text, "best so far\n") || !strings.Contains(text, "\nInterrupted after 2 of 20 settings: the others can be better. The best setting aligns") {
		t.Error(text)
	}
	rows := TrialsRows(trials)
	if last := len(rows[0]) - 1; rows[0][last] != "interrupted" || rows[1][last] != "after 2 of 20 settings" || rows[2][last] != rows[1][last] {
		t.Error(rows)
	}
}

// TestInterruptedSizes is the same for numbers of nodes.
func TestInterruptedSizes(t *testing.T) {
	answers := []Fleet{{Question: "size", Nodes: 3, AtMost: true, Interrupted: "no answer yet for wide", Kinds: []FleetKind{{Kind: "small"}}}}
	if text := SizesText(answers, terminal.Style{}); !strings.Contains(text, "at most 3") || !strings.Contains(text, "\nInterrupted: no answer yet for wide.\n") {
		t.Error(text)
	}
	if rows := SizesRows(answers); !slices.Contains(rows[0], "interrupted") || !slices.Contains(rows[1], "no answer yet for wide") {
		t.Error(rows)
	}
}

// TestTheSettingsOfNow checks that the nodes as they are keep a row of their own, also if others
// have the same result, and that they are best if no other setting is better.
func TestTheSettingsOfNow(t *testing.T) {
	now := trial("restricted", "pod", "", 80, 80)
	now.Now = true
	trials := []Trial{now, trial("restricted", "pod", "", 80, 80), trial("single-numa-node", "pod", "", 80, 80)}
	MarkBest(trials)
	rows := rowsOf(trials)
	if len(rows) != 2 || !rows[0].of.Now || !rows[0].best || rows[1].best || len(rows[1].settings[0]) != 2 {
		t.Errorf("%+v", rows)
	}
	text := TrialsText(trials, terminal.Style{})
	if !strings.Contains(text, "now, best") || !strings.Contains(text, "The nodes as they are now have the best setting: it aligns the most CPUs, 80") {
		t.Error(text)
	}
}

// TestEqualTrialsAreOneRow checks that rows stand for the same trials, each once.
func TestEqualTrialsAreOneRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var trials []Trial
		expected := map[string]float64{}
		for _, policy := range []string{"a", "b"} {
			for _, scope := range []string{"c", "d"} {
				for _, option := range []string{"", "e"} {
					placed := float64(rapid.IntRange(1, 2).Draw(t, "placed"))
					trials = append(trials, trial(policy, scope, option, placed, placed))
					expected[policy+scope+option] = placed
				}
			}
		}
		got, equal := map[string]float64{}, map[float64]bool{}
		var rows []trialRow
		for _, row := range rowsOf(trials) {
			if equal[row.of.CPUs.Placed] {
				t.Fatalf("two rows with %v CPUs", row.of.CPUs.Placed)
			}
			rows = append(append(rows, row), row.also...)
			equal[row.of.CPUs.Placed] = true
		}
		for _, row := range rows {
			for _, policy := range row.settings[0] {
				for _, scope := range row.settings[1] {
					for _, option := range row.settings[2] {
						if _, twice := got[policy+scope+option]; twice {
							t.Fatalf("%s, %s, %s twice", policy, scope, option)
						}
						got[policy+scope+option] = row.of.CPUs.Placed
					}
				}
			}
			for _, idle := range row.idle {
				got[idle.Policy+idle.Scope+idle.Option] = row.of.CPUs.Placed
			}
		}
		for key, placed := range expected {
			if got[key] != placed {
				t.Fatalf("%s: %v, expected %v", key, got[key], placed)
			}
		}
		if len(equal) == 1 && len(rowsOf(trials)) != 1 {
			t.Fatalf("%d rows of equal trials", len(rowsOf(trials)))
		}
	})
}
