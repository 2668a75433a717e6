// Package wire is the conversation between a test and the guest program in a virtual machine:
// calls go in, replies come out, one JSON object a line on a serial port. Calls run side by side;
// a reply names its call. Everything is plain data, so that a log of it reads as what happened.
package wire

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Port is the name of the serial port.
const Port = "paddock.e2e"

// Image is the only image of the end-to-end tests; its entry is the program pause.
const Image = "localhost/e2e/pause:1"

// Call asks the guest program to do Op with Body.
type Call struct {
	ID   uint64          `json:"id"`
	Op   string          `json:"op"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Reply answers the call with the same ID. Error is why the guest program could not do what it
// was asked for; what a kubelet would see as an error is in Body.
type Reply struct {
	ID    uint64          `json:"id"`
	Error string          `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// Operations, with the types of what goes in and what comes out.
const (
	OpStart        = "start"        // Process, Nothing
	OpStop         = "stop"         // Stop, Ended
	OpWrite        = "write"        // File, Nothing
	OpExec         = "exec"         // Exec, Ended
	OpRun          = "run"          // Run, RunResult
	OpStopPod      = "stop-pod"     // PodName, Nothing: a shutdown, the pod stays known
	OpRemove       = "remove"       // PodName, Nothing
	OpRestart      = "restart"      // ContainerName, RunResult
	OpUpdate       = "update"       // Update, Nothing
	OpDebug        = "debug"        // ContainerName, RunResult: a new ephemeral container of a pod that runs
	OpForget       = "forget"       // Nothing, Nothing: remove every pod
	OpObserve      = "observe"      // Nothing, Observation
	OpInContainer  = "in-container" // InContainer, Ended
	OpPodResources = "podresources" // PodResources, []Assigned
	OpGet          = "get"          // Get, Ended
	OpServe        = "serve"        // Serve, Nothing
	OpPlug         = "plug"         // Plug, Nothing
)

// Serve tells whether the stand-in of the kubelet answers on /pods.
type Serve struct {
	Away bool `json:"away,omitempty"`
}

// Plug takes CPUs online or offline.
type Plug struct {
	CPUs   []int `json:"cpus"`
	Online bool  `json:"online,omitempty"`
}

// Nothing is no input or no output.
type Nothing struct{}

// Process is started, and is ready when Ready answers. Its output goes to /var/log/NAME.log; a
// second start appends.
type Process struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	// Ready is "unix:PATH", which can be connected to, "http://…", which answers 200, or
	// "log:TEXT", which the process has printed since its start; empty: at once.
	Ready   string        `json:"ready,omitempty"`
	Timeout time.Duration `json:"timeout"`
}

// Stop ends a process by a signal and waits until it is gone.
type Stop struct {
	Name    string        `json:"name"`
	Signal  int           `json:"signal"`
	Timeout time.Duration `json:"timeout"`
}

// Ended is what came of a command.
type Ended struct {
	Code   int    `json:"code"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// File is written as it is.
type File struct {
	Path string `json:"path"`
	Data []byte `json:"data"`
	Mode uint32 `json:"mode"`
}

// Exec is a command on the node.
type Exec struct {
	Argv    []string      `json:"argv"`
	Timeout time.Duration `json:"timeout"`
}

// Run runs a pod, once; what a kubelet would try again is an answer.
type Run struct {
	Pod *v1.Pod `json:"pod"`
	// Hidden keeps the pod out of what /pods serves.
	Hidden bool `json:"hidden,omitempty"`
}

// RunResult is how far it came.
type RunResult struct {
	// Sandbox is the error of RunPodSandbox; the pod is Pending.
	Sandbox    string    `json:"sandbox,omitempty"`
	Containers []Started `json:"containers,omitempty"`
}

// Started is one container of a run, in the order in which they were created.
type Started struct {
	Name string `json:"name"`
	// Error is the error of CreateContainer or StartContainer.
	Error string `json:"error,omitempty"`
	// Seen are an init container's cgroup and status files while it ran.
	Seen *Container `json:"seen,omitempty"`
}

// PodName names a pod by its UID.
type PodName struct {
	UID string `json:"uid"`
}

// ContainerName names a container.
type ContainerName struct {
	UID  string `json:"uid"`
	Name string `json:"name"`
}

// Update is an UpdateContainerResources of a kubelet: new amounts, no cpuset.
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

// Get asks for a URL; Ended.Code is the status.
type Get struct {
	URL string `json:"url"`
}

// PodResources asks the API on a socket.
type PodResources struct {
	Socket string `json:"socket"`
}

// Assigned is one container of the PodResources API.
type Assigned struct {
	Pod       string          `json:"pod"`
	Container string          `json:"container"`
	CPUs      []int64         `json:"cpus,omitempty"`
	Memory    []AssignedBytes `json:"memory,omitempty"`
}

// AssignedBytes are bytes of one type on NUMA nodes.
type AssignedBytes struct {
	Type  string  `json:"type"`
	Bytes uint64  `json:"bytes"`
	Nodes []int64 `json:"nodes"`
}

// Observation is what runs, read from the node's own files.
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

// Throttling is of cpu.stat.
type Throttling struct {
	// Periods is nr_periods, Throttled nr_throttled.
	Periods   uint64 `json:"periods"`
	Throttled uint64 `json:"throttled"`
}

// Container is a running container: its cgroup's files, and what the kernel says of its process.
type Container struct {
	UID  string `json:"uid"`
	Name string `json:"name"`
	ID   string `json:"id"`
	// Files are the cgroup's files by name, without the newline at their end.
	Files map[string]string `json:"files"`
	// Allowed are Cpus_allowed_list and Mems_allowed_list of /proc/PID/status.
	AllowedCPUs string `json:"allowedCPUs"`
	AllowedMems string `json:"allowedMems"`
	Throttling
}
