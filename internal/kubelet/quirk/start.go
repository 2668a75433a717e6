package quirk

import (
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Readmission is the decision of a kubelet, at its start, about a pod that is on the node.
type Readmission struct {
	Pod request.Pod
	// On is the state on which the kubelet decides: the state of the files, after the decisions
	// about the pods before.
	On *node.State
	// Had is what the pod has before the decision. It is nil if the state has nothing of the pod.
	Had *node.Grant
	// Plan is the decision, and Quirks are the faults because of which it differs from Paddock's,
	// which is that a pod keeps what it has.
	Plan   *node.Plan
	Quirks []Quirk
}

// Release selects when a kubelet releases what a pod has that it rejects at its start.
type Release bool

// The two times. A kubelet releases nothing before it knows the pods of all sources, so that the
// pods that come first can find less free than the pods after them.
const (
	AtNextPod  Release = true
	AfterStart Release = false
)

// Readmit admits the pods that are on the node one after another, as a kubelet does with every pod
// after its start. Unlike Again, it decides about each pod on the state that the decisions about
// the earlier pods have left. It admits pods that are not in the state as new pods. Readmit ends
// with a pod that takes the kubelet down; the result does not have the pods after it. It returns
// the state after the last decision, and the kubelet.
func (k Kubelet) Readmit(s *node.State, pods []request.Pod, release Release) ([]Readmission, *node.State, Kubelet, error) {
	s = s.Restarted()
	all := make([]Readmission, 0, len(pods))
	for i := range pods {
		r := Readmission{Pod: pods[i], On: s}
		r.Had, _ = s.Grant(pods[i].UID)
		r.Plan, r.Quirks, k = k.Admit(s, pods[i])
		all = append(all, r)
		if r.Plan.Trace.Cause.Down() {
			return all, s, k, nil
		}
		if r.Plan.Rejection != nil && release == AfterStart {
			continue
		}
		next, err := s.Apply(r.Plan)
		if err != nil {
			return nil, nil, k, err
		}
		s = next
	}
	return all, s.Swept(), k, nil
}

// Reason returns why the kubelet's answer differs, without the pod and the advice. It returns Text
// for a quirk without a number.
func (q Quirk) Reason() string {
	if why, known := reasons[q.ID]; known {
		return why
	}
	return q.Text
}

// beforeStart has what to do before a kubelet starts, instead of deleting the pods that the fault
// changes.
var beforeStart = map[ID]string{
	OwnCores: "end other pods until as many CPUs are free as the pod's largest container has; or " + DeleteFirst,
	NodeGaps: "turn prefer-closest-numa-nodes off",
}

// BeforeStart returns what to do, before the kubelet starts, about a pod that the fault changes at
// that start.
func (q Quirk) BeforeStart() string {
	if do, known := beforeStart[q.ID]; known {
		return do
	}
	return DeleteFirst
}

// DeleteFirst is advice that always prevents a change of a running pod at the kubelet's start. If a
// pod is deleted on a node that is not cordoned, it can come back before the start.
const DeleteFirst = "cordon the node and delete the pod, so that it is created again on another node"
