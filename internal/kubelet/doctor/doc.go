// Package doctor diagnoses and repairs the state files of the kubelet.
//
// Verify reports whether a kubelet would start on a file, with a given configuration and machine.
// It applies all rules of the kubelet's own start, and describes the cause of each fault and what
// to do (R-ST-30…40, R-CPU-110…114, R-MEM-70…73). Convert converts files of one kubelet into files
// of another, or into grants of Paddock and back. Repair converts files that do not verify into
// files that do, and moves no CPU of a running pod. Convert and Repair only plan: a person must see
// the result, including everything that gets lost, before it is applied.
//
// The package is pure. It reads no files and no manifests. The caller provides the pods and their
// names.
package doctor
