// Package livefleet makes the page's fleet of a cluster that changes: a fleetpage.Source over a
// fleetwatch.Watch.
//
// Every second at most, it takes the present moment. The view of a node is made again only if the
// node has changed. What is typical, and so what counts as stranded, are the pods that the cluster
// has; it is taken again every ten minutes.
//
// Pods that no node has are placed on a copy, as "paddock fleet" places them, to show which of them
// every node rejects. That runs beside the rest, and for at most a tenth of the time.
package livefleet
