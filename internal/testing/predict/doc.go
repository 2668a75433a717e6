// Package predict compares the module predict, which has values of its own, with the results of
// Paddock's other programs for the same files and objects. It has tests only.
package predict
