package notice

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
)

const (
	// Annotation is the annotation of a pod that names the containers that ask for a notice.
	Annotation = "paddock-project.github.io/notice"
	// MountPoint is the directory of the notice in the container.
	MountPoint = "/run/paddock-notice"
	// FileName is the name of the file in MountPoint.
	FileName = "notice.json"
	// Version is the first field of the file. Within a version, fields are added and never change.
	// Readers must ignore fields that they do not know.
	Version = "notice.paddock-project.github.io/v1"
	kind    = "Notice"
	// MaxSize limits one file, in bytes. On a machine with 1,024 CPUs, a list in which every other
	// CPU is missing has 2,000 bytes.
	MaxSize = 16 << 10
	// maxRevision is the largest integer that every JSON reader represents exactly.
	maxRevision = 1 << 53
)

// Notice is the content of the file. CPUs and NUMA nodes are lists as in the kernel's cpuset.cpus,
// e.g. "0-3,8".
type Notice struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Revision increases with every change of the file. It starts at 1.
	Revision  uint64 `json:"revision"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	Container string `json:"container"`
	// CPUs are the CPUs that the container runs on. Mems are the NUMA nodes of its memory.
	CPUs string `json:"cpus"`
	Mems string `json:"mems"`
	// SharedWith describes what else runs on these CPUs: no other container ("none"), other
	// containers of the pod ("pod"), or other pods ("node").
	SharedWith string `json:"sharedWith"`
	// Pending is a change that is about to come. It is absent if there is none.
	Pending *Pending `json:"pending,omitempty"`
}

// Pending has the container's resources after a change. The change begins at Deadline, not before.
// It may still be given up. The file then has no pending change, and the CPUs stay the same.
type Pending struct {
	CPUs     string    `json:"cpus"`
	Mems     string    `json:"mems"`
	Deadline time.Time `json:"deadline"`
}

// Setting has the CPUs and NUMA nodes of a container.
type Setting struct {
	CPUs cpuset.Set
	Mems mask.Mask
	// Level describes what else runs on the CPUs.
	Level node.Isolation
}

// Change is a pending change.
type Change struct {
	CPUs     cpuset.Set
	Mems     mask.Mask
	Deadline time.Time
}

// Container is a container that is being created.
type Container struct {
	Namespace, Pod, UID, Name string
	// Annotations are the pod's annotations.
	Annotations map[string]string
	// Mounts are the directories of the container at which something is already mounted.
	Mounts []string
}

// Asks reports whether a container asks for a notice.
func Asks(annotations map[string]string, container string) bool {
	for name := range strings.SplitSeq(annotations[Annotation], ",") {
		if name = strings.TrimSpace(name); name == "*" || name == container && name != "" {
			return true
		}
	}
	return false
}

// check returns an error for names that cannot be elements of a path. A UID has letters, digits and
// hyphens, and a container name is a DNS label. Both have at most 63 characters.
func check(uid, container string) error {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}
	for _, name := range []string{uid, container} {
		if len(name) > 63 || name == "" || strings.ContainsFunc(name, other) {
			return fmt.Errorf("UID %.80q, container %.80q: expected letters, digits and hyphens, at most 63", uid, container)
		}
	}
	return nil
}

// levels maps node.Isolation to the words of SharedWith.
var levels = map[node.Isolation]string{node.HostIsolation: "node", node.PodIsolation: "pod", node.ContainerIsolation: "none"}

// set writes a setting into the notice.
func (n *Notice) set(s Setting) {
	n.CPUs, n.Mems, n.SharedWith = s.CPUs.String(), s.Mems.List(), levels[s.Level]
}

// same reports whether two notices differ at most in their revision.
func same(a, b Notice) bool {
	p, q := a.Pending, b.Pending
	a.Revision, a.Pending, b.Revision, b.Pending = 0, nil, 0, nil
	return a == b && (p == nil) == (q == nil) && (p == nil || p.CPUs == q.CPUs && p.Mems == q.Mems && p.Deadline.Equal(q.Deadline))
}

// decode parses a file of an earlier process. It returns an error for another version, and for
// anything that is not a notice of this container.
func decode(data []byte, uid, container string) (Notice, error) {
	var n Notice
	if err := json.Unmarshal(data, &n); err != nil {
		return Notice{}, err
	}
	if n.APIVersion != Version || n.Kind != kind || n.UID != uid || n.Container != container || n.Revision == 0 || n.Revision > maxRevision {
		return Notice{}, fmt.Errorf("it is not a notice of version %s for container %s of pod %s", Version, container, uid)
	}
	return n, nil
}
