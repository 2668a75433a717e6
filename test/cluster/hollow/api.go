package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// These are labels of a hollow node.
const (
	LabelMachine = "cluster.paddock-project.github.io/machine"
	LabelKind    = "cluster.paddock-project.github.io/kind"
)

// GracePeriod is the controller manager's --node-monitor-grace-period. It is longer than an API
// server that shares few CPUs with everything else needs for the leases of all nodes. A hollow node
// whose lease was late would stay unreachable, because it does not write its status again.
const GracePeriod = 30 * time.Minute

const (
	// leaseEvery is longer than a kubelet's 10 s: a thousand leases every ten seconds would be most
	// of the work of the API server here.
	leaseEvery = time.Minute
	// retryAPI is the wait before a write is tried again. patience is the time limit of one write.
	retryAPI, patience = time.Second, 20 * time.Second
)

// register creates the Node, or updates its status after a restart.
func (f *Fleet) register(ctx context.Context, n *Node) error {
	object := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
			v1.LabelHostname: n.Name, v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64", LabelMachine: n.Kind.Machine, LabelKind: n.Kind.Name,
		}},
		Status: v1.NodeStatus{Allocatable: n.Kind.allocatable(), Capacity: n.Kind.allocatable(), NodeInfo: v1.NodeSystemInfo{KubeletVersion: n.host.version()}},
	}
	now := metav1.Now()
	object.Status.Conditions = []v1.NodeCondition{{
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "the hollow kubelet runs pods", LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	return f.persist(ctx, func(ctx context.Context) error {
		made, err := f.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return f.createLease(ctx, made)
	})
}

// These belong to the agents' DaemonSet of deploy/base.
const (
	agentNamespace, agentLabel, agentName = "paddock", "app.kubernetes.io/name", "paddock"
)

// isAgent reports whether a pod is the pod of an agent. Such a pod is not run, because the agent is
// part of the hollow node.
func isAgent(pod *v1.Pod) bool {
	return pod.Namespace == agentNamespace && pod.Labels[agentLabel] == agentName
}

// createAgent creates the pod of a node's agent.
func (f *Fleet) createAgent(ctx context.Context, n *Node) error {
	no := false
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "paddock-" + n.Name, Namespace: agentNamespace, Labels: map[string]string{agentLabel: agentName}},
		Spec:       v1.PodSpec{NodeName: n.Name, AutomountServiceAccountToken: &no, Containers: []v1.Container{{Name: "agent", Image: "example.invalid/paddock:1"}}},
	}
	if err := f.persist(ctx, func(ctx context.Context) error {
		_, err := f.client.CoreV1().Pods(agentNamespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	f.showAgent(ctx, n, true)
	return nil
}

// showAgent reports whether the agent of a node is ready, like the kubelet's probe of its pod.
func (f *Fleet) showAgent(ctx context.Context, n *Node, ready bool) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "paddock-" + n.Name, Namespace: agentNamespace}}
	f.patchStatus(ctx, pod, v1.PodStatus{Phase: v1.PodRunning}, ready)
}

// allocatable returns the allocatable resources that the Node reports.
func (k *Kind) allocatable() v1.ResourceList {
	list := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(k.Allocatable.Milli, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(k.Allocatable.Memory, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(k.Allocatable.Pods, resource.DecimalSI),
	}
	for _, other := range k.Allocatable.Others {
		list[v1.ResourceName(other.Resource)] = *resource.NewQuantity(other.Value, resource.BinarySI)
	}
	return list
}

func (f *Fleet) createLease(ctx context.Context, n *v1.Node) error {
	now := metav1.NowMicro()
	seconds := int32(GracePeriod / time.Second)
	_, err := f.client.CoordinationV1().Leases(v1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.Name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, metav1.CreateOptions{})
	return err
}

// heartbeats renews the leases until ctx ends. The renewals are spread over the period, and several
// run at a time.
func (f *Fleet) heartbeats(ctx context.Context) {
	slots := make(chan struct{}, parallel)
	var requests sync.WaitGroup
	defer requests.Wait()
	for {
		for _, n := range f.order {
			select {
			case <-ctx.Done():
				return
			case <-time.After(leaseEvery / time.Duration(len(f.order))):
			}
			slots <- struct{}{}
			requests.Go(func() {
				defer func() { <-slots }()
				within, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
				// If it fails, the next renewal comes in time.
				_, _ = f.client.CoordinationV1().Leases(v1.NamespaceNodeLease).Patch(within, n.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			})
		}
	}
}

// persist tries a write until it succeeds, the object is gone, or ctx ends.
func (f *Fleet) persist(ctx context.Context, write func(context.Context) error) error {
	for {
		within, cancel := context.WithTimeout(ctx, patience)
		err := write(within)
		cancel()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryAPI):
		}
	}
}

// report writes the phase of a pod.
func (f *Fleet) report(ctx context.Context, pod *v1.Pod, phase v1.PodPhase) {
	f.patchStatus(ctx, pod, v1.PodStatus{Phase: phase}, phase == v1.PodRunning)
}

// patchStatus writes the status of a pod, with the conditions that belong to it.
func (f *Fleet) patchStatus(ctx context.Context, pod *v1.Pod, status v1.PodStatus, isReady bool) {
	now := metav1.Now()
	ready := v1.ConditionFalse
	if isReady {
		ready = v1.ConditionTrue
	}
	status.StartTime = &now
	for _, kind := range []v1.PodConditionType{v1.PodInitialized, v1.PodReady, v1.ContainersReady} {
		c := v1.PodCondition{Type: kind, Status: ready, LastTransitionTime: now}
		if status.Phase == v1.PodSucceeded {
			c.Reason = "PodCompleted"
		}
		status.Conditions = append(status.Conditions, c)
	}
	change := map[string]any{"status": status}
	if !isStatic(pod) && pod.UID != "" { // For a static pod, the API server has the mirror pod, which has another UID.
		change["metadata"] = map[string]any{"uid": pod.UID}
	}
	patch, err := json.Marshal(change)
	if err != nil {
		panic(err) // The change is built here, so it can always be encoded.
	}
	// A pod that is gone needs no status.
	_ = f.persist(ctx, func(ctx context.Context) error {
		_, err := f.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// remove removes a deleted pod from the API, as the kubelet does when nothing of the pod runs any
// more.
func (f *Fleet) remove(ctx context.Context, pod *v1.Pod) {
	now := int64(0)
	var preconditions *metav1.Preconditions
	if pod.UID != "" {
		preconditions = &metav1.Preconditions{UID: &pod.UID}
	}
	_ = f.persist(ctx, func(ctx context.Context) error { // A pod that is already gone is no error.
		return f.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: preconditions})
	})
}

// warn writes the event that a kubelet writes when a pod does not start.
func (f *Fleet) warn(ctx context.Context, pod *v1.Pod, message string) {
	const most = 1000 // The message of an event is limited to 1 kB.
	if len(message) > most {
		message = message[:most]
	}
	now := metav1.Now()
	_, _ = f.client.CoreV1().Events(pod.Namespace).Create(ctx, &v1.Event{ // Events may be lost.
		ObjectMeta:     metav1.ObjectMeta{GenerateName: pod.Name + ".", Namespace: pod.Namespace},
		InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Reason:         "FailedCreatePodSandBox", Message: message, Type: v1.EventTypeWarning, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: v1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName},
	}, metav1.CreateOptions{})
}
