package treatment

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// PodStatusOf returns the status of a pod, and what happened to the pods of its node after a
// rejection. Pods that were deleted are in no list, so what they left is not known.
func PodStatusOf(pod *v1.Pod, node inputs.Roster) view.PodStatus {
	f := view.PodStatus{Node: pod.Spec.NodeName, Phase: string(cmp.Or(pod.Status.Phase, v1.PodPending)), Reason: pod.Status.Reason, Message: pod.Status.Message}
	if at := pod.Status.StartTime; !at.IsZero() {
		f.At = &at.Time
	}
	if f.Node == "" {
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
				f.Reason, f.Message = c.Reason, c.Message
			}
		}
		return f
	}
	f.Rejected, f.AtStart = rejected(pod), RejectedAtStart(pod)
	if f.AtStart {
		f.At = nil
		if end := endOf(pod); !end.IsZero() {
			f.At = &end
		}
	}
	if !f.Rejected || f.At == nil {
		return f
	}
	for _, other := range node {
		name := other.Namespace + "/" + other.Name
		if rejected(other) && other.UID != pod.UID {
			f.Also = append(f.Also, name)
		}
		if at := endOf(other); !at.Before(*f.At) && podspec.Ended(other) && other.UID != pod.UID {
			f.Ended = append(f.Ended, view.Event{Pod: name, At: at})
		}
		if from := other.Status.StartTime; !from.IsZero() && !from.Time.Before(*f.At) && other.Status.Phase == v1.PodRunning {
			f.Started = append(f.Started, view.Event{Pod: name, At: from.Time})
		}
	}
	slices.Sort(f.Also)
	for _, events := range [][]view.Event{f.Ended, f.Started} {
		slices.SortFunc(events, func(a, b view.Event) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Pod, b.Pod)) })
	}
	return f
}

// rejected reports whether the kubelet rejected a pod. Other pods that fail have containers, or it
// is written that those ended.
func rejected(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodFailed && (strings.HasPrefix(pod.Status.Message, RejectedMessage) || !slices.ContainsFunc(statusesOf(pod), hasState))
}

// RejectedMessage begins the message of a pod that a kubelet rejected.
const RejectedMessage = "Pod was rejected: "

// RejectedAtStart reports whether the kubelet rejected a pod that had run. It admits every pod of
// the node again when it starts, and ends the containers of a pod that it rejects then.
func RejectedAtStart(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodFailed && strings.HasPrefix(pod.Status.Message, RejectedMessage) && len(containersOf(pod)) > 0
}

func statusesOf(pod *v1.Pod) []v1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// hasState reports whether more is written of a container than that it waits.
func hasState(s v1.ContainerStatus) bool {
	return s.State.Running != nil || s.State.Terminated != nil || s.ContainerID != ""
}

// containersOf returns the statuses of the containers that were ever created. A kubelet that starts
// writes also of containers that it never created that they ended (ContainerStatusUnknown), for
// example of pods that it had rejected. Then there is no time, no restart and no earlier end.
func containersOf(pod *v1.Pod) []v1.ContainerStatus {
	return slices.DeleteFunc(statusesOf(pod), func(s v1.ContainerStatus) bool {
		t := s.State.Terminated
		ended := t != nil && (!t.StartedAt.IsZero() || !t.FinishedAt.IsZero()) || s.LastTerminationState.Terminated != nil || s.RestartCount > 0
		return s.State.Running == nil && s.ContainerID == "" && !ended
	})
}

// Started reports whether a container of the pod was created.
func Started(pod *v1.Pod) bool { return len(containersOf(pod)) > 0 }

// endOf returns when the last container of a pod ended, or the zero time if that is not known.
func endOf(pod *v1.Pod) time.Time {
	var last time.Time
	for _, s := range containersOf(pod) {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(last) {
			last = t.FinishedAt.Time
		}
	}
	return last
}
