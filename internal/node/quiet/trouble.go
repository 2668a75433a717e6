package quiet

import (
	"time"
)

const (
	// retryAfter is how long a file is left that somebody else keeps changing back. irqbalance and
	// tuned change it within 10 seconds; an administrator who has stopped them does not wait long.
	retryAfter = 10 * time.Minute
	// firstRetry and lastRetry limit the time until a value that was rejected is written again.
	// Most causes end with a container: CPUs that another cgroup has.
	firstRetry = 2 * time.Second
	lastRetry  = time.Minute
)

// Trouble is a file that does not have what it must contain.
type Trouble struct {
	Wanted string `json:"wanted"`
	// Found is what it contains.
	Found string `json:"found"`
	// Times is how often somebody else changed it back.
	Times int `json:"times,omitempty"`
	// Error is why the kernel rejects the value, or empty.
	Error string `json:"error,omitempty"`
	// Managed is whether no program may write the file.
	Managed bool `json:"managed,omitempty"`
	// Since is when the trouble began. Until is when the file is written again, if it is left until
	// then.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`

	wait time.Duration
}

// Troubles has the trouble of each file that has one.
type Troubles map[string]Trouble

// seen returns the trouble after a file was found with another value than the wanted one. foreign
// is whether another program has written it since Paddock did.
func (t Trouble) seen(wanted, found string, foreign bool, at time.Time) Trouble {
	if t.Since.IsZero() || t.Wanted != wanted && !foreign {
		t = Trouble{Since: at}
	}
	if foreign && (t.Found != found || t.Until.IsZero()) {
		t.Times++
	}
	t.Wanted, t.Found = wanted, found
	return t
}

// rests reports whether the file is left alone for now, and sets until when.
func (t *Trouble) rests(at time.Time, most int) bool {
	if t.Managed {
		return true
	}
	if t.Times > most && t.Until.IsZero() {
		t.Until = at.Add(retryAfter)
	}
	if at.Before(t.Until) {
		return true
	}
	if t.Times > most {
		t.Times = most // One more try.
	}
	t.Until = time.Time{}
	return false
}

// failed returns the trouble after a write failed.
func (t Trouble) failed(wanted, found, cause string, managed bool, at time.Time) Trouble {
	if t.Since.IsZero() || t.Wanted != wanted {
		t = Trouble{Wanted: wanted, Since: at}
	}
	t.Found, t.Error, t.Managed = found, cause, managed
	t.wait = min(max(2*t.wait, firstRetry), lastRetry)
	t.Until = at.Add(t.wait)
	return t
}
