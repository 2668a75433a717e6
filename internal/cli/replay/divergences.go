package replay

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Divergences are the intended differences, one on each line:
//
//	scenario event field[,field…] quirk reason…
//
// event is the index of the event, or "start". A line that begins with # is a comment.
type Divergences struct {
	lines []divergence
}

type divergence struct {
	scenario string
	event    int
	field    string
	quirk    string
	number   int
	used     bool
}

// ReadDivergences reads the list. Errors begin with name.
func ReadDivergences(name string, r io.Reader) (*Divergences, error) {
	d := &Divergences{}
	scanner := bufio.NewScanner(r)
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[3], "Q-") {
			return nil, fmt.Errorf("%s:%d: expected: scenario event field Q-number reason", name, number)
		}
		event := -1
		if fields[1] != "start" {
			var err error
			if event, err = strconv.Atoi(fields[1]); err != nil || event < 0 {
				return nil, fmt.Errorf("%s:%d: event %q: expected the index of an event, or start", name, number, fields[1])
			}
		}
		for field := range strings.SplitSeq(fields[2], ",") {
			d.lines = append(d.lines, divergence{scenario: fields[0], event: event, field: field, quirk: fields[3], number: number})
		}
	}
	return d, scanner.Err()
}

// Listed reports whether a difference is listed, and marks it as having occurred.
func (d *Divergences) Listed(x Difference) bool {
	i := slices.IndexFunc(d.lines, func(l divergence) bool {
		return l.scenario == x.Scenario && l.event == x.Event && l.field == x.Field
	})
	if i < 0 {
		return false
	}
	d.lines[i].used = true
	return true
}

// Quirks returns the quirks of a scenario's listed differences, by event.
func (d *Divergences) Quirks(scenario string) map[int]string {
	quirks := map[int]string{}
	for _, l := range d.lines {
		if l.scenario == scenario {
			quirks[l.event] = l.quirk
		}
	}
	return quirks
}

// Unused describes the listed differences of a scenario that did not occur. Call it after calling
// Listed with all of the scenario's differences.
func (d *Divergences) Unused(scenario string) []string {
	var unused []string
	for _, l := range d.lines {
		if l.scenario == scenario && !l.used {
			unused = append(unused, fmt.Sprintf("line %d: %s in event %d of %s is listed and does not differ any more: remove the line", l.number, l.field, l.event, l.scenario))
		}
	}
	return unused
}
