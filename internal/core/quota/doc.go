// Package quota computes the CFS quotas of the cgroups of a pod: which of them the kubelet's quota
// would throttle although their CPUs are their own, and what each one gets instead.
//
// A quota is a function of a grant and of the policy, and for Now also of which CPUs are online. No
// grant depends on a quota, so quotas are neither planned nor stored. Where the quota that the
// kubelet wrote is right, the result is Keep, and nothing is written: so Paddock does not conflict
// with an in-place resize of the kubelet. Under the zero node.QuotaPolicy the rules are those of
// the reference (R-ST-80 to R-ST-83). With isolated quotas,
//
//   - an exclusive container, its pod and every cgroup between them have no quota, so that no
//     sibling can throttle it;
//   - containers that run at the same time never get more than their pod's limit together, except
//     for Least;
//   - no container gets less than its request or more than its own limit.
//
// Quotas are in microseconds of CPU time per Period, limits in thousandths of a CPU. The cost grows
// with n log n for the n containers of a pod, which can be thousands.
package quota
