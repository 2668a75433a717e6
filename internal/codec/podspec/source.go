package podspec

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// MaxPods is the maximum number of pods that can be read at once. No node runs a tenth of it; a
// manifest that asks for more probably has one digit too many.
const MaxPods = 10_000

// Source is a pod and its origin.
type Source struct {
	Origin
	// Pod is the pod as written, except for its namespace, which is "default" if none was given,
	// and its UID (see UID). The pods of one controller share their spec: use DeepCopy before
	// changing one.
	Pod *v1.Pod
}

// Origin is the location of an object, for messages.
type Origin struct {
	File     string // as given to Read; "-" for the standard input
	Document int    // counts the non-empty documents of the file from 1; 0 means the whole file or directory
	Line     int    // the line where the document starts, counted from 1
	Item     int    // counts the items of a list from 1; 0 outside of a list
	Object   string // kind, namespace and name as far as they are known, such as "Deployment default/web"
}

// String returns the location as text: "web.yaml: document 2 (line 14): Pod default/a".
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

// Note is about an object that was read and has no pods.
type Note struct {
	Origin
	Text string
}

// String returns the note in one line.
func (n Note) String() string { return n.Origin.String() + ": " + n.Text }

// Ended reports whether all containers of the pod have terminated for good. Such a pod has no
// assignments.
func Ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
