// Package statefile is the form in which Paddock keeps its state: bytes for node.State and back.
//
// The truth are the grants. A file holds them all, CPUs, memory and devices together, and beside them
// only what is needed to understand them: the generation of the state, and a summary of the
// machine and of the policy under which they were made. A state is made of a file by
//
//	node.Restore(machine, policy, file.Grants)  and then  Resume(file.Generation)
//
// with the machine and the policy of today; File.Changes says what is different from then.
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
// CPUs are lists as in cpuset(7), NUMA nodes lists of ids, memory is in bytes, names ending in
// Milli are thousandths of a CPU. A member that is empty, zero or false is left out. Pods ascend
// by UID, containers stand as in the pod, everything else has one fixed order: the same state
// has the same bytes, always, and Decode refuses a file that says the same in other bytes.
//
// # Checksum
//
// The last line has the SHA-256 of all bytes before it, line feeds included. To verify:
//
//	sed '$d' FILE | sha256sum; tail -n 1 FILE
//
// # Bounds
//
// A file has at most MaxSize bytes, and generations end at node.MaxGeneration. Both are held by the
// encoder, so that Decode reads whatever Encode returned: numbers of grants and containers, and
// lengths of names, have no bound of their own, and nothing is nested deeper than the form
// above. A state that would pass MaxSize is ErrTooLarge before anything is written; Meter tells it before
// anything is decided. The pod that was to be admitted is rejected, and smaller ones still find room. What leaves a node always
// fits: Encode keeps the few bytes that a removal adds.
//
// # Versions
//
// The version is of the form. A form that knows a member more, which may be left out, keeps the
// version; any other change is a new one. Decode refuses a newer version, and a member that it
// does not know: what cannot be understood would be lost with the next write.
package statefile
