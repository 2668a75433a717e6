package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

const (
	// podsAddress is the address of the kubelet's read-only port.
	podsAddress = "127.0.0.1:10255"
	podTimeout  = 5 * time.Minute

	labelUID       = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
)

// kubelet replaces a real kubelet. It runs pods through CRI in the order and with the parameters of
// a kubelet, and serves them on /pods. It never sets a cpuset.
type kubelet struct {
	cri     cri
	runtime runtimev1.RuntimeServiceClient

	mu   sync.Mutex
	pods map[string]*pod
	// away is set while /pods does not answer.
	away bool
}

type pod struct {
	spec    *v1.Pod
	hidden  bool
	attempt uint32
	sandbox string
	config  *runtimev1.PodSandboxConfig
	// containers has the IDs of the containers that were created in the sandbox. ended has the init
	// containers among them that are done. mu guards both.
	containers map[string]string
	ended      map[string]bool
	attempts   map[string]uint32
}

func newKubelet() (*kubelet, error) {
	own := ofMachine()
	conn, err := dial(own.socket)
	if err != nil {
		return nil, err
	}
	k := &kubelet{cri: own, runtime: runtimev1.NewRuntimeServiceClient(conn), pods: map[string]*pod{}}
	for _, dir := range []string{"", "burstable", "besteffort"} {
		if err := makeCgroup(filepath.Join(cgroups, "kubepods", dir), nil); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/pods", k.servePods)
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	go func() {
		fmt.Println("guest: /pods:", (&http.Server{Addr: podsAddress, Handler: mux, ReadHeaderTimeout: time.Minute}).ListenAndServe())
	}()
	return k, nil
}

func (k *kubelet) servePods(w http.ResponseWriter, _ *http.Request) {
	k.mu.Lock()
	if k.away {
		k.mu.Unlock()
		panic(http.ErrAbortHandler) // The connection ends without an answer.
	}
	list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []v1.Pod{}}
	for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
		if p := k.pods[uid]; !p.hidden {
			pod := *p.spec
			pod.Status = p.status(k.cri.scheme)
			list.Items = append(list.Items, pod)
		}
	}
	k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		fmt.Println("guest: /pods:", err)
	}
}

// status returns the status of a pod with its running containers. The caller must have locked mu.
func (p *pod) status(scheme string) v1.PodStatus {
	status := v1.PodStatus{Phase: v1.PodRunning}
	of := func(containers []v1.Container) (all []v1.ContainerStatus) {
		for _, c := range containers {
			if id := p.containers[c.Name]; id != "" && !p.ended[c.Name] {
				all = append(all, v1.ContainerStatus{
					Name: c.Name, ContainerID: scheme + id, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
				})
			}
		}
		return all
	}
	status.InitContainerStatuses, status.ContainerStatuses = of(p.spec.Spec.InitContainers), of(p.spec.Spec.Containers)
	status.EphemeralContainerStatuses = of(ephemeral(p.spec))
	return status
}

// ephemeral returns the containers that were added to a running pod.
func ephemeral(spec *v1.Pod) []v1.Container {
	var all []v1.Container
	for _, c := range spec.Spec.EphemeralContainers {
		all = append(all, v1.Container(c.EphemeralContainerCommon))
	}
	return all
}

// serve sets whether /pods answers.
func (k *kubelet) serve(in wire.Serve) (wire.Nothing, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = in.Away
	return wire.Nothing{}, nil
}

// run runs a pod, or tries again. A known pod keeps its UID.
func (k *kubelet) run(in wire.Run) (wire.RunResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), podTimeout)
	defer cancel()
	var result wire.RunResult
	if in.Pod == nil || in.Pod.UID == "" {
		return result, errors.New("expected a pod with a UID")
	}
	k.mu.Lock()
	p := k.pods[string(in.Pod.UID)]
	if p == nil {
		p = &pod{attempts: map[string]uint32{}}
		k.pods[string(in.Pod.UID)] = p
	}
	p.spec, p.hidden = in.Pod, in.Hidden
	k.mu.Unlock()
	if err := makeCgroup(filepath.Join(cgroups, parent(p.spec)), podLimits(p.spec)); err != nil {
		return result, err
	}
	k.mu.Lock()
	p.config, p.containers, p.ended = sandboxConfig(p), map[string]string{}, map[string]bool{}
	k.mu.Unlock()
	answer, err := k.runtime.RunPodSandbox(ctx, &runtimev1.RunPodSandboxRequest{Config: p.config})
	p.attempt++
	if err != nil {
		result.Sandbox = status.Convert(err).Message()
		return result, nil
	}
	p.sandbox = answer.PodSandboxId
	for i := range p.spec.Spec.InitContainers {
		c := &p.spec.Spec.InitContainers[i]
		started := k.startContainer(ctx, p, c)
		if started.Error == "" && !isSidecar(*c) {
			if started.Seen, err = k.finish(ctx, p, c.Name); err != nil {
				return result, err
			}
		}
		if result.Containers = append(result.Containers, started); started.Error != "" {
			return result, nil
		}
	}
	for i := range p.spec.Spec.Containers {
		result.Containers = append(result.Containers, k.startContainer(ctx, p, &p.spec.Spec.Containers[i]))
	}
	return result, nil
}

