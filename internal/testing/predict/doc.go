// Package predict compares the module predict, which has values of its own, with what the other
// programs of Paddock make of the same files and objects. It has tests only.
package predict
