// Package statefile is the form in which Paddock keeps its state: bytes for node.State and back.
//
// The grants define the state. A file has all of them, with CPUs, memory and devices. Besides, it
// has only what is needed to understand them: the generation of the state, and a summary of the
// machine and of the policy under which they were made. A state is made of a file by
//
//	node.Restore(machine, policy, file.Grants)  and then  Resume(file.Generation)
//
// with the present machine and policy; File.Changes lists what has changed since.
//
// # Form
//
// A file is one JSON object in lines that can be compared with diff: a line for each NUMA node,
// pod and container.
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
// pool has more CPUs than it was admitted with, it has those of the admission as well ("baseline",
// "poolBaseline").
//
// "moves" is what a pod consents to: "within-numa" or "anywhere".
//
// "moves" is also "none" if the pod opts out. A policy that moves pods has "moves" with the number
// of pods and the bytes of memory that are moved for one pod at most. A pod that is being moved has
// both places: its own and the one to which it is being moved ("moving").
//
// CPUs are lists as in cpuset(7), NUMA nodes lists of ids, memory is in bytes, names ending in
// Milli are thousandths of a CPU. A member that is empty, zero or false is left out. Pods ascend by
// UID, containers are in the order of the pod, everything else has one fixed order: the same state
// always has the same bytes, and Decode rejects a file with the same content in other bytes.
//
// # Checksum
//
// The last line has the SHA-256 of all bytes before it, line feeds included. To verify:
//
//	sed '$d' FILE | sha256sum; tail -n 1 FILE
//
// # Bounds
//
// A file has at most MaxSize bytes, and generations end at node.MaxGeneration. The encoder keeps
// both, so that Decode reads everything that Encode returned: numbers of grants and containers, and
// lengths of names, have no bound of their own, and nothing is nested deeper than the form above. A
// state that would exceed MaxSize is ErrTooLarge before anything is written; Meter reports it
// before anything is decided. The pod that was to be admitted is rejected, and smaller ones may
// still fit. A removal always fits: Encode reserves the few bytes that it adds.
//
// # Versions
//
// The version is of the form. A form that knows a member more, which may be left out, keeps the
// version; any other change is a new one. Decode rejects a newer version, and a member that it
// does not know: what cannot be understood would be lost with the next write.
//
// Two names are older than the terms of the documentation: "generation" is the revision of the
// state, "lane" the type of a container. They stay as long as version 1: an older agent must be
// able to read what a newer one wrote.
package statefile
