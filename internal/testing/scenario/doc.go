// Package scenario implements a small language that describes what happens on a node: a machine, a
// kubelet configuration, pods, and what is done with them. The same text can serve as a test, a bug
// report and an example in the documentation. The package is for tests.
//
// A script consists of blocks separated by blank lines. A block has a command, the lines that
// belong to it, a line of four dashes, and the answer. Lines before a command that begin with # are
// remarks.
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
//	machine                  … or an irregular machine, with one line per NUMA node
//	machine file=NAME        … or a recorded machine, if the reader of the script can find it
//	config key=value…        the kubelet's configuration; keys in config.go
//	devices                  what device plugins report, one line per resource; form in devices.go.
//	                         A second command replaces the first; "machine" removes all devices
//	given                    the devices that others choose, one line per resource or driver; form
//	                         in given.go, as is the form of the lines for the devices of a pod
//	pod NAME [amounts]       a pod, with one line per container: init|sidecar|app NAME [amounts]
//	plan NAME                print what admit would answer, without a change
//	admit NAME               admit the pod and assign what it gets
//	reserve NAME [room|move] reserve what admit would give the pod until it is admitted, as for a
//	                         pod that is on its way or, with "room", for which others are moved;
//	                         with "move", another place of the admitted pod, which is about to move
//	unreserve NAME           end the reservation
//	resize NAME              resize the admitted pod to what its latest description asks for
//	move NAME                move the admitted pod to where it would be if it were admitted now
//	created POD/CONTAINER    the runtime has created the container
//	remove-container POD/CONTAINER
//	remove NAME              the pod is gone
//	restart [key=value…]     restart from the grants and the devices alone, optionally with changed
//	                         settings, and admit every pod again, as a kubelet does
//	offline LIST             CPUs go offline, as with "echo 0 > /sys/devices/system/cpu/cpu3/online"
//	online LIST              CPUs come back online; "config" brings all back
//	state                    print everything that is assigned
//	check                    check all invariants
//
// Amounts such as "cpu=2 memory=1Gi hugepages-2Mi=64Mi" are both request and limit. "cpu=1..2" has
// a request of 1 and a limit of 2, "cpu=1.." has only a request and "cpu=..2" only a limit. The
// word "unvalidated" after a pod's name skips the validation of the API server, as for a static
// pod. The word "virtual-machine" there gives the pod KubeVirt's label, and "moves=anywhere" is its
// consent (R-MOV-3). A container asks for devices by the name of their resource, as in
// "nvidia.com/gpu=2":
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
// gpu0 is local to NUMA node 0, nic0 to both NUMA nodes, and the fuses to none.
//
// Answers are stable, plain lines without blank lines. An error in a command is also an answer,
// which begins with "error:". So is a broken invariant; invariants are checked after every command.
package scenario
