package node

// CheckSlices is checkSlices.
func CheckSlices(g *Grant) error { return checkSlices(g) }
