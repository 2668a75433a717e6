package absence

// Size returns the numbers of lists and of vanished pods that the Tracker remembers.
func (t *Tracker) Size() (digests, vanished int) { return len(t.history), len(t.vanished) }
