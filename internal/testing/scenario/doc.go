// Package scenario is a small language for saying what happens on a node: a machine, a kubelet
// configuration, pods, and what is done with them. The same text is a test, a bug report and an
// example in the documentation. The package is for tests.
//
// A script is blocks with blank lines between them: a command, lines that belong to it, a line of
// four dashes, and the answer. Lines before a command that begin with # are remarks.
//
//	machine sockets=2 cores=8 threads=2 memory=32Gi
//	----
//	…
//
//	config topology=restricted scope=pod cpu=static memory=Static
//	----
//	…
//
//	pod web cpu=4 memory=4Gi
//	sidecar proxy
//	app server cpu=2 memory=2Gi
//	----
//	…
//
//	admit web
//	----
//	…
//
// The commands:
//
//	machine key=value…       a regular machine; keys in machine.go
//	machine                  … or one NUMA node a line, for machines that are not regular
//	machine file=NAME        … or a recorded one, if the reader of the script can find it
//	config key=value…        the kubelet's configuration; keys in config.go
//	devices                  what device plugins report, a line for each resource; form in devices.go.
//	                         A second one replaces the first; "machine" removes all
//	given                    the devices that others choose, a line for each resource or driver; form in
//	                         given.go, also of the lines that say which of them a pod has
//	pod NAME [amounts]       a pod; a line each for its containers: init|sidecar|app NAME [amounts]
//	plan NAME                what admit would answer; nothing changes
//	admit NAME               admit the pod and take what it gets
//	reserve NAME [room]      keep what admit would give the pod from all others until it is admitted: as
//	                         of a pod that is on its way or, with "room", for which others are moved
//	unreserve NAME           end that
//	resize NAME              resize the admitted pod to what it was described to ask for since
//	move NAME                move the admitted pod to where it would be if it came now
//	created POD/CONTAINER    the runtime has created the container
//	remove-container POD/CONTAINER
//	remove NAME              the pod is gone
//	restart [key=value…]     start again from the grants and the devices alone, perhaps with changed
//	                         settings, and admit every pod again, as a kubelet does
//	offline LIST             CPUs go offline, as with "echo 0 > /sys/devices/system/cpu/cpu3/online"
//	online LIST              they are back; "config" brings all back
//	state                    everything that is assigned
//	check                    prove all invariants
//
// Amounts are "cpu=2 memory=1Gi hugepages-2Mi=64Mi": request and limit at once. "cpu=1..2" are
// request and limit, "cpu=1.." is a request and "cpu=..2" a limit alone. The word "unvalidated"
// behind a pod's name skips what the API server would reject, as for a static pod. "moves=anywhere"
// behind a pod's name is what it consents to (R-MOV-3). A container
// asks for devices by the name of their resource, "nvidia.com/gpu=2":
//
//	devices
//	nvidia.com/gpu gpu0@0 gpu1@1 gpu2@1:unhealthy
//	example.com/nic nic0@0-1
//	example.com/fuse fuse0 fuse1
//	----
//	…
//
//	pod train
//	app worker cpu=4 memory=8Gi nvidia.com/gpu=1 example.com/nic=1
//	----
//	…
//
// gpu0 is local to NUMA node 0, nic0 to both, the fuses to none.
//
// Answers are plain lines, stable, without blank lines. What is wrong with a command is an
// answer, too, and begins with "error:"; so does a broken invariant, which is looked for after
// every command.
package scenario