// startContainer creates and starts one container.
func (k *kubelet) startContainer(ctx context.Context, p *pod, c *v1.Container) wire.Started {
	started := wire.Started{Name: c.Name}
	var created *runtimev1.CreateContainerResponse
	err := os.MkdirAll(filepath.Join(p.config.LogDirectory, c.Name), 0o755)
	if err != nil {
		started.Error = err.Error()
		return started
	}
	for again := range 60 { // As a kubelet does when the agent requests it. On a busy machine, it requests it often.
		if again > 0 {
			time.Sleep(time.Second)
		}
		created, err = k.runtime.CreateContainer(ctx, &runtimev1.CreateContainerRequest{
			PodSandboxId: p.sandbox, Config: containerConfig(p, c), SandboxConfig: p.config,
		})
		if err == nil || !strings.Contains(err.Error(), "tries again") {
			break
		}
	}
	p.attempts[c.Name]++
	if err == nil {
		k.mu.Lock()
		p.containers[c.Name] = created.ContainerId
		k.mu.Unlock()
		_, err = k.runtime.StartContainer(ctx, &runtimev1.StartContainerRequest{ContainerId: created.ContainerId})
	}
	if err != nil {
		started.Error = status.Convert(err).Message()
	}
	return started
}

// finish reads the cgroup of an init container and ends the container. SIGTERM would be lost if the
// container's first process is not ready for it yet.
func (k *kubelet) finish(ctx context.Context, p *pod, name string) (*wire.Container, error) {
	id := p.containers[name]
	dir := k.cri.cgroup(parent(p.spec), id)
	seen, err := readContainer(dir)
	if err != nil {
		return nil, fmt.Errorf("init container %s: %w", name, err)
	}
	seen.UID, seen.Name, seen.ID = string(p.spec.UID), name, id
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(trim(procs))
	if err != nil {
		return nil, fmt.Errorf("init container %s: %w", name, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("init container %s: %w", name, err)
	}
	k.mu.Lock()
	p.ended[name] = true
	k.mu.Unlock()
	for {
		answer, err := k.runtime.ContainerStatus(ctx, &runtimev1.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			return nil, err
		}
		if answer.Status.State == runtimev1.ContainerState_CONTAINER_EXITED {
			return seen, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// find returns a known pod.
func (k *kubelet) find(uid string) (*pod, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pods[uid]
	if p == nil {
		return nil, fmt.Errorf("no pod has the UID %s", uid)
	}
	return p, nil
}

// gone returns nil for an error that means that the object does not exist.
func gone(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// restart stops one container and starts it again in the same sandbox, as after a crash.
func (k *kubelet) restart(in wire.ContainerName) (wire.RunResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), podTimeout)
	defer cancel()
	var result wire.RunResult
	p, err := k.find(in.UID)
	if err != nil {
		return result, err
	}
	for _, c := range slices.Concat(p.spec.Spec.InitContainers, p.spec.Spec.Containers) {
		if c.Name != in.Name {
			continue
		}
		if old := p.containers[in.Name]; old != "" {
			if _, err := k.runtime.StopContainer(ctx, &runtimev1.StopContainerRequest{ContainerId: old, Timeout: grace}); err != nil && gone(err) != nil {
				return result, err
			}
			if err := k.removeContainer(ctx, old); err != nil {
				return result, err
			}
		}
		result.Containers = append(result.Containers, k.startContainer(ctx, p, &c))
		return result, nil
	}
	return result, fmt.Errorf("pod %s has no container %s", in.UID, in.Name)
}

// debug adds an ephemeral container to a running pod, as kubectl debug does. The container is
// listed, and has no requests and limits of its own.
func (k *kubelet) debug(in wire.ContainerName) (wire.RunResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), podTimeout)
	defer cancel()
	p, err := k.find(in.UID)
	if err != nil {
		return wire.RunResult{}, err
	}
	c := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: in.Name}}
	k.mu.Lock()
	spec := p.spec.DeepCopy()
	spec.Spec.EphemeralContainers = append(spec.Spec.EphemeralContainers, c)
	p.spec = spec
	k.mu.Unlock()
	own := v1.Container(c.EphemeralContainerCommon)
	return wire.RunResult{Containers: []wire.Started{k.startContainer(ctx, p, &own)}}, nil
}

func (k *kubelet) update(in wire.Update) (wire.Nothing, error) {
	ctx, cancel := context.WithTimeout(context.Background(), podTimeout)
	defer cancel()
	p, err := k.find(in.UID)
	if err != nil {
		return wire.Nothing{}, err
	}
	amounts := &runtimev1.LinuxContainerResources{CpuQuota: in.Quota, CpuPeriod: in.Period, CpuShares: in.Shares}
	if in.Name == "" {
		_, err = k.runtime.UpdatePodSandboxResources(ctx, &runtimev1.UpdatePodSandboxResourcesRequest{PodSandboxId: p.sandbox, Resources: amounts})
		return wire.Nothing{}, err
	}
	_, err = k.runtime.UpdateContainerResources(ctx, &runtimev1.UpdateContainerResourcesRequest{ContainerId: p.containers[in.Name], Linux: amounts})
	return wire.Nothing{}, err
}

func (k *kubelet) inContainer(in wire.InContainer) (wire.Ended, error) {
	ctx, cancel := context.WithTimeout(context.Background(), in.Timeout+5*time.Second)
	defer cancel()
	p, err := k.find(in.UID)
	if err != nil {
		return wire.Ended{}, err
	}
	answer, err := k.runtime.ExecSync(ctx, &runtimev1.ExecSyncRequest{ContainerId: p.containers[in.Name], Cmd: in.Argv, Timeout: int64(in.Timeout.Seconds())})
	if err != nil {
		return wire.Ended{}, err
	}
	return wire.Ended{Code: int(answer.ExitCode), Stdout: string(answer.Stdout), Stderr: string(answer.Stderr)}, nil
}

// makeCgroup creates a directory, enables every controller for its children, and writes its limits.
func makeCgroup(dir string, limits map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, value := range limits {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644); err != nil {
			return err
		}
	}
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	enable := "+" + strings.Join(strings.Fields(string(controllers)), " +")
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(enable), 0o644)
}
