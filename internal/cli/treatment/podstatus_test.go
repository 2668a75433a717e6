package treatment_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
)

// TestPodStatus checks what the statuses of the pods of a node show about a pod: that it was
// rejected, and which pods ended and started after that.
func TestPodStatus(t *testing.T) {
	at := func(hour int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 11, 25, hour, 0, 0, 0, time.UTC)}
	}
	pod := func(name string, phase v1.PodPhase, started int, state v1.ContainerState) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{NodeName: "n"}}
		p.Status = v1.PodStatus{Phase: phase, StartTime: at(started)}
		if state != (v1.ContainerState{}) {
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", State: state}}
		}
		return p
	}
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	ended := func(hour int) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: *at(hour)}}
	}
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	rejected := pod("rejected", v1.PodFailed, 3, waiting) // The kubelet reports containers that it never created.
	all := []*v1.Pod{
		rejected, pod("before", v1.PodSucceeded, 1, ended(2)), pod("late", v1.PodSucceeded, 1, ended(5)), pod("soon", v1.PodFailed, 1, ended(4)),
		pod("runs", v1.PodRunning, 1, running), pod("new", v1.PodRunning, 4, running), pod("also", v1.PodFailed, 4, v1.ContainerState{}),
	}
	roster := inputs.Roster{}
	for _, p := range all {
		roster[string(p.UID)] = p
	}
	f := treatment.PodStatusOf(rejected, roster)
	if !f.Rejected || f.Node != "n" || f.At == nil || !f.At.Equal(at(3).Time) {
		t.Errorf("the rejected pod: got %+v", f)
	}
	names := func(list []string, more ...string) bool { return slices.Equal(list, more) }
	var gone, began []string
	for _, e := range f.Ended {
		gone = append(gone, e.Pod)
	}
	for _, e := range f.Started {
		began = append(began, e.Pod)
	}
	if !names(gone, "x/soon", "x/late") || !names(began, "x/new") {
		t.Errorf("since the rejection: got %v ended and %v started, want x/soon and x/late, and x/new", gone, began)
	}
	if !names(f.Also, "x/also") {
		t.Errorf("the other rejected pods: got %v, want x/also", f.Also)
	}
	if f := treatment.PodStatusOf(all[3], roster); f.Rejected || len(f.Ended) > 0 {
		t.Errorf("a pod that failed in its container: got %+v", f)
	}
	unplaced := &v1.Pod{Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "no room"}}}}
	if f := treatment.PodStatusOf(unplaced, roster); f.Phase != "Pending" || f.Reason != "Unschedulable" || f.Message != "no room" {
		t.Errorf("a pod without a node: got %+v", f)
	}
}

// TestRejectedAtStart checks which pods count as rejected while they ran. A kubelet that starts
// writes of the containers of a pod that it had rejected before that they ended and could not be
// located.
func TestRejectedAtStart(t *testing.T) {
	unknown := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", ExitCode: 137}}
	ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Error", ExitCode: 137, FinishedAt: metav1.Now()}}
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "PodInitializing"}}
	for _, c := range []struct {
		about  string
		status v1.ContainerStatus
		want   bool
	}{
		{"it was never created", v1.ContainerStatus{State: waiting}, false},
		{"it was never created, and the kubelet started again", v1.ContainerStatus{State: unknown}, false},
		{"it ended", v1.ContainerStatus{State: ended}, true},
		{"it is gone", v1.ContainerStatus{State: unknown, ContainerID: "containerd://1"}, true},
		{"it had ended before", v1.ContainerStatus{State: unknown, LastTerminationState: ended}, true},
		{"it was restarted", v1.ContainerStatus{State: unknown, RestartCount: 1}, true},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{NodeName: "n"}, Status: v1.PodStatus{
			Phase: v1.PodFailed, Reason: "TopologyAffinityError", Message: "Pod was rejected: Resources cannot be allocated with Topology locality",
			InitContainerStatuses: []v1.ContainerStatus{c.status}, ContainerStatuses: []v1.ContainerStatus{{State: waiting}},
		}}
		if treatment.RejectedAtStart(pod) != c.want || treatment.Started(pod) != c.want {
			t.Errorf("%s: rejected at a start %v, started %v, want %v", c.about, treatment.RejectedAtStart(pod), treatment.Started(pod), c.want)
		}
		if f := treatment.PodStatusOf(pod, nil); !f.Rejected {
			t.Errorf("%s: it does not count as rejected", c.about)
		}
		pod.Status.Reason, pod.Status.Message = "Evicted", "The node was low on resource: memory"
		if f := treatment.PodStatusOf(pod, nil); f.Rejected != (c.status.State.Waiting != nil) {
			t.Errorf("evicted, %s: rejected %v", c.about, f.Rejected)
		}
	}
}
