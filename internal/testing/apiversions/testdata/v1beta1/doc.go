// Package v1beta1 has the objects with which nodes show a cluster what they are and what their pods have.
//
// A PaddockMachine is the hardware of a kind of node, and a PaddockNode what one node decides by and
// has assigned. Agents write both; a scheduler, and people, read them. Together with the grants in the
// annotations of pods (internal/codec/handover) they are everything that a decision about a node depends on.
//
// Readers do not trust what they read: the name of a PaddockMachine is the digest of its description,
// and the digest of a PaddockNode's policy is beside the policy.
//
// Values of agents one version newer or older must be readable: a field may be added if a reader that
// does not know it is still right. Any other change is a new version.
//
// +kubebuilder:object:generate=true
// +groupName=paddock-project.github.io
package v1beta1
