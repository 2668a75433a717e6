package record

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
)

// kubelet is the part of a kubelet that decides: the Topology, CPU, Memory and Device Managers, and
// a directory with their state files. It only records pods, containers and what it asks of the
// container runtime. A panic of the managers is an answer, so only one goroutine may use a kubelet,
// beside the CPU Manager's reconcile loop, which runs only while that goroutine waits for it.
type kubelet struct {
	machine Machine
	dir     string
	// config is the KubeletConfiguration as written.
	config map[string]any
	pods   map[string]*v1.Pod
	// live is set for a kubelet that is observed while it decides. Its answers have only what the
	// managers have.
	live bool
	// devices are those of the scenario. If nil, there is no device manager.
	devices *inventory
	// connected is set while the device plugins are connected.
	connected bool

	managers Managers
	rounds   *rounds
	updates  []update

	// active are the UIDs of pods that were admitted and not removed, in this order.
	active []string
	// admitting is the pod that is being admitted. The managers see it as active.
	admitting *v1.Pod
	// again is set while an active pod is admitted again.
	again bool
	// started are the containers of active pods that were started and not removed.
	started map[string]map[string]bool
}

func newKubelet(s *scenario, machine Machine, dir string) *kubelet {
	k := &kubelet{machine: machine, dir: dir, config: maps.Clone(s.KubeletConfig), devices: s.Devices, pods: map[string]*v1.Pod{}, started: map[string]map[string]bool{}}
	if k.config == nil {
		k.config = map[string]any{}
	}
	for _, pod := range s.Pods {
		k.pods[string(pod.UID)] = pod
	}
	return k
}

// start makes the managers in the kubelet's order and starts them on the files in the directory. If
// the scenario has devices, it makes the device manager, which gives hints first. With late, the
// device plugins connect later (connect).
func (k *kubelet) start(late bool) error {
	k.stop()
	s, err := resolve(k.config, k.machine)
	if err != nil {
		return err
	}
	s.Devices = k.devices != nil
	if k.managers, err = k.machine.Managers(s, k.dir); err != nil {
		return err
	}
	if err := k.startManagers(s.Config.CPUManagerPolicy == string(cpumanager.PolicyStatic)); err != nil {
		return err
	}
	if !late {
		if err := k.connect(); err != nil {
			return err
		}
	}
	return s.checkCapacity()
}

func (k *kubelet) startManagers(reconciles bool) error {
	ctx, containers := context.Background(), containermap.NewContainerMap()
	for uid, names := range k.started {
		for name := range names {
			containers.Add(uid, name, containerID(uid, name))
		}
	}
	k.rounds = newRounds(reconciles)
	w := World{ActivePods: k.activePods, Sources: k.rounds, Statuses: k, Runtime: k}
	if err := k.managers.StartCPU(ctx, w, containers.Clone()); err != nil {
		k.rounds = nil
		return fmt.Errorf("start cpu manager error: %w", err)
	}
	k.rounds.wait()
	if err := k.managers.StartMemory(ctx, w, containers.Clone()); err != nil {
		return fmt.Errorf("start memory manager error: %w", err)
	}
	if k.devices == nil {
		return nil
	}
	w.Sources = ready{k}
	if err := k.managers.StartDevices(w, containers.Clone(), sets.New(k.running()...)); err != nil {
		return fmt.Errorf("start device manager error: %w", err)
	}
	return nil
}

// stop ends the reconcile loop and the device manager. The state files stay.
func (k *kubelet) stop() {
	if k.managers != nil && k.devices != nil {
		k.managers.StopDevices()
	}
	k.managers, k.connected = nil, false
	if k.rounds != nil {
		k.rounds.stop()
		k.rounds = nil
	}
}

// remove stops the kubelet and removes its directory.
func (k *kubelet) remove() {
	k.stop()
	_ = os.RemoveAll(k.dir) // A leftover in a temporary directory harms nothing.
}

func containerID(uid, container string) string { return uid + "/" + container }

func containers(pod *v1.Pod) []*v1.Container {
	var all []*v1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}

// activePods are the pods that the managers must keep.
func (k *kubelet) activePods() []*v1.Pod {
	var pods []*v1.Pod
	for _, uid := range k.active {
		pods = append(pods, k.pods[uid])
	}
	if k.admitting != nil && !slices.Contains(k.active, string(k.admitting.UID)) {
		pods = append(pods, k.admitting)
	}
	return pods
}

// GetPodStatus returns the status that the reconcile loop reads: all started containers run, except
// for standard init containers, which have ended.
func (k *kubelet) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	pod := k.pods[string(uid)]
	if pod == nil {
		return v1.PodStatus{}, false
	}
	var status v1.PodStatus
	for i, c := range containers(pod) {
		if !k.started[string(uid)][c.Name] {
			continue
		}
		s := v1.ContainerStatus{Name: c.Name, ContainerID: "containerd://" + containerID(string(uid), c.Name)}
		s.State.Running = &v1.ContainerStateRunning{}
		if i >= len(pod.Spec.InitContainers) {
			status.ContainerStatuses = append(status.ContainerStatuses, s)
			continue
		}
		if c.RestartPolicy == nil {
			s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, s)
	}
	return status, true
}

// UpdateContainerResources records what the reconcile loop asks of the container runtime.
func (k *kubelet) UpdateContainerResources(_ context.Context, id string, r *runtimev1.ContainerResources) error {
	k.updates = append(k.updates, update{id, r.GetLinux().GetCpusetCpus()})
	return nil
}

// RoundPeriod is the pause of the reconcile loop before it begins a round, in which it then waits.
// Its length only costs time, because an event triggers a round.
const RoundPeriod = time.Millisecond

// rounds runs the rounds of the CPU Manager's reconcile loop one by one. The loop is not exported,
// but it begins each round by asking whether all sources of pods are ready. There, it waits until
// an event triggers a round.
type rounds struct {
	// loop is set if the manager has a loop. With the policy none, it has none.
	loop bool
	// waiting is set while the loop waits. Any other caller is then not the loop.
	waiting bool
	// reached receives a value when the loop begins to wait.
	reached chan struct{}
	proceed chan struct{}
}

func newRounds(loop bool) *rounds {
	return &rounds{loop: loop, reached: make(chan struct{}), proceed: make(chan struct{})}
}

// AddSource is never called, because sources belong to the kubelet.
func (r *rounds) AddSource(string) {}

// AllReady always returns true. The loop waits in it.
func (r *rounds) AllReady() bool {
	if !r.loop || r.waiting {
		return true
	}
	r.waiting = true
	r.reached <- struct{}{}
	if _, ok := <-r.proceed; !ok {
		runtime.Goexit()
	}
	return true
}

// wait returns when the loop waits.
func (r *rounds) wait() {
	if r.loop {
		<-r.reached
	}
}

// run runs one round.
func (r *rounds) run() {
	if r.loop {
		r.waiting = false
		r.proceed <- struct{}{}
		<-r.reached
	}
}

func (r *rounds) stop() { close(r.proceed) }

// public replaces the directory in an error by the usual directory of a kubelet.
func (k *kubelet) public(err error) string {
	return strings.ReplaceAll(err.Error(), k.dir, "/var/lib/kubelet")
}
