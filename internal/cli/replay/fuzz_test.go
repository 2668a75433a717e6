package replay_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/cli/replay"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// FuzzDecode checks that a line is either an error or a scenario that runs to a result, and that
// nothing panics.
func FuzzDecode(f *testing.F) {
	data, err := os.ReadFile("../../../examples/machines/vm-4cpu.json")
	if err != nil {
		f.Fatal(err)
	}
	found, err := discover.Read("vm", data)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"name":"one","machine":"@vm","kubeletConfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"},"pods":[{"metadata":{"uid":"a"},"spec":{"containers":[{"name":"c","image":"x","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}}]}}],"events":[{"op":"admit","pod":"a"},{"op":"removeContainer","pod":"a","container":"c"},{"op":"restart","configPatch":{"topologyManagerPolicy":"restricted"}},{"op":"removePod","pod":"a"}]}`,
		`{"scenario":{"name":"x","machine":"@vm"},"result":{"name":"x","startError":"no"}}`,
		`{"name":"d","machine":"@vm","devices":{"resources":{"example.com/gpu":[{"id":"g","numaNodes":0}]}},"events":[{"op":"reconcile"},{"op":"dropStale"}]}`,
		`{"name":"i","machine":{"num_cores":1,"topology":[{"node_id":0,"memory":1,"cores":[{"thread_ids":[0]}]}]}}`,
		`{"name":"q","machine":"@vm","pods":[{"metadata":{"uid":"a"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1e-9999999"}}}]}}]}`,
		`garbage`, `null`, `{}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Count(line, `"cores"`) > 1 {
			return // Machines are fuzzed in their own packages.
		}
		c, err := replay.Decode([]byte(line))
		if err != nil {
			return
		}
		player := &replay.Player{Now: time.Now, Machine: func(name string) (*machine.Machine, error) {
			if name != "vm" {
				return nil, errors.New("no such machine")
			}
			return found.Machine, nil
		}}
		got, err := player.Run(&c.Scenario)
		if err == nil && got.Name != c.Scenario.Name {
			t.Errorf("the result of %q is called %q", c.Scenario.Name, got.Name)
		}
		if err == nil && c.Want != nil {
			if got, err = player.Follow(&c.Scenario, c.Want); err != nil {
				t.Fatal(err)
			}
			replay.Compare(&c.Scenario, &got, c.Want)
		}
	})
}
