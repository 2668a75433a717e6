package podspec

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/request"
)

// MovesAnnotation is the annotation that states how far a pod may be moved while it runs.
const MovesAnnotation = "paddock-project.github.io/moves"

// Consent parses the annotation (R-MOV-3). A pod without it has not consented to any move. A pod
// with an invalid value is never moved, and the error names the value. A virtual machine is never
// moved (R-MOV-11).
func Consent(pod *v1.Pod) (request.Consent, error) {
	text, there := pod.Annotations[MovesAnnotation]
	if IsVirtualMachine(pod) {
		return request.NeverMoves, nil
	}
	if !there {
		return request.NoMoves, nil
	}
	for _, c := range []request.Consent{request.NeverMoves, request.MoveCPUs, request.MoveMemory} {
		if text == c.String() {
			return c, nil
		}
	}
	return request.NeverMoves, fmt.Errorf("annotation %s is %q: expected %s, %s or %s; the pod is not moved",
		MovesAnnotation, text, request.NeverMoves, request.MoveCPUs, request.MoveMemory)
}

// SharesIsolated parses the annotation by which a pod lets the containers that share its pool run
// on isolated CPUs (R-CPU-136). An invalid value counts as no annotation, and the error names it.
func SharesIsolated(pod *v1.Pod) (bool, error) {
	switch text, there := pod.Annotations[request.SharedPoolAnnotation]; {
	case !there:
		return false, nil
	case text == request.SharedPoolIsolated:
		return true, nil
	default:
		return false, fmt.Errorf("annotation %s is %.80q: expected %s; the containers that share the pool get no isolated CPU",
			request.SharedPoolAnnotation, text, request.SharedPoolIsolated)
	}
}

// KubeVirtLabel and VirtLauncher are the label that KubeVirt gives to its pods, and its value for
// the pod of a virtual machine.
const (
	KubeVirtLabel = "kubevirt.io"
	VirtLauncher  = "virt-launcher"
)

// IsVirtualMachine reports whether a pod runs a virtual machine of KubeVirt.
func IsVirtualMachine(pod *v1.Pod) bool { return pod.Labels[KubeVirtLabel] == VirtLauncher }

// QuietAnnotation is the annotation for the time until which a pod asks not to be moved.
const QuietAnnotation = "paddock-project.github.io/leave-alone-until"

// Quiet parses the text of QuietAnnotation. It returns the zero time for an empty text. For any
// other invalid text it returns an error, and the pod may be moved.
func Quiet(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	until, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("annotation %s is %.80q: expected a time such as 2027-01-31T18:00:00Z; the pod is not left alone", QuietAnnotation, text)
	}
	return until, nil
}
