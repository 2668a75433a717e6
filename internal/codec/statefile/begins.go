package statefile

import "bytes"

// Begins reports by the first bytes of a file whether it is, or was meant to be, a state of
// Paddock.
func Begins(data []byte) bool { return bytes.HasPrefix(data, []byte(`{"format":"paddock-state"`)) }
