package podspec

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/request"
)

// MovesAnnotation is how far a pod may be moved while it runs.
const MovesAnnotation = "paddock-project.github.io/moves"

// Consent reads the annotation (R-MOV-3). A pod without it consents to nothing. One with another
// value is never moved; the value is the error.
func Consent(pod *v1.Pod) (request.Consent, error) {
	text, there := pod.Annotations[MovesAnnotation]
	if !there {
		return request.NoMoves, nil
	}
	for _, c := range []request.Consent{request.NeverMoves, request.MoveCPUs, request.MoveMemory} {
		if text == c.String() {
			return c, nil
		}
	}
	return request.NeverMoves, fmt.Errorf("annotation %s is %q: want %s, %s or %s; the pod is not moved",
		MovesAnnotation, text, request.NeverMoves, request.MoveCPUs, request.MoveMemory)
}

// QuietAnnotation is a time until which a pod asks not to be moved.
const QuietAnnotation = "paddock-project.github.io/leave-alone-until"

// Quiet reads the text of QuietAnnotation; empty: the zero time. With another text the pod is not
// left alone, which is the error.
func Quiet(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	until, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("annotation %s is %.80q: want a time such as 2027-01-31T18:00:00Z; the pod is not left alone", QuietAnnotation, text)
	}
	return until, nil
}
