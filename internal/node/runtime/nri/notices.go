package nri

import "context"

// Notices show containers what they have. No method but Open waits.
type Notices interface {
	// Open makes the notice of a container that is created, before ctx ends. It returns what to
	// mount in the container; no Source: nothing.
	Open(ctx context.Context, c Noticed) Mount
	// Changed notes what a container has for certain.
	Changed(c Noticed)
	// Keep notes the UIDs of the pods that are there. The caller does not change the map.
	Keep(pods map[string]bool)
}

// Mount is a directory of the host, and where a container has it, read-only.
type Mount struct{ Source, Destination string }

// options are those of the mount of a notice.
var options = []string{"bind", "ro", "nosuid", "nodev", "noexec", "rprivate"}
