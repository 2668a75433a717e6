// Package state reads and writes the kubelet's own state files: cpu_manager_state in its
// versions 1 to 4 and memory_manager_state in its versions 1 to 3 (docs/rules/state.md,
// docs/rules/after-1.36.md), dra_manager_state and kubelet_internal_checkpoint.
//
// There are two ways to read a file. Recognise identifies a file independently of which kubelet can
// read it: the manager, the version, whether its checksums are valid, its content, and the fields
// that no version knows. Load reads a file as a given kubelet would, trying version after version.
// It returns what that kubelet reads from the file, or the messages with which it gives up.
// EncodeCPU and EncodeMemory write any version, with correct checksums.
//
// A checksum covers the decoded values and not the text (R-ST-3), so a file that was indented or
// whose fields were reordered is still valid. Values are not interpreted: the package keeps a list
// of CPUs as text even if it does not parse, and the caller must reject it.
//
// RecogniseDevices and DeviceFile do the same for the two files about devices, which have no
// versions.
//
// The package is pure. Its values are plain data, and calls share no data.
package state
