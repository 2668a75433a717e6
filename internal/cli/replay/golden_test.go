package replay_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/cli/replay"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

const golden = "../../../testdata/golden"

// TestGolden compares our answers with every recorded answer of the reference.
func TestGolden(t *testing.T) {
	list, err := os.Open("../../../testdata/divergences.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	divergences, err := replay.ReadDivergences(list.Name(), list)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]int{
		"seed-examples.jsonl.gz": 797, "dev.jsonl.gz": 374, "fractional-bytes.jsonl.gz": 7,
		"distribute-over-eight-numa-nodes.jsonl.gz": 10, "gaps-in-numa-node-ids.jsonl.gz": 1, "one-numa-node-of-a-group.jsonl.gz": 3,
		"more-than-eight-numa-nodes.jsonl.gz": 7, "changed-configuration.jsonl.gz": 8,
		"same-uid-again.jsonl.gz": 2, "uneven-cores-and-sockets.jsonl.gz": 5, "whole-seed-examples.jsonl.gz": 199,
	} {
		t.Run(file, func(t *testing.T) {
			n, failed := 0, 0
			for c := range cases(t, filepath.Join(golden, file)) {
				n++
				if !check(t, c, divergences, failed < 20) {
					failed++
				}
			}
			t.Logf("%d of %d scenarios equal", n-failed, n)
			if n != want {
				t.Errorf("%d scenarios, want %d", n, want)
			}
			if failed > 0 {
				t.Errorf("%d of %d scenarios differ", failed, n)
			}
		})
	}
}

func check(t *testing.T, c replay.Case, divergences *replay.Divergences, loud bool) bool {
	t.Helper()
	player := &replay.Player{Machine: goldenMachine(t), Now: time.Now}
	got, err := player.Follow(&c.Scenario, c.Want)
	if err != nil {
		t.Error(err)
		return false
	}
	equal := true
	for _, d := range replay.Compare(&c.Scenario, &got, c.Want).Differences {
		if divergences.Listed(d) || d.Follows {
			continue
		}
		equal = false
		if loud {
			t.Log(d)
		}
	}
	for _, line := range divergences.Unused(c.Scenario.Name) {
		t.Error(line)
	}
	return equal
}

func cases(t *testing.T, path string) func(yield func(replay.Case) bool) {
	t.Helper()
	return func(yield func(replay.Case) bool) {
		for line := range recording.Lines(t, path) {
			c, err := replay.Decode(line)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(c) {
				return
			}
		}
	}
}

func goldenMachine(t *testing.T) func(name string) (*machine.Machine, error) {
	t.Helper()
	return func(name string) (*machine.Machine, error) {
		path := filepath.Join(golden, "machines", name+".json")
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := discover.Read(path, data)
		if err != nil {
			return nil, err
		}
		return found.Machine, nil
	}
}
