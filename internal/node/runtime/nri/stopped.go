package nri

import "time"

// beats is an event: a pulse. One that comes late shows that the process was stopped.
func (l *loop) beats() {
	l.noteStop()
	if l.pulses = l.config.After(pulse); l.pulses != nil {
		l.pulseDue = l.config.Now().Add(pulse)
	}
}

// noteStop notes, once, that the process did not run since the pulse before the one that is due: it
// was stopped, or the machine was suspended.
func (l *loop) noteStop() {
	now := l.config.Now()
	if l.pulseDue.IsZero() || now.Sub(l.pulseDue) < stalled {
		return
	}
	l.stopped, l.resumed, l.pulseDue = l.pulseDue.Add(-pulse), now, now
	l.config.Log.WarnContext(l.flow, "the agent did not run: a runtime that asked meanwhile has started pods without it", "for", now.Sub(l.stopped).String())
}

// lastSure is the last time at which the agent could answer, when the connection ends. A runtime
// closes the connection to an agent that does not run, and the agent notices that when it runs
// again.
func (l *loop) lastSure() time.Time {
	l.noteStop()
	now := l.config.Now()
	if !l.stopped.IsZero() && now.Sub(l.resumed) < stalled {
		return l.stopped
	}
	return now
}
