package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/test/cluster/hollow"
	"github.com/paddock-project/paddock/test/e2e/tally"
)

// trust sums up how the predictions of observing agents compare with the decisions of the kubelets.
type trust struct {
	admissions, rejections view.TrustCount
	unpredicted            map[string]int
	differences            []string
	// unseen is how many of those that differ were decided beside a pod that no agent ever saw.
	unseen int
}

// trustOf sums up the agents of all nodes.
func trustOf(states []hollow.NodeState) trust {
	t := trust{unpredicted: map[string]int{}}
	for _, s := range states {
		for _, one := range s.Trust {
			tally.Add(&t.admissions, one.Admissions, 1)
			tally.Add(&t.rejections, one.Rejections, 1)
			for _, u := range one.Unpredicted {
				t.unpredicted[u.Reason] += u.Count
			}
			for _, d := range one.Differences {
				if slices.Contains(s.Unseen, d.UID) {
					t.unseen++
					continue
				}
				t.differences = append(t.differences, fmt.Sprintf("%s: %s %s: predicted %s; the kubelet: %s", s.Name, d.At.Format("15:04:05.000"), d.Pod, d.Predicted, d.Actual))
			}
		}
	}
	return t
}

// keepDifferences writes what is known of decisions that differ to a file beside the logs.
func (c *cluster) keepDifferences(states []hollow.NodeState) error {
	var lines []string
	for _, s := range states {
		lines = append(lines, s.Differences...)
	}
	if len(lines) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(c.dir, "differences.log"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// since returns what was added to an earlier sum.
func (t trust) since(before trust) trust {
	tally.Add(&t.admissions, before.admissions, -1)
	tally.Add(&t.rejections, before.rejections, -1)
	t.unseen -= before.unseen
	for reason, n := range before.unpredicted {
		t.unpredicted[reason] -= n
	}
	t.differences = slices.DeleteFunc(t.differences, func(d string) bool { return slices.Contains(before.differences, d) })
	return t
}

// lines formats the sums.
func (t trust) lines() (text string) {
	for _, row := range []struct {
		what string
		of   view.TrustCount
	}{{"admissions", t.admissions}, {"rejections", t.rejections}} {
		text += fmt.Sprintf("  observed %-15s %d: %d as predicted, %d in another order, %d differ, %d unsure (%.2f %%)\n",
			row.what, row.of.All, row.of.AsPredicted, row.of.Reordered, row.of.Differ, row.of.Unsure, percent(row.of.Unsure, row.of.All))
	}
	if t.unseen > 0 {
		text += fmt.Sprintf("    %6d  of those that differ were decided beside a pod that ended before its agent looked\n", t.unseen)
	}
	for _, reason := range slices.SortedFunc(maps.Keys(t.unpredicted), func(a, b string) int {
		return cmp.Or(t.unpredicted[b]-t.unpredicted[a], cmp.Compare(a, b))
	}) {
		if n := t.unpredicted[reason]; n > 0 {
			text += fmt.Sprintf("    %6d  unsure: %s\n", n, reason)
		}
	}
	return text
}
