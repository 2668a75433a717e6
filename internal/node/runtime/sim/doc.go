// Package sim is a container runtime and a kubelet in memory. They talk to the plugin through NRI,
// as containerd does, so the simulation runs the control loop of a node: package nri with NRI's own
// stub.
//
//	Kubelet ──CRI──► Runtime ──NRI over a pipe──► the stub of the plugin
//	   ▲                │ ▲                          │
//	   └─Lookup, List───┼─┴─UpdateContainers─────────┤
//	                    └─cgroups◄───────────────────┘
//
// Runtime is the runtime's half of NRI 0.12 and behaves like containerd 2.4:
//
//   - Each request to plugins, and each unsolicited update of a plugin, takes one lock, first come,
//     first served, so only one request is in progress. An update waits for the lock even if its
//     sender has gone.
//   - The updates in a reply are applied before the request continues. An update of a container
//     that is not in the store is ignored: between the reply to its creation and its registration,
//     and after its end. An empty cpuset means no change. If a container does not run yet, an
//     update changes its specification and not its cgroup.
//   - A creation that fails after the reply is undone: the plugin is notified that the container
//     stopped and was removed.
//   - A plugin that does not answer within the request timeout is disconnected, and the request
//     continues without it, unless the plugin's failure policy or a required plugin
//     (Config.Required) stops it.
//   - A plugin that connects is registered, configured and synchronised. No request of the kubelet
//     is in progress while it is synchronised.
//
// simtest.CRIO makes it behave like CRI-O in three points: a plugin is synchronised while
// containers are in creation, and these are not shown; an unsolicited update hangs; and its answer
// lists the updates that failed.
//
// Kubelet runs the pods that it is given: a sandbox, then the init containers, sidecars and apps in
// their order. A rejected pod is tried again, soon at first, and when another pod has ended. A pod
// that should not run any more leaves the list first; then its containers and its sandbox end.
//
// Config.Fault can make each step slow, fail, lose its effect or disconnect; FailNextCreate,
// LoseNextUpdate and Drift do that for one container. A container's History has all its settings,
// and Config.Observe receives each event. Package simtest has the invariants of such histories.
//
// The runtime blocks only on channels, condition variables and Config.After, so it works in a
// testing/synctest bubble, where time does not pass while a goroutine works.
package sim
