// Package noderesourcetopology gives what Paddock publishes as NodeResourceTopology to a scheduler
// that reads it: the plugin NodeResourceTopologyMatch of scheduler-plugins 0.33.5. It consists only
// of tests. It is a separate module without Paddock's packages, because the plugin is compiled with
// Kubernetes 1.33.
//
// TestPublished of internal/node/zones writes the objects of several machines, and what Paddock's
// planner decides about pods on them, to testdata/published.json there. Here, a server answers the
// plugin with these objects. testdata/verdicts.txt has the plugin's verdicts beside the planner's,
// also those about a form that is not published: zones with the names of the kernel's ids.
//
// The plugin crashes with that form on NUMA nodes 0 and 8 (Score takes the number in the name of a
// zone as an index), and with every form if a container of a Guaranteed pod has no requests, or,
// with the scope pod, if no container has any (Score divides by their number). Paddock avoids the
// first. The second depends on the pod alone: such pods have a budget at the level of the pod. They
// need the scoring strategy LeastNUMANodes, another scheduler, or requests in every container.
package noderesourcetopology
