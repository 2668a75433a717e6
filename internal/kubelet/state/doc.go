// Package state reads and writes the kubelet's own state files: cpu_manager_state in its
// versions 1 to 4 and memory_manager_state in its versions 1 to 3 (docs/rules/state.md,
// docs/rules/after-1.36.md), dra_manager_state and kubelet_internal_checkpoint.
//
// There are two ways to read. Recognise finds out what a file is, whichever kubelet can read it:
// the manager, the version, whether its checksums are right, what is in it, which fields no version
// knows. Load reads as one kubelet would, with its attempts version after version, and returns what
// that kubelet makes of the file and in which words it gives up. Encode writes any version, with
// right checksums.
//
// A checksum covers decoded values and not text (R-ST-3), so that a file which was indented or
// whose fields changed places is still whole. Values are kept as they are: a list of CPUs
// that does not parse is text like any other here, and it is for the reader to reject it.
//
// RecogniseDevices and DeviceFile are the same for the two files about devices, which have no
// versions.
//
// The package is pure, its values are plain, and nothing of them is shared between calls.
package state
