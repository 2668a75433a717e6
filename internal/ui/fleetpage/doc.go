// Package fleetpage serves the page of a fleet: every node a tile of its NUMA nodes, a search, the
// map of each node, and where a pod would go that somebody pastes.
//
// A Fleet is one moment, as values: package fleet answers every question, and no request changes
// anything. A Page asks its source for the present moment at every request, so that the same page
// shows a file that never changes and a cluster that does. It serves what names pods;
// internal/base/access decides to whom.
//
// Where pods would go is asked by the page's own site alone. One question is answered at a time, a
// few wait, and all others are rejected at once. Each ends with its reader.
//
// WriteHTML makes one file of the same page that loads nothing. It can be read without a program,
// and therefore cannot answer where a pod would go.
package fleetpage
