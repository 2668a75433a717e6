// Package statefile implements the form in which Paddock stores its state. It converts a node.State
// to bytes and back.
//
// The grants define the state. A file has all grants with their CPUs, memory and devices. Apart
// from them, it has only what is needed to interpret the grants: the generation of the state, and a
// summary of the machine and of the policy under which they were made. A state is restored from a
// file by
//
//	node.Restore(machine, policy, file.Grants)  and then  Resume(file.Generation)
//
// with the present machine and policy; File.Changes lists what has changed since.
//
// # Form
//
// A file is one JSON object. It has a line for each NUMA node, pod and container, so that files can
// be compared with diff.
//
//	{"format":"paddock-state","version":1,"generation":7,
//	"machine":{"cpus":"0-7","nodes":[
//	 {"id":0,"cpus":"0-7","memory":{"memory":17179869184}}]},
//	"policy":{"topologyManagerPolicy":"restricted", … },
//	"grants":[
//	{"uid":"4cdf…","namespace":"prod","name":"db","sequence":7, … "containers":[
//	 {"name":"main","lane":"app","asks":{"cpus":2, … },"has":{"cpus":"2-3", … }}]}],
//	"checksum":"sha256:9f86d0…"}
//
// A pod that was resized has the revision of the last resize ("resized"). While a container or a
// pool has more CPUs than it was admitted with, the file also has the CPUs of the admission
// ("baseline", "poolBaseline").
//
// With the option isolated-cpus, the machine has the kernel's isolated CPUs ("isolated").
//
// The member "moves" of a pod is its consent: "within-numa" or "anywhere".
//
// It is "none" if the pod opts out. The member "moves" of a policy that moves pods has the maximum
// number of pods and the maximum number of bytes of memory that are moved for one pod. A pod that
// is being moved has both places: its current one, and the one to which it is being moved
// ("moving").
//
// On a node that divides its L3 caches (cache-allocation), a container and the pool of a pod have
// their part of each cache: the ways, as a list as in cpuset(7), and percent of the memory
// bandwidth ("cache", "poolCache"). What an annotation asks for is among the asks of a container,
// and in "poolCacheAsked". The machine has how the caches can be divided ("caches") on such a node
// only.
//
// CPUs are lists as in cpuset(7), and NUMA nodes are lists of ids. Memory is in bytes. Members
// whose names end in Milli are thousandths of a CPU. Members that are empty, zero or false are
// omitted. Pods are in ascending order of UID, containers are in the order of the pod, and
// everything else has one fixed order. So the same state always has the same bytes, and Decode
// rejects a file with the same content in other bytes.
//
// # Fields
//
// The tables in fields.go, and for policies and grants those of core/grantform, have every member
// with the field of the Go value that it shows. Encode, Decode and the check that a file is as
// Paddock writes it use these tables and nothing else, so a new field is one line there and one
// value in the test that every field survives. A member or a name of a value that is in no table
// means that a newer Paddock wrote the file (ErrNewer). Any other value that cannot be read means
// that the file is damaged (ErrDamaged). All members are of version 1: those that came later are
// optional, and a file without them is read as before.
//
// # Checksum
//
// The last line has the SHA-256 of all bytes before it, including line feeds. To verify it:
//
//	sed '$d' FILE | sha256sum; tail -n 1 FILE
//
// # Bounds
//
// A file has at most MaxSize bytes, and generations end at node.MaxGeneration. The encoder enforces
// both limits, so that Decode can read everything that Encode returns. The numbers of grants and
// containers and the lengths of names have no separate limits, and nothing is nested deeper than in
// the form above. For a state that would exceed MaxSize, the encoder returns ErrTooLarge before
// anything is written, and Meter reports it before anything is decided. The pod that was to be
// admitted is rejected, but a smaller pod may still fit. A removal always fits, because Encode
// reserves the few bytes that it adds.
//
// # Versions
//
// The version is the version of the form. A new optional member does not change the version. Any
// other change does. Decode rejects newer versions and unknown members, because the next write
// would lose what it does not understand.
//
// Two names are older than the terms of the documentation: "generation" is the revision of the
// state, and "lane" is the container type. They stay for as long as version 1 exists, because an
// older agent must be able to read what a newer agent wrote.
package statefile
