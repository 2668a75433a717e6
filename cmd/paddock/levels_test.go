package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCommandHasALevel checks that RELEASES.md has a level for each command that the program
// lists, and names no other.
func TestEveryCommandHasALevel(t *testing.T) {
	page, err := os.ReadFile("../../RELEASES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### Commands and flags\n")
	section, _, _ = strings.Cut(section, "\n### ")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*) \| (stable|beta|alpha) \|$`).FindAllStringSubmatch(section, -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !strings.HasPrefix(m[1], "-") {
				listed[m[1]] = true
			}
		}
	}
	there := map[string]bool{"completion": true} // cobra adds it when the program runs.
	for _, c := range newRootCommand().Commands() {
		if c.Hidden || !c.IsAvailableCommand() {
			continue
		}
		there[c.Name()] = true
		for _, sub := range c.Commands() {
			if c.Name() == "fleet" {
				there["fleet "+sub.Name()] = true
			}
		}
	}
	if len(there) < 20 {
		t.Errorf("the program has the commands %v", there)
	}
	for name := range there {
		if !listed[name] {
			t.Errorf("%s has no level in RELEASES.md", name)
		}
	}
	for name := range listed {
		if !there[name] {
			t.Errorf("RELEASES.md has a level for %s, which is no command", name)
		}
	}
}
