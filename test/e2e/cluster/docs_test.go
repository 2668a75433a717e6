package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documented matches the commands of a page, which are in indented blocks.
var documented = regexp.MustCompile(`(?m)^    ((?:make|kubectl|helm|ssh|until) .*)$`)

// notPlayed has prefixes of documented commands that no page here runs.
var notPlayed = []string{
	// These are the reader's own values. Page 95-helm sets one by --set.
	"helm upgrade paddock deploy/chart -n paddock -f values.yaml",
	// On a cluster with one agent, daemonset/paddock is the node's agent.
	"kubectl -n paddock get pods -l app.kubernetes.io/name=paddock --field-selector spec.nodeName", "kubectl -n paddock exec POD",
	"kubectl -n paddock exec $AGENT",
	// krew is not available here. deploy/image tests what it would install.
	"make krew", "kubectl krew install",
	// These are for one of several nodes. This cluster has one node.
	`kubectl -n paddock patch daemonset paddock --type json -p '[{"op": "replace"`,
	"kubectl -n paddock delete pod -l app.kubernetes.io/name=paddock,",
	"until kubectl -n paddock wait pod",
	"kubectl -n paddock get pod -l app.kubernetes.io/name=paddock,",
	"kubectl -n paddock wait pod -l app.kubernetes.io/name=paddock,",
	// These are the alternative to a rollback in place. On this cluster, the other pods of the node
	// would have nowhere to go.
	"kubectl drain", "kubectl uncordon",
	// These clear all nodes, of every mode. Page 90-removal removes the same from its node, without
	// paddock quiet.
	"kubectl label nodes --all", "ssh node1 sudo rm -rf",
}

// TestDeployPage checks that the pages here run every command of deploy/README.md, with node1 for
// NODE.
func TestDeployPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	names, err := pages("")
	snapshots, snapshotsErr := filepath.Glob(snapshotPage("*"))
	if err := errors.Join(err, snapshotsErr); err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, name := range slices.Concat(names, snapshots) {
		p, err := readPage(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range p.blocks {
			commands = append(commands, b.command)
		}
	}
	found := documented.FindAllStringSubmatch(string(text), -1)
	if len(found) < 20 {
		t.Fatalf("%d commands in deploy/README.md", len(found))
	}
	unused := slices.Clone(notPlayed)
	for _, match := range found {
		command := strings.ReplaceAll(match[1], "NODE", nodeName)
		has := func(beginning string) bool { return strings.HasPrefix(command, beginning) }
		if i := slices.IndexFunc(notPlayed, has); i >= 0 {
			unused = slices.DeleteFunc(unused, has)
			continue
		}
		if !slices.ContainsFunc(commands, func(played string) bool { return strings.HasPrefix(played, command) }) {
			t.Errorf("deploy/README.md has a command that no page of testdata runs: %s", command)
		}
	}
	for _, beginning := range unused {
		t.Errorf("deploy/README.md has no command %q any more: remove it from notPlayed", beginning)
	}
}
