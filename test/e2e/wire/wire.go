// Package wire defines the protocol between a test and the guest program in a virtual machine.
// Calls go in and replies come out, one JSON object per line, on a serial port. Calls run
// concurrently, and a reply has the ID of its call. Everything is plain data, so that a log of it
// shows what happened.
package wire

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Port is the name of the serial port.
const Port = "paddock.e2e"

// Image is the image of every sandbox, and of every container on machines without a cluster. Its
// entry point is the program pause.
const Image = "localhost/e2e/pause:1"

// These are the images of a cluster. Busybox is the one that deploy/first-pod.yaml names.
// PaddockBefore is that of the last release.
const (
	Busybox       = "docker.io/library/busybox:1.37"
	PaddockBefore = "localhost/paddock:before"
)

// Call asks the guest program to perform Op with Body.
type Call struct {
	ID   uint64          `json:"id"`
	Op   string          `json:"op"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Reply answers the call with the same ID. Error is the reason why the guest program could not
// perform the call. Errors that a kubelet would see are in Body.
type Reply struct {
	ID    uint64          `json:"id"`
	Error string          `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// These are the operations, with the types of their input and output.
const (
	OpStart        = "start"        // Process, Nothing
	OpStop         = "stop"         // Stop, Ended
	OpWrite        = "write"        // File, Nothing
	OpExec         = "exec"         // Exec, Ended
	OpRun          = "run"          // Run, RunResult
	OpStopPod      = "stop-pod"     // PodName, Nothing: a shutdown, the pod stays known
	OpRemove       = "remove"       // Remove, Nothing
	OpRestart      = "restart"      // ContainerName, RunResult
	OpUpdate       = "update"       // Update, Nothing
	OpDebug        = "debug"        // ContainerName, RunResult: a new ephemeral container in a running pod
	OpForget       = "forget"       // Nothing, Nothing: remove every pod
	OpObserve      = "observe"      // Nothing, Observation
	OpInContainer  = "in-container" // InContainer, Ended
	OpPodResources = "podresources" // PodResources, []Assigned
	OpGet          = "get"          // Get, Ended
	OpServe        = "serve"        // Serve, Nothing
	OpPlug         = "plug"         // Plug, Nothing
	OpPull         = "pull"         // Pull, Nothing: the runtime pulls an image
	OpPing         = "ping"         // Nothing, Nothing: the guest program answers
	OpReboot       = "reboot"       // Nothing, Nothing: the guest program answers again with ID 0
	OpWatch        = "watch"        // Nothing, Nothing: starts to read every running container regularly
	OpWatched      = "watched"      // Nothing, Watched: what was seen until now
	OpSample       = "sample"       // Sample, Nothing: starts to read the cgroups of containers every 10 ms
	OpSampled      = "sampled"      // Nothing, Sampled: what was seen until now
)

// Serve sets whether the simulated kubelet answers on /pods.
type Serve struct {
	Away bool `json:"away,omitempty"`
}

// Plug takes CPUs online or offline.
type Plug struct {
	CPUs   []int `json:"cpus"`
	Online bool  `json:"online,omitempty"`
}

// Nothing is an empty input or output.
type Nothing struct{}

// Process is started, and is ready when Ready answers. Its output is written to /var/log/NAME.log.
// If it is started again, the output is appended.
type Process struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	// Env has variables in addition to those of the guest program, as "NAME=VALUE".
	Env []string `json:"env,omitempty"`
	// Ready is "unix:PATH", a socket that accepts connections, "http://…", a URL that answers 200,
	// or "log:TEXT", a text that the process has printed since its start. If empty, the process is
	// ready at once.
	Ready   string        `json:"ready,omitempty"`
	Timeout time.Duration `json:"timeout"`
}

// LessGarbage is set for programs that are not under test, inside and outside of the machine: their
// garbage collector runs a third as often. With it, a machine and a control plane use a tenth less
// CPU time.
const LessGarbage = "GOGC=300"

// CRIO is the directory of CRI-O in a machine whose runtime it is. CRIOSocket is where it listens.
// PrepareCRIO is a script that makes what it expects at fixed paths: its registries, and where it
// unpacks images.
const (
	CRIO        = "/in/crio"
	CRIOSocket  = "/var/run/crio/crio.sock"
	PrepareCRIO = "mkdir -p /var/tmp /etc/containers && cp " + CRIO + "/registries.conf /etc/containers"
)

