package main

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/test/cluster/chaos"
	"github.com/paddock-project/paddock/test/cluster/hollow"
	"github.com/paddock-project/paddock/test/cluster/load"
)

// TestZero checks that a run under paddock-scheduler fails for a rejection that no fault excuses,
// even if the pod finally runs, and for a pod that never runs. A hook that failed because the agent
// did not run is no rejection.
func TestZero(t *testing.T) {
	born := time.Unix(1, 0)
	rejection := hollow.Trouble{Node: "n", UID: "a", Pod: "load/a", Hook: "RunPodSandbox", Rejected: true, At: born.Add(2 * time.Second), Error: "no room"}
	away := rejection
	away.Rejected = false
	for _, test := range []struct {
		name     string
		troubles []hollow.Trouble
		lost     int
		want     string
	}{
		{"nothing", nil, 0, ""},
		{"an agent that is away", []hollow.Trouble{away}, 0, ""},
		{"a rejection", []hollow.Trouble{rejection, rejection}, 0, "n rejected pod load/a (a): no room"},
		{"a pod that never runs", nil, 1, "1 pods are bound and do not run"},
	} {
		t.Run(test.name, func(t *testing.T) {
			faults, err := chaos.New("", chaos.World{})
			if err != nil {
				t.Fatal(err)
			}
			pod := &load.Pod{UID: "a", Born: born, Created: born, Bound: born.Add(time.Second), Running: born.Add(time.Minute)}
			j := &judgement{
				Result:   &load.Result{Bound: 5000, Lost: test.lost, Pods: map[types.UID]*load.Pod{"a": pod}},
				troubles: test.troubles, rejected: map[types.UID]bool{}, excused: map[string]int{},
			}
			j.count(faults)
			switch err := j.zero(); {
			case test.want == "" && err != nil:
				t.Errorf("an error: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}
