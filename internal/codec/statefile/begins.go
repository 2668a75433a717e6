package statefile

import "bytes"

// Begins reports whether the first bytes of a file are those of a Paddock state, whether or not the
// rest of the file is valid.
func Begins(data []byte) bool { return bytes.HasPrefix(data, []byte(`{"format":"paddock-state"`)) }