// CRIOProcess returns the process of CRI-O, without a name. configs is the directory of further
// configuration files, or empty.
func CRIOProcess(configs string) Process {
	return Process{
		Argv:  []string{CRIO + "/crio", "--config", CRIO + "/crio.conf", "--config-dir", configs},
		Env:   []string{"LD_LIBRARY_PATH=" + CRIO}, // The libraries of its monitor.
		Ready: "unix:" + CRIOSocket,
	}
}

// Containerd is the directory of another containerd than that of the root disk, in a machine that
// has one.
const Containerd = "/in/containerd"

// Registry is the address at which the guest program serves images, given the argument registry:
// that of the registry localhost.
const Registry = "127.0.0.1:80"

// Pull pulls an image.
type Pull struct {
	Image string `json:"image"`
}

// Stop sends a signal to a process and waits until it is gone.
type Stop struct {
	Name    string        `json:"name"`
	Signal  int           `json:"signal"`
	Timeout time.Duration `json:"timeout"`
}

// Ended is the result of a command.
type Ended struct {
	Code   int    `json:"code"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// File is written to the node as it is.
type File struct {
	Path string `json:"path"`
	Data []byte `json:"data"`
	Mode uint32 `json:"mode"`
}

// Exec runs a command on the node.
type Exec struct {
	Argv    []string      `json:"argv"`
	Stdin   []byte        `json:"stdin,omitempty"`
	Timeout time.Duration `json:"timeout"`
}

// Run runs a pod once. A failure that a kubelet would try again is part of the answer.
type Run struct {
	Pod *v1.Pod `json:"pod"`
	// Hidden keeps the pod out of what /pods serves.
	Hidden bool `json:"hidden,omitempty"`
}

// RunResult describes how far a pod was started.
type RunResult struct {
	// Sandbox is the error of RunPodSandbox. If it is set, the pod is Pending.
	Sandbox    string    `json:"sandbox,omitempty"`
	Containers []Started `json:"containers,omitempty"`
}

// Started is one container of a run. Containers are in the order of their creation.
type Started struct {
	Name string `json:"name"`
	// Error is the error of CreateContainer or StartContainer.
	Error string `json:"error,omitempty"`
	// Seen has an init container's cgroup and status files while it ran.
	Seen *Container `json:"seen,omitempty"`
}

// PodName identifies a pod by its UID.
type PodName struct {
	UID string `json:"uid"`
}

// Remove deletes a pod. Grace is how long its containers may take to stop, in whole seconds. If zero,
// it is 5 s.
type Remove struct {
	UID   string        `json:"uid"`
	Grace time.Duration `json:"grace,omitempty"`
}

// ContainerName identifies a container.
type ContainerName struct {
	UID  string `json:"uid"`
	Name string `json:"name"`
}

// Update is an UpdateContainerResources of a kubelet: new amounts, without a cpuset. If Name is empty,
// it is an UpdatePodSandboxResources, which comes before the kubelet changes the pod's cgroup.
type Update struct {
	UID    string `json:"uid"`
	Name   string `json:"name"`
	Quota  int64  `json:"quota"`
	Period int64  `json:"period"`
	Shares int64  `json:"shares"`
}

// InContainer runs a command in a container.
type InContainer struct {
	UID     string        `json:"uid"`
	Name    string        `json:"name"`
	Argv    []string      `json:"argv"`
	Timeout time.Duration `json:"timeout"`
}

// Get requests a URL. Ended.Code is the status.
type Get struct {
	URL string `json:"url"`
}

// PodResources calls the PodResources API on a socket.
type PodResources struct {
	Socket string `json:"socket"`
}

// Assigned is one container of the PodResources API.
type Assigned struct {
	Namespace string           `json:"namespace"`
	Pod       string           `json:"pod"`
	Container string           `json:"container"`
	CPUs      []int64          `json:"cpus,omitempty"`
	Memory    []AssignedBytes  `json:"memory,omitempty"`
	Devices   []AssignedDevice `json:"devices,omitempty"`
	Claims    []AssignedClaim  `json:"claims,omitempty"`
}

// AssignedDevice has devices of a device plugin that are near the same NUMA nodes.
type AssignedDevice struct {
	Resource string   `json:"resource"`
	IDs      []string `json:"ids"`
	Nodes    []int64  `json:"nodes"`
}

// AssignedClaim is a device of a ResourceClaim.
type AssignedClaim struct {
	Claim  string   `json:"claim"`
	Driver string   `json:"driver"`
	Pool   string   `json:"pool"`
	Device string   `json:"device"`
	CDI    []string `json:"cdi"`
}

// AssignedBytes is an amount of one type of memory on a set of NUMA nodes.
type AssignedBytes struct {
	Type  string  `json:"type"`
	Bytes uint64  `json:"bytes"`
	Nodes []int64 `json:"nodes"`
}

// Observation describes what runs, read from the node's own files.
type Observation struct {
	Pods       []PodCgroup `json:"pods"`
	Containers []Container `json:"containers"`
	// Online and Present are lists of CPUs, as the kernel writes them.
	Online  string `json:"online"`
	Present string `json:"present"`
}

// PodCgroup is the cgroup of a pod.
type PodCgroup struct {
	UID    string            `json:"uid"`
	Path   string            `json:"path"`
	CPUMax string            `json:"cpuMax"`
	Files  map[string]string `json:"files"`
	Throttling
}

// Throttling has values of cpu.stat.
type Throttling struct {
	// Periods is nr_periods. Throttled is nr_throttled.
	Periods   uint64 `json:"periods"`
	Throttled uint64 `json:"throttled"`
}

// Container is a running container, with the files of its cgroup and the status of its process.
type Container struct {
	// Pod is its namespace and name, separated by a slash.
	Pod  string `json:"pod"`
	UID  string `json:"uid"`
	Name string `json:"name"`
	ID   string `json:"id"`
	// Path is that of its cgroup, from the root of all cgroups.
	Path string `json:"path"`
	// Files has the cgroup's files by name, without the newline at their end.
	Files map[string]string `json:"files"`
	// AllowedCPUs and AllowedMems are Cpus_allowed_list and Mems_allowed_list of /proc/PID/status.
	AllowedCPUs string `json:"allowedCPUs"`
	AllowedMems string `json:"allowedMems"`
	Throttling
}

// Watched is what a watch has seen. Looks is the number of looks at all containers.
type Watched struct {
	Looks      int                `json:"looks"`
	Containers []WatchedContainer `json:"containers"`
}

// WatchedContainer is a container whose program ran at some time during a watch.
type WatchedContainer struct {
	ID string `json:"id"`
	// Pod is its namespace and name, separated by a slash.
	Pod  string `json:"pod"`
	Name string `json:"name"`
	// Stays lists the successive CPUs on which it could run.
	Stays []Stay `json:"stays"`
}

// Stay is a list of CPUs on which a container could run from one look to another.
type Stay struct {
	CPUs  string `json:"cpus"`
	First int    `json:"first"`
	Last  int    `json:"last"`
}

// Sample selects the containers that have exclusive CPUs, by prefixes of NAMESPACE/POD/CONTAINER.
type Sample struct {
	Own []string `json:"own"`
}

// Sampled is what a sampler has seen.
type Sampled struct {
	Looks int `json:"looks"`
	// Begun is the start time, by the clock of the machine.
	Begun time.Time `json:"begun"`
	// Time is the time from the start to the last look. LongestGap is the longest time between two
	// looks.
	Time       time.Duration   `json:"time"`
	LongestGap time.Duration   `json:"longestGap"`
	Cgroups    []SampledCgroup `json:"cgroups"`
	// Overlaps is the number of pairs of containers, one of which has exclusive CPUs, that could
	// run on the same CPU in one look. Both are read one after the other, and again in reverse
	// order. Cleared is the number of pairs for which the second read showed no overlap. Making is
	// the number of pairs of which one was not a container yet: only runc ran in its cgroup. See
	// package sampler.
	Overlaps int       `json:"overlaps"`
	Cleared  int       `json:"cleared"`
	Making   int       `json:"making"`
	Examples []Overlap `json:"examples"`
}

// SampledCgroup is the cgroup of a container. If Name is empty, it is that of a pod.
type SampledCgroup struct {
	// Pod is its namespace and name, separated by a slash.
	Pod     string   `json:"pod"`
	Name    string   `json:"name"`
	Changes []Change `json:"changes"`
	// Gone is when it was first seen to be gone. Zero means that it still exists.
	Gone time.Duration `json:"gone"`
}

// Change is what a cgroup had from a look on.
type Change struct {
	At    time.Duration `json:"at"`
	CPUs  string        `json:"cpus"`
	Mems  string        `json:"mems"`
	Quota string        `json:"quota"`
}

// Overlap is a look at two containers that could run on the same CPU.
type Overlap struct {
	At    time.Duration `json:"at"`
	A     string        `json:"a"`
	B     string        `json:"b"`
	CPUsA string        `json:"cpusA"`
	CPUsB string        `json:"cpusB"`
}
