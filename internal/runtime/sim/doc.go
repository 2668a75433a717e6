// Package sim is a container runtime and a kubelet in memory, which speak NRI with the plugin as containerd does. So
// what runs in the simulation is the control loop that runs on nodes: package nri with NRI's own stub.
//
//	Kubelet ──CRI──► Runtime ──NRI over a pipe──► the stub of the plugin
//	   ▲                │ ▲                          │
//	   └─Lookup, List───┼─┴─UpdateContainers─────────┤
//	                    └─cgroups◄───────────────────┘
//
// Runtime is the runtime's half of NRI 0.12 and behaves as containerd 2.4:
//
//   - One lock is held during every request to plugins and every update that a plugin sends by itself, first come, first
//     served. Nobody is asked twice at a time. An update waits for the lock even if its sender has gone.
//   - The updates in a reply are made before the request goes on. An update of a container that is not in the store is
//     ignored: between the reply to its creation and its registration, and after its end. An empty cpuset means no
//     change. Of a container that does not run yet, an update changes the specification and not the cgroup.
//   - A creation that fails after the reply is undone: the plugin hears that the container stopped and was removed.
//   - A plugin that does not answer within the request timeout is disconnected and the request goes on without it,
//     unless the plugin's failure policy or a required plugin (Config.Required) stops it.
//   - A plugin that connects is registered, configured and synchronised. No request of the kubelet is under way while
//     it is synchronised.
//
// Kubelet runs the pods that it is given: a sandbox, then the init containers, sidecars and apps in their order. Pods
// that are rejected are tried again, soon at first and when another pod has ended. Pods that should not run any more
// are not listed from that moment on; then their containers and their sandbox end.
//
// Config.Fault makes every step slow, failing, lost or disconnected; FailNextCreate, LoseNextUpdate and Drift do so
// for one container. Every setting that a container had is in its History, and Config.Observe sees each event. Package
// simtest has the invariants of such histories.
//
// Nothing blocks outside of channels, condition variables and Config.After, so a runtime works in a testing/synctest
// bubble, where time stands while anybody works.
package sim
