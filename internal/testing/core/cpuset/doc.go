// Package cpuset compares the CPU sets of internal/core/cpuset with those of Kubernetes, a module
// that the core must not require. It has tests only.
package cpuset
