package podspec

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// MaxPods is how many pods can be read at once. No node runs a tenth of it; a manifest
// that asks for more has a digit too many.
const MaxPods = 10_000

// Source is a pod and where it came from.
type Source struct {
	Origin
	// Pod is as it was written but for its namespace, which is "default" if none was
	// given, and its UID (see UID). Pods of one controller share their spec: use
	// DeepCopy before changing one.
	Pod *v1.Pod
}

// Origin is the place of an object, for messages.
type Origin struct {
	File     string // as given to Read; "-" for the standard input
	Document int    // from 1, among the documents of the file that are not empty; 0: the whole file or directory
	Line     int    // where the document starts, from 1
	Item     int    // from 1 within a list, 0 outside of one
	Object   string // kind, namespace and name as far as they are known: "Deployment default/web"
}

// String is the place in words: "web.yaml: document 2 (line 14): Pod default/a".
func (o Origin) String() string {
	if o.Document == 0 {
		return o.File
	}
	s := fmt.Sprintf("%s: document %d (line %d)", o.File, o.Document, o.Line)
	if o.Item > 0 {
		s += fmt.Sprintf(": item %d", o.Item)
	}
	if o.Object != "" {
		s += ": " + o.Object
	}
	return s
}

// Note is about something that was read and gave no pods.
type Note struct {
	Origin
	Text string
}

// String is the note in one line.
func (n Note) String() string { return n.Origin.String() + ": " + n.Text }

// Ended reports whether all containers of the pod have ended for good: such a pod has no
// assignments.
func Ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
