package replay_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/cli/replay"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// twoPods admits a, restarts, removes a, and admits b. Both pods get CPU 1.
const twoPods = `{"name":"two","machine":"@vm","kubeletConfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"},
"pods":[{"metadata":{"uid":"a"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}}]}},
        {"metadata":{"uid":"b"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}}]}}],
"events":[{"op":"admit","pod":"a"},{"op":"restart"},{"op":"removePod","pod":"a"},{"op":"admit","pod":"b"}]}`

// TestCompareAfterADifference checks that differences count as following until the states are equal
// again.
func TestCompareAfterADifference(t *testing.T) {
	for _, test := range []struct {
		name   string
		record func(want *replay.Result)
		// differ has the fields of each difference. Those that follow are in brackets.
		differ string
		apart  int
	}{
		{"equal", func(*replay.Result) {}, "", 0},
		{"until the states are equal again", func(want *replay.Result) {
			for _, event := range []int{0, 1, 3} {
				want.Answers[event].CPU.Default = "0"
			}
		}, "0 cpu.default, (1 cpu.default), 3 cpu.default", 2},
		{"other reserved CPUs differ for good", func(want *replay.Result) {
			want.AllocatableCPUs = "0-2"
			want.Answers[3].CPU.Default = "0"
		}, "-1 allocatableCPUs, (3 cpu.default)", 4},
		{"a decision alone leaves the states equal", func(want *replay.Result) {
			want.Answers[0].QoS = "Burstable"
			want.Answers[1].CPU.Default = "0"
		}, "0 qos, 1 cpu.default", 1},
		{"a pod that the record rejects is released", func(want *replay.Result) {
			no := false
			want.Answers[0] = replay.Answer{Op: replay.Admit, Pod: "a", QoS: "Guaranteed", Admitted: &no, Reason: "UnexpectedAdmissionError"}
			want.Answers[1].View, want.Answers[2].View = *want.Start, *want.Start
			want.Answers[1].Isolation, want.Answers[1].PodQuotaDisabled = nil, nil
		}, "0 admitted, 0 reason", 0},
		{"a restart that the record refuses ends it", func(want *replay.Result) {
			want.Answers = want.Answers[:2]
			want.Answers[1] = replay.Answer{Op: replay.Restart, StartError: "no"}
		}, "1 startError", 0},
		{"a panic in the record ends it", func(want *replay.Result) {
			want.Answers = want.Answers[:1]
			want.Answers[0] = replay.Answer{Op: replay.Admit, Pod: "a", Panic: "index out of range"}
		}, "0 panic", 0},
		{"a record that ends early without a reason", func(want *replay.Result) {
			want.Answers = want.Answers[:2]
		}, "-1 events", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			player := vmPlayer(t)
			want := run(t, player, twoPods)
			test.record(want)
			c := decode(t, twoPods)
			got, err := player.Follow(&c.Scenario, want)
			if err != nil {
				t.Fatal(err)
			}
			compared := replay.Compare(&c.Scenario, &got, want)
			if differ := fields(compared); differ != test.differ {
				t.Errorf("differs in %q, want %q", differ, test.differ)
			}
			if compared.Apart != test.apart {
				t.Errorf("%d of %d events began with different states, want %d", compared.Apart, compared.Events, test.apart)
			}
		})
	}
}

func fields(c replay.Comparison) string {
	var out []string
	for _, d := range c.Differences {
		field := fmt.Sprintf("%d %s", d.Event, d.Field)
		if d.Follows {
			field = "(" + field + ")"
		}
		out = append(out, field)
	}
	return strings.Join(out, ", ")
}

func vmPlayer(t *testing.T) *replay.Player {
	t.Helper()
	data, err := os.ReadFile("../../../examples/machines/vm-4cpu.json")
	if err != nil {
		t.Fatal(err)
	}
	found, err := discover.Read("vm", data)
	if err != nil {
		t.Fatal(err)
	}
	return &replay.Player{Now: time.Now, Machine: func(string) (*machine.Machine, error) { return found.Machine, nil }}
}

func decode(t *testing.T, line string) replay.Case {
	t.Helper()
	c, err := replay.Decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func run(t *testing.T, player *replay.Player, line string) *replay.Result {
	t.Helper()
	c := decode(t, line)
	result, err := player.Run(&c.Scenario)
	if err != nil {
		t.Fatal(err)
	}
	return &result
}
