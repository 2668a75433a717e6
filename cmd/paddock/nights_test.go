package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/testing/golden"
)

// nightAnswer is what a person expects of a night: a part of examples/nights/NAME/night.yaml.
type nightAnswer struct {
	// About describes the night in the table of examples/nights/README.md.
	About    string `json:"about"`
	Pod      string `json:"pod"`
	Phase    string `json:"phase"`
	Expected struct {
		// Reason is the reason of the rejection, and Cause a part of the answer. Fits is true if
		// the pod fits by now.
		Reason string `json:"reason"`
		Cause  string `json:"cause"`
		Fits   bool   `json:"fits,omitempty"`
	} `json:"expected"`
}

// recordedNights is the number of nights that are recorded. Their number does not decrease.
const recordedNights = 23

// TestNights explains the pods of examples/nights, each with one command in the root of the
// repository. A night is a node on which a stock kubelet rejected a pod, as the script of paddock
// collect found it: "make record-nights" recorded it with a real kubelet. The whole answers are
// compared. With -rewrite, they are written.
//
// A night without the folder node was written and is not recorded yet.
func TestNights(t *testing.T) {
	t.Chdir("../..")
	names, err := filepath.Glob("examples/nights/*/node")
	if err != nil || len(names) < recordedNights {
		t.Fatalf("%d nights are recorded, expected at least %d: %v", len(names), recordedNights, err)
	}
	for _, name := range names {
		dir := filepath.Dir(name)
		t.Run(filepath.Base(dir), func(t *testing.T) { explainNight(t, dir) })
	}
}

// explainNight explains the pod of a night. The answer must have the cause of night.yaml.
func explainNight(t *testing.T, dir string) {
	t.Helper()
	n := readNight(t, dir)
	pod, expected := "default/"+n.Pod, n.Expected
	if status := nightStatus(t, dir, n.Pod); status.Phase == v1.PodFailed && status.Reason != expected.Reason {
		t.Errorf("the kubelet recorded %s, expected %s", status.Reason, expected.Reason)
	}
	var stdout, stderr bytes.Buffer
	code := run([]string{"explain", pod, "--state", filepath.Join(dir, "node")}, strings.NewReader(""), &stdout, &stderr)
	answer := fmt.Sprintf("%s%sexit code %d\n", stdout.String(), stderr.String(), code)
	golden.Compare(t, filepath.Join(dir, "answer.txt"), answer)
	verdict, exit := fmt.Sprintf("\nrejected %s: %s\n", pod, expected.Reason), 2
	if n.Phase == string(v1.PodPending) {
		verdict = fmt.Sprintf("\nwould be rejected %s: %s\n", pod, expected.Reason)
	}
	if expected.Fits {
		verdict, exit = fmt.Sprintf("\nwould be admitted now: %s\n", pod), 0
	}
	words := strings.Join(strings.Fields(answer), " ")
	if code != exit || !strings.Contains(answer, verdict) || expected.Cause == "" || !strings.Contains(words, expected.Cause) {
		t.Errorf("expected %q, exit code %d and %q:\n%s", verdict, exit, expected.Cause, answer)
	}
}

func readNight(t *testing.T, dir string) (n nightAnswer) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "night.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNightsReadme checks that the table of examples/nights/README.md has every night with what is
// recorded about it. With -rewrite, the table is written.
func TestNightsReadme(t *testing.T) {
	const name = "../../examples/nights/README.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(text), "| night |")
	if !found {
		t.Fatalf("%s has no table of nights", name)
	}
	var table strings.Builder
	table.WriteString("| night | reason | what happened |\n| --- | --- | --- |\n")
	dirs, err := filepath.Glob("../../examples/nights/*/node")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		n := readNight(t, filepath.Dir(dir))
		night, reason := filepath.Base(filepath.Dir(dir)), n.Expected.Reason
		if n.Phase == string(v1.PodPending) {
			reason = n.Phase
		}
		fmt.Fprintf(&table, "| [%s](%s) | %s | %s |\n", night, night, reason, strings.TrimSpace(n.About))
	}
	golden.Compare(t, name, before+table.String())
}

// nightStatus returns the status of a pod as recorded by its node, or by the API server if it has
// none.
func nightStatus(t *testing.T, dir, name string) v1.PodStatus {
	t.Helper()
	for _, file := range []string{"pods.json", "pending.json"} {
		data, err := os.ReadFile(filepath.Join(dir, "node", file))
		if os.IsNotExist(err) {
			continue
		}
		var list v1.PodList
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if p.Name == name {
				return p.Status
			}
		}
	}
	t.Fatalf("%s has no pod %s", dir, name)
	return v1.PodStatus{}
}
