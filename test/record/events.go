package record

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
)

// do carries out an event and returns the answer with the state after it. A panic of the managers
// is an answer. The error is about the scenario.
func (k *kubelet) do(e event) (a answer, err error) {
	a = answer{Op: e.Op, Pod: e.Pod, Container: e.Container}
	defer func() {
		if problem := recover(); problem != nil {
			a, err = answer{Op: e.Op, Pod: e.Pod, Container: e.Container, Panic: fmt.Sprint(problem)}, nil
		}
	}()
	k.updates = nil
	if pod := k.pods[e.Pod]; pod == nil && e.Pod != "" {
		return a, fmt.Errorf("pod %q is none of the scenario's pods", e.Pod)
	}
	if again := e.Op == "admit" && slices.Contains(k.active, e.Pod); !again && e.Op != "restart" {
		if err := k.connect(); err != nil {
			return a, err
		}
	}
	switch e.Op {
	case "admit":
		k.admit(k.pods[e.Pod], &a)
	case "removeContainer":
		err = k.removeContainer(e.Pod, e.Container)
	case "stopContainer":
		// All that the kubelet does when a container ends.
		err = k.managers.StopContainer(containerID(e.Pod, e.Container))
	case "removePod":
		err = k.removePod(e.Pod)
	case "dropStale":
		k.managers.DropStale(probe)
	case "reconcile":
		k.rounds.run()
	case "restart":
		k.patch(e)
		if rejected := k.start(e.Plugins == "late"); rejected != nil {
			a.StartError, a.Checkpoints = k.public(rejected), k.checkpoints()
			return a, nil
		}
	default:
		err = fmt.Errorf("op %q is unknown", e.Op)
	}
	k.describe(&a)
	a.Updates = k.updates
	return a, err
}

// admit admits a pod and, if the managers admit it, creates and starts its containers. If the pod
// is already active, it is admitted again, as after a restart of the kubelet: its containers run.
func (k *kubelet) admit(pod *v1.Pod, a *answer) {
	uid := string(pod.UID)
	again := slices.Contains(k.active, uid)
	others := slices.DeleteFunc(k.activePods(), func(p *v1.Pod) bool { return p.UID == pod.UID })
	k.admitting, k.again = pod, again
	decision := k.managers.Admit(pod, others)
	k.admitting, k.again = nil, false
	a.Admitted, a.Reason, a.Message = &decision.Admitted, decision.Reason, decision.Message
	a.QoS = string(qos.GetPodQOS(pod))
	a.Affinity = map[string]affinity{}
	for _, c := range containers(pod) {
		a.Affinity[c.Name] = affinityOf(k.managers.Hint(uid, c.Name))
	}
	switch {
	case !decision.Admitted:
		k.forget(uid)
	case !again:
		k.active = append(k.active, uid)
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.RestartPolicy == nil }) {
			// Starting the containers moves memory away from standard init containers.
			view := k.view()
			a.AtAdmit = &view
		}
		k.startContainers(pod, a)
	}
}

func (k *kubelet) startContainers(pod *v1.Pod, a *answer) {
	uid := string(pod.UID)
	k.started[uid] = map[string]bool{}
	a.Cgroup = map[string]cgroup{}
	for _, c := range containers(pod) {
		if !k.create(pod, c, a) {
			continue // The kubelet tries again later. Other containers start.
		}
		cpus, nodes := k.managers.Created(pod, c)
		var mems []string
		for _, id := range nodes {
			mems = append(mems, strconv.Itoa(id))
		}
		a.Cgroup[c.Name] = cgroup{CPUs: cpus.String(), Mems: strings.Join(mems, ",")}
		k.managers.AddContainer(pod, c, containerID(uid, c.Name))
		k.started[uid][c.Name] = true
	}
}

func (k *kubelet) removeContainer(uid, name string) error {
	delete(k.started[uid], name)
	return k.managers.RemoveContainer(containerID(uid, name))
}

func (k *kubelet) removePod(uid string) error {
	for _, c := range containers(k.pods[uid]) {
		if !k.started[uid][c.Name] {
			continue
		}
		if err := k.managers.StopContainer(containerID(uid, c.Name)); err != nil {
			return err
		}
	}
	k.forget(uid)
	k.managers.DropStale(probe)
	return nil
}

func (k *kubelet) forget(uid string) {
	k.active = slices.DeleteFunc(k.active, func(other string) bool { return other == uid })
	delete(k.started, uid)
}

// probe is a pod that requests nothing.
var probe = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe", UID: "probe"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}

// patch changes the configuration permanently. null removes a field.
func (k *kubelet) patch(e event) {
	maps.Copy(k.config, e.ConfigPatch)
	maps.DeleteFunc(k.config, func(_ string, value any) bool { return value == nil })
	if len(e.FeatureGates) == 0 {
		return
	}
	gates := map[string]any{}
	if written, ok := k.config["featureGates"].(map[string]any); ok {
		maps.Copy(gates, written)
	}
	for name, on := range e.FeatureGates {
		gates[name] = on
	}
	k.config["featureGates"] = gates
}
