package doctor_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// nodeFiles are the two state files of a node.
type nodeFiles map[kubeletstate.Manager][]byte

// TestChain runs every pair of kubelets, the one that wrote the files and the one that starts on
// them, with and without the gate, and with any damage to the files in between. It follows the
// recommendations of verify. Afterwards verify must recommend nothing more and find no fault,
// unless the remedy explains why it cannot help.
func TestChain(t *testing.T) {
	var ended [4]int
	rapid.Check(t, func(t *rapid.T) {
		wrote, starts := drawKubelet(t, "wrote"), drawKubelet(t, "starts")
		n := drawNode(t, wrote)
		files := n.damaged(t)
		ended[followAdvice(t, files, under(n.changed(t), starts))]++
	})
	t.Logf("%d started, %d could not be read and were drained, %d need a person, who is told why, %d have a remedy that is no command",
		ended[0], ended[1], ended[2], ended[3])
}

// The ways in which a chain ends.
const (
	chainStarts = iota
	chainUnreadable
	chainUnmendable
	chainByHand
)

// followAdvice runs the commands that verify recommends, one after the other.
func followAdvice(t *rapid.T, files nodeFiles, s doctor.Setup) int {
	seen := []string{}
	for range 4 {
		commands, byHand, rejected := advised(t, files, s)
		if len(commands) == 0 {
			if rejected && !byHand {
				t.Fatalf("kubelet %s does not start, and nothing is recommended after %q: %q", s.Kubelet, seen, files)
			}
			if rejected {
				return chainByHand
			}
			return chainStarts
		}
		seen = append(seen, commands[0])
		next, end := runAdvised(t, commands[0], files, s)
		if next == nil {
			return end
		}
		files = next
	}
	t.Fatalf("kubelet %s: the advice does not end: %q: %q", s.Kubelet, seen, files)
	return 0
}

// advised returns the commands in the findings, whether any finding requires manual work, and
// whether the kubelet does not start.
func advised(t *rapid.T, files nodeFiles, s doctor.Setup) (commands []string, byHand, rejected bool) {
	for _, m := range slices.Sorted(maps.Keys(files)) {
		d := doctor.Verify(m, files[m], s)
		rejected = rejected || d.Answer() == doctor.Rejects
		for _, f := range d.Findings {
			if (f.Command != "") != strings.Contains(f.Do, `run "paddock `) || !strings.Contains(f.Do, f.Command) {
				t.Fatalf("the command %q is not the one of %q", f.Command, f.Do)
			}
			switch {
			case f.Command != "" && !slices.Contains(commands, f.Command):
				commands = append(commands, f.Command)
			case f.Command == "" && f.Level == doctor.Fault:
				byHand = true
			}
		}
	}
	return commands, byHand, rejected
}

// runAdvised does with both files what the command would do. If files are missing, it cannot. It
// returns how the chain ends.
func runAdvised(t *rapid.T, command string, files nodeFiles, s doctor.Setup) (nodeFiles, int) {
	old := &doctor.State{}
	for _, m := range slices.Sorted(maps.Keys(files)) {
		f, err := kubeletstate.Recognise(files[m])
		if err != nil || f.Manager != m {
			return nil, chainUnreadable
		}
		if strings.HasPrefix(command, "state convert") && !f.Valid() {
			command = repairCommand(s.Kubelet) // convert does not accept such a file and asks to repair it first
		}
		old.Add(f)
	}
	var now *doctor.State
	var err error
	if strings.HasPrefix(command, "state convert") {
		if command != "state convert --to "+doctor.Target(s.Kubelet) {
			t.Fatalf("%q for kubelet %s", command, s.Kubelet)
		}
		now, _, err = doctor.Convert(old, s.Kubelet, nil)
	} else {
		if command != repairCommand(s.Kubelet) {
			t.Fatalf("%q for kubelet %s", command, s.Kubelet)
		}
		now, _, err = doctor.Repair(old, s, doctor.Pods{})
	}
	if errors.Is(err, doctor.ErrUnmendable) {
		precise(t, err, old)
		return nil, chainUnmendable
	}
	if err != nil {
		t.Fatalf("%s for %s: %v", command, s.Kubelet, err)
	}
	encoded, err := now.Encode(s.Kubelet)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(command, "state repair") {
		if err := doctor.Check(encoded, s); err != nil {
			t.Fatalf("%s for %s: %q became %q: %v", command, s.Kubelet, files, encoded, err)
		}
		if again, _, _ := advised(t, encoded, s); len(again) > 0 {
			t.Fatalf("%s for %s: verify recommends %q of what was repaired: %q became %q", command, s.Kubelet, again, files, encoded)
		}
	}
	return encoded, 0
}

func repairCommand(k kubeletstate.Kubelet) string {
	if k.Minor == 36 { // the default
		return "state repair"
	}
	return fmt.Sprintf("state repair --kubelet 1.%d", k.Minor)
}

// precise fails unless the error names what prevents a repair and what to do about it.
func precise(t *rapid.T, err error, s *doctor.State) {
	text := err.Error()
	does := strings.Contains(text, "delete") || strings.Contains(text, "reserve others")
	names := strings.Contains(text, "every CPU is a pod's") || slices.ContainsFunc(s.Pods(), func(uid string) bool { return strings.Contains(text, uid) })
	if !does || !names {
		t.Fatalf("%q says not which pod is in the way, or not what to do", text)
	}
}
