package intake

// Forget makes the next plan look at every promise again.
func (i *Intake) Forget() { i.promised.of = nil }
