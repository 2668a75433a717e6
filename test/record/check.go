package record

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
)

// attempts bounds how often a scenario runs until it gives the recorded answers. A few messages
// name one of two or three resources, which the order of a map picks. Each such message must
// match the recording in one of the attempts.
const attempts = 12

// compare runs a scenario and prints the differences from the recorded result.
func (c *command) compare(s *scenario, recorded json.RawMessage, answer func() (json.RawMessage, error)) error {
	if recorded == nil {
		return fmt.Errorf("scenario %s has no recorded result", s.Name)
	}
	want, err := generic(recorded)
	if err != nil {
		return err
	}
	if s.File != "" {
		want = map[string]any{"accepted": want["accepted"], "error": want["error"]}
	}
	var left []difference
	for attempt := range attempts {
		a, err := answer()
		if err != nil {
			return fmt.Errorf("scenario %s: %w", s.Name, err)
		}
		got, err := generic(a)
		if err != nil {
			return err
		}
		found := slices.DeleteFunc(differences("", got, want), difference.accepted)
		if attempt == 0 || slices.ContainsFunc(left, difference.fixed) {
			left = found
		} else if !slices.ContainsFunc(found, difference.fixed) {
			left = slices.DeleteFunc(left, func(d difference) bool {
				return !slices.ContainsFunc(found, func(f difference) bool { return f.path == d.path })
			})
		}
		if len(left) == 0 {
			return nil
		}
	}
	c.differ++
	for _, d := range left {
		fmt.Fprintf(c.out, "%s: %s\n", s.Name, d)
	}
	return nil
}

// fixed reports whether a difference is in something that does not depend on an order.
func (d difference) fixed() bool { return path.Base(d.path) != "message" }

// accepted reports whether a difference does not count as a difference between answers.
func (d difference) accepted() bool {
	switch path.Base(d.path) {
	case "runs", "trimmed", "nondeterministic", "nondeterministicWhere", "metricsNondeterministic", "checkpointOrderNondeterministic":
		return true // Remarks about a recording.
	case "metrics":
		return true // Older recordings have the kubelet's metrics. Nothing compares them.
	case "machineState", "checkpoints":
		return d.want == nil // Left out of a recording that was trimmed.
	}
	return false
}
