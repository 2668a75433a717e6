// Package fleetpage serves the page of a fleet. The page shows every node as a tile of its NUMA
// nodes, a search, a map of each node, and the node to which a pasted pod would go.
//
// A Fleet is an immutable snapshot. Package fleet answers every question about it, and no request
// changes anything. A Page asks its source for the present snapshot at every request, so the same
// page shows a file that never changes and a cluster that does. The page names pods;
// internal/base/access decides who may read it.
//
// Only the page's own site may ask where pods would go. The Page answers one question at a time,
// lets a few wait and rejects all others at once. A question ends when its reader leaves.
//
// WriteHTML writes the same page as one file that loads nothing. The file can be read without a
// server and therefore cannot answer where a pod would go.
package fleetpage
