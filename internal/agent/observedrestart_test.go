package agent

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestObservingCountsOnce checks that pods that were rejected or have ended count once, although a
// kubelet that was started again lists no pods at first, and then writes of a rejected pod that its
// containers ended.
func TestObservingCountsOnce(t *testing.T) {
	k, c := newStockKubelet(t)
	o := observer(t, c)
	now := time.Now()
	o.world.Now = func() time.Time { return now }
	k.admit("a", "2")
	k.admit("large", "9")
	look(t, o)
	before := k.lists(nil)
	k.state = k.state.Release("a")
	k.write()
	before[0].Status.Phase = v1.PodSucceeded
	k.lists(before)
	look(t, o)

	k.server.CloseClientConnections()
	k.lists(nil)
	look(t, o)
	before[1].Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "c", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", ExitCode: 137}},
	}}
	k.lists(before)
	now = now.Add(lookEvery)
	look(t, o)
	trust := o.session.Load().trust()
	one := view.TrustCount{All: 1, AsPredicted: 1}
	if trust.Admissions != one || trust.Rejections != one {
		t.Errorf("admissions %+v, rejections %+v, %+v", trust.Admissions, trust.Rejections, trust.Unpredicted)
	}

	k.lists(nil)
	now = now.Add(startingTime + time.Second)
	if look(t, o); len(o.session.Load().decided) > 0 {
		t.Errorf("pods that are gone are kept: %v", o.session.Load().decided)
	}
}
