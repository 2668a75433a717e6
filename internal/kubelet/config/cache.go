package config

// optionCache is an option of the static CPU policy that only Paddock has: containers with
// exclusive CPUs can have a part of the L3 caches and of the memory bandwidth (R-CACHE-1).
const optionCache = "cache-allocation"

// cacheOption resolves the option.
func (r *resolution) cacheOption(text string) {
	field := cpuField(optionCache)
	value, problem := parseBool(field, optionCache, text)
	if problem != nil {
		r.reject(*problem)
		return
	}
	caches := r.machine.Caches()
	switch {
	case !value:
		return
	case caches.Classes < 2 || caches.Ways == 0 && !caches.DividesBandwidth():
		r.reject(Problem{
			Field: field, Why: "the machine cannot divide its L3 caches or its memory bandwidth: /sys/fs/resctrl/info has no classes for them",
			Fix: "use a processor with cache allocation (Intel RDT, AMD QoS) and mount it (mount -t resctrl resctrl /sys/fs/resctrl), or remove the option; " +
				"if it is mounted there, the machine was recorded by a version of Paddock that does not read it: record it again with paddock topology -o json",
			Kubelet: unknownOption(optionCache),
		})
		return
	}
	r.policy.CPU.DividesCaches = true
	r.warn(field, "the option was tested with a simulated resctrl file system and recorded trees, and never on hardware: try it on one node first, and compare with paddock noise")
	switch {
	case caches.Ways == 0:
		r.warn(field, "the L3 caches of the machine cannot be divided: containers can ask for memory bandwidth (mb=) only")
	case caches.AbsoluteBandwidth:
		r.warn(field, "the processor limits memory bandwidth in GB/s, and its total is not known: containers can ask for ways of L3 only")
	case !caches.DividesBandwidth():
		r.warn(field, "the machine cannot limit memory bandwidth: containers can ask for ways of L3 only")
	}
	if most := caches.Classes - 1; most < 4 {
		r.warn(field, "the processor has %d classes beside the default one: so many containers can have a part of the caches at a time", most)
	}
}
