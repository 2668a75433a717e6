package treatment_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

// lists matches lists of numbers, whose order in a message is random.
var lists = regexp.MustCompile(`\[\d+( \d+)*\]`)

// TestRecordedMessages checks that 1.33 and 1.34 write the same reason and message about a
// rejection as 1.35, and that the status of a pod shows both as they were written.
func TestRecordedMessages(t *testing.T) {
	newer := rejections(t, "1.35")
	for _, minor := range []string{"1.33", "1.34"} {
		shared := 0
		for at, text := range rejections(t, minor) {
			if newer[at] == "" {
				continue
			}
			if shared++; text != newer[at] {
				t.Errorf("%s %s: %q, and 1.35 has %q", minor, at, text, newer[at])
			}
		}
		if shared < 1000 {
			t.Errorf("%s has %d rejections in common with 1.35, expected at least 1000", minor, shared)
		}
	}
}

// rejections returns the reasons and messages of a recording as the status of the pods shows them,
// by scenario and event.
func rejections(t *testing.T, minor string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range recording.Values[recorded](t, filepath.Join("../../../testdata/kubelets", minor, "ordinary.jsonl.gz")) {
		for i, e := range line.Result.Events {
			if e.Op != "admit" || e.Admitted == nil || *e.Admitted {
				continue
			}
			pod := &v1.Pod{}
			pod.UID, pod.Spec.NodeName = "a", "node7"
			pod.Status.Phase, pod.Status.Reason, pod.Status.Message = v1.PodFailed, e.Reason, "Pod was rejected: "+e.Message
			start := metav1.NewTime(time.Unix(1, 0))
			pod.Status.StartTime = &start
			shown := treatment.PodStatusOf(pod, inputs.Roster{"a": pod})
			if !shown.Rejected || shown.Reason != e.Reason || shown.Message != pod.Status.Message {
				t.Errorf("%s %s event %d: shown as %+v", minor, line.Scenario.Name, i, shown)
			}
			sorted := lists.ReplaceAllStringFunc(shown.Message, func(list string) string {
				numbers := strings.Fields(strings.Trim(list, "[]"))
				slices.Sort(numbers)
				return fmt.Sprint(numbers)
			})
			all[fmt.Sprintf("%s event %d", line.Scenario.Name, i)] = shown.Reason + ": " + sorted
		}
	}
	return all
}
