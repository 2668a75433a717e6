package kueue

import (
	"encoding/json"
	"maps"
	"time"
	"unicode/utf8"
)

// maxMessage is the largest number of bytes of a message. Kueue allows 32,768 characters.
const maxMessage = 4096

// Answer is what the checks of a workload become.
type Answer struct {
	State, Message string
	// After is the time before Kueue tries the workload again, in whole seconds. It is for Retry.
	After time.Duration
	// Unjudged is set if the fleet was not asked.
	Unjudged bool
}

// Patch returns a merge patch for the status that sets these checks, by name. It changes nothing of
// other checks. The API server answers a conflict if the workload has changed since it was read, or
// is another one.
func (w *Workload) Patch(mine map[string]bool, a Answer, now time.Time) ([]byte, error) {
	checks := make([]map[string]any, len(w.checks))
	for i, fields := range w.checks {
		checks[i] = fields
		if !mine[w.Checks[i].Name] {
			continue
		}
		changed := maps.Clone(fields)
		if w.Checks[i].State != a.State {
			changed["lastTransitionTime"] = now.UTC().Format(time.RFC3339)
		}
		changed["state"], changed["message"] = a.State, Shortened(a.Message, maxMessage)
		delete(changed, "requeueAfterSeconds")
		if a.State == Retry {
			changed["requeueAfterSeconds"] = int64(a.After / time.Second)
		}
		checks[i] = changed
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": w.ResourceVersion, "uid": w.UID},
		"status":   map[string]any{"admissionChecks": checks},
	})
}

// Shortened returns a text of at most n bytes.
func Shortened(text string, n int) string {
	const end = "…"
	if len(text) <= n {
		return text
	}
	n -= len(end)
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + end
}
