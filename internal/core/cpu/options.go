package cpu

// Options are the static CPU policy's options, resolved (docs/rules/cpu.md, Options).
// kubeletcfg has rejected the pairs that exclude each other (R-CPU-11, R-CPU-12).
type Options struct {
	FullPCPUsOnly         bool
	DistributeAcrossNUMA  bool
	DistributeAcrossCores bool
	AlignBySocket         bool
	StrictReservation     bool
	PreferUncore          bool
}
