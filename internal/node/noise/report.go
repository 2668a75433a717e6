package noise

// Report is who interrupted containers with exclusive CPUs, and how often.
type Report struct {
	// Seconds is how long was measured.
	Seconds float64 `json:"seconds"`
	// From is where the containers and their CPUs come from.
	From string `json:"from"`
	// Looks is how often all tasks were looked at. What a task did between two looks counts for
	// the CPU on which the second one found it.
	Looks int `json:"looks"`
	// Containers are the containers, the most interrupted one first, by CPU time for each of its
	// CPUs.
	Containers []Noise `json:"containers"`
	// NotSeen is what could not be read, and why.
	NotSeen []NotSeen `json:"notSeen"`
}

// NotSeen is what could not be read.
type NotSeen struct {
	// What is a source or a setting.
	What string `json:"what"`
	// Why is what the kernel answered, or what is missing.
	Why string `json:"why"`
}

// Noise is who interrupted one container.
type Noise struct {
	// Pod is empty for CPUs that were chosen by their ids.
	Pod string `json:"pod,omitempty"`
	// UID is the UID of the pod, if it is known.
	UID string `json:"uid,omitempty"`
	// Container is the name of the container, or the beginning of its ID if only its cgroup is
	// known.
	Container string `json:"container,omitempty"`
	// Cgroup is the path of its cgroup, if it is known.
	Cgroup string `json:"cgroup,omitempty"`
	// CPUs are its exclusive CPUs.
	CPUs string `json:"cpus"`
	// OfflineCPUs are those of which there are no counts.
	OfflineCPUs string `json:"offlineCPUs,omitempty"`
	// OwnTasks is how many of its tasks ran on these CPUs. They are no noise.
	OwnTasks int `json:"ownTasks"`
	// Cost is the CPU time of all Sources, without throttling, in microseconds for each second and
	// CPU.
	Cost float64 `json:"costMicroseconds"`
	// PerSecond is how many interrupts and softirqs each of its CPUs had in a second.
	PerSecond float64 `json:"interruptsPerSecond"`
	// Sources are sorted by what they cost.
	Sources []Source `json:"sources"`
	// Settings are the settings of the kernel that decide about them.
	Settings []Setting `json:"settings"`
}

// Source is one source of interruptions.
type Source struct {
	// Class is device, timer, ipi, other, softirq, kernel-thread, task, throttling,
	// involuntary-switch or memory-migration.
	Class Class `json:"class"`
	// ID is the number of the interrupt, the name of the row in the kernel's file, or the ID of a
	// task.
	ID string `json:"id,omitempty"`
	// Name is the device, the task, or what the row means.
	Name string `json:"name"`
	// Tasks is how many tasks of this name and cgroup ran there. If there is more than one, ID is
	// empty.
	Tasks int `json:"tasks,omitempty"`
	// Cgroup is the cgroup of a task.
	Cgroup string `json:"cgroup,omitempty"`
	// CPUs are those of the container on which it occurred.
	CPUs string `json:"cpus,omitempty"`
	// Count is how often it occurred, and PerSecond the same in a second, on all of these CPUs
	// together.
	Count     uint64  `json:"count"`
	PerSecond float64 `json:"perSecond"`
	// Cost is the CPU time that it took, in microseconds for each second, on all of these CPUs
	// together. For throttling, it is the time without a CPU.
	Cost float64 `json:"costMicroseconds"`
	// Basis is "measured" or "estimated", about Cost. Count is always what the kernel counted.
	Basis string `json:"basis"`
	// WokenBy are the tasks and functions that caused it, the most frequent first. They are known
	// only with tracefs.
	WokenBy []string `json:"wokenBy,omitempty"`
	// Stop is the setting that would stop it.
	Stop string `json:"stop"`
}

// Setting is a setting of the kernel.
type Setting struct {
	// Name is its file or its boot parameter.
	Name string `json:"name"`
	// Value is what it is now, for the CPUs of the container.
	Value string `json:"value"`
	// Allows is set if it lets something interrupt the container.
	Allows bool `json:"allowsNoise"`
	// Means is what it does to the container.
	Means string `json:"means"`
}

// The values of Source.Basis.
const (
	Measured  = "measured"
	Estimated = "estimated"
)
