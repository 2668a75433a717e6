package nri

import "context"

// Notices show containers the resources that they have. Only Open may wait.
type Notices interface {
	// Open makes the notice of a container that is being created, before ctx ends. It returns the
	// mount for the container. If its Source is empty, nothing is mounted.
	Open(ctx context.Context, c Noticed) Mount
	// Changed records the verified resources of a container.
	Changed(c Noticed)
	// Keep records the UIDs of the pods that exist. The caller must not change the map afterwards.
	Keep(pods map[string]bool)
}

// Mount is a directory of the host and the path at which a container sees it, read-only.
type Mount struct{ Source, Destination string }

// options are the mount options of a notice.
var options = []string{"bind", "ro", "nosuid", "nodev", "noexec", "rprivate"}
