package absence

// Size is what is remembered.
func (t *Tracker) Size() (digests, vanished int) { return len(t.history), len(t.vanished) }
