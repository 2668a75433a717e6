// Package doctor judges and mends the state files of the kubelet.
//
// Verify reports whether a kubelet would start on a file, with a configuration and on a machine:
// all the rules of its own start, each fault with its cause in words and with what to do
// (R-ST-30…40, R-CPU-110…114, R-MEM-70…73). Convert makes files of one kubelet into files of
// another, or into grants of Paddock and back; Repair makes files that verify out of files that do
// not, and moves no CPU of a running pod. Both only plan: what they return is to be shown to a
// person first, with everything that gets lost.
//
// The package is pure. It reads no file and knows no manifest: what pods there are, and what
// they are called, is handed in.
package doctor
