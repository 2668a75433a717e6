package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PaddockNode is what one node decides by and has assigned. It has the name of the Node, which owns it, and
// only the agent of that node writes it. It has no status subresource, so that one write has
// everything of one revision.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=pn
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=".status.summary.policy"
// +kubebuilder:printcolumn:name="Free CPUs",type=string,JSONPath=".status.summary.freeCPUs"
// +kubebuilder:printcolumn:name="Largest pod",type=string,JSONPath=".status.summary.largestPod"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=".status.revision"
// +kubebuilder:printcolumn:name="Condition",type=string,JSONPath=".status.summary.condition"
// +kubebuilder:printcolumn:name="Rejections",type=integer,JSONPath=".status.rejections.total",priority=1
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=".status.machine",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type PaddockNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is what the agent observed and decided.
	Status PaddockNodeStatus `json:"status"`
}

// PaddockNodeStatus is one revision of a node.
type PaddockNodeStatus struct {
	// machine is the name of the PaddockMachine.
	//
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	Machine string `json:"machine"`
	// policy is how the node decides, with everything resolved for its machine.
	Policy Policy `json:"policy"`
	// policyDigest is the digest of the policy. A reader whose digest is another one does not know
	// everything of the policy and must not plan for the node.
	//
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	PolicyDigest string `json:"policyDigest"`
	// maxContainersPerPod is how many containers a pod may have to be admitted, init containers
	// included. 0: any number. It is beside the policy, so that a reader that does not know it can
	// plan for the node still.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxContainersPerPod int32 `json:"maxContainersPerPod,omitempty"`
	// decidedBy is what decides where the agent only observes it. It is missing where the agent
	// decides. A grant is then what the kubelet's files have of a pod, and the annotation of a pod is
	// a prediction that nothing applies.
	//
	// +optional
	DecidedBy *DecidedBy `json:"decidedBy,omitempty"`
	// certainty is how surely the status shows what decidedBy has assigned.
	//
	// +optional
	Certainty *Certainty `json:"certainty,omitempty"`
	// devices are the devices that the node itself assigns.
	//
	// +optional
	// +listType=map
	// +listMapKey=resource
	Devices []DeviceResource `json:"devices,omitempty"`
	// revision is that of the node's state. It grows with every change.
	//
	// +kubebuilder:validation:Minimum=0
	Revision int64 `json:"revision"`
	// grants are what pods have that no annotation of theirs has: static pods, pods of other schedulers,
	// pods for which the node planned by itself, and pods whose assignments changed after admission.
	// A grant here wins over the annotation of the pod.
	//
	// +optional
	// +listType=map
	// +listMapKey=uid
	Grants []PublishedGrant `json:"grants,omitempty"`
	// conditions are Managing, Certain, Degraded and Complete.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// rejections are the pods that the node rejected since the agent started to count.
	//
	// +optional
	Rejections Rejections `json:"rejections,omitzero"`
	// summary is for people.
	//
	// +optional
	Summary Summary `json:"summary,omitzero"`
}

// The conditions of a PaddockNode.
const (
	// ConditionManaging is true while the agent decides about the node's pods. It is false with the reason while
	// another manager does.
	ConditionManaging = "Managing"
	// ConditionCertain is there where the agent observes a kubelet. It is true while the status is what the kubelet has,
	// and false with the reason Pending while pods wait for the kubelet, or Unsure.
	ConditionCertain = "Certain"
	// ConditionHugePagesFree is there where the agent observes a kubelet. It is false while huge pages that its Memory
	// Manager counts as free are in use: a pod that asks for them is admitted, and can fail. It is there only once that
	// was the case.
	ConditionHugePagesFree = "HugePagesFree"
	// ConditionDegraded is true while a pod has CPUs that are offline.
	ConditionDegraded = "Degraded"
	// ConditionComplete is false while the node has more grants to publish than an object has room for. A
	// reader must not plan for the node then.
	ConditionComplete = "Complete"
	// ConditionResizeVeto is false while the container runtime does not ask before a pod is resized: the node follows
	// such resizes, and cannot reject them. It is there only once that was the case.
	ConditionResizeVeto = "ResizeVeto"
	// ConditionAnswersInTime is false while an answer to the container runtime in the last ten minutes took more than half
	// of the agent's time for it. The runtime goes on without an agent that is too slow, and pods then start without CPUs
	// of their own. It is there only once that was the case.
	ConditionAnswersInTime = "AnswersInTime"
)

// Policy is how a node decides. The fields have the names and values of the KubeletConfiguration.
type Policy struct {
	// +optional
	TopologyManagerPolicy string `json:"topologyManagerPolicy,omitempty"`
	// +optional
	TopologyManagerScope string `json:"topologyManagerScope,omitempty"`
	// topologyManagerPolicyOptions are the names of the options that are on.
	//
	// +optional
	// +listType=atomic
	TopologyManagerPolicyOptions []string `json:"topologyManagerPolicyOptions,omitempty"`
	// +optional
	CPUManagerPolicy string `json:"cpuManagerPolicy,omitempty"`
	// cpuManagerPolicyOptions are the names of the options that are on.
	//
	// +optional
	// +listType=atomic
	CPUManagerPolicyOptions []string `json:"cpuManagerPolicyOptions,omitempty"`
	// isolatedCPUs is the value of the option isolated-cpus, only or prefer. It is absent without the option.
	//
	// +optional
	IsolatedCPUs string `json:"isolatedCPUs,omitempty"`
	// reservedCPUs is a list as in cpuset(7).
	//
	// +optional
	ReservedCPUs string `json:"reservedCPUs,omitempty"`
	// +optional
	MemoryManagerPolicy string `json:"memoryManagerPolicy,omitempty"`
	// +optional
	// +listType=atomic
	ReservedMemory []ReservedMemory `json:"reservedMemory,omitempty"`
	// featureGates are the names of the gates of Kubernetes that matter and are on.
	//
	// +optional
	// +listType=atomic
	FeatureGates []string `json:"featureGates,omitempty"`
	// moves is set if the node moves running pods for a pod that would not fit otherwise.
	//
	// +optional
	Moves *Moves `json:"moves,omitempty"`
}

// DecidedBy is a kubelet that decides, and what its state files show beside the pods.
type DecidedBy struct {
	// manager is kubelet.
	//
	// +kubebuilder:validation:Enum=kubelet
	Manager string `json:"manager"`
	// version is the release whose rules the manager follows, such as 1.36.4. The feature gates that
	// matter are in the policy.
	//
	// +kubebuilder:validation:MinLength=1
	Version string `json:"version"`
	// rulesDigest is the digest of these rules. A reader whose digest is another one plans by other
	// rules, and must treat the node as unsure.
	//
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	RulesDigest string `json:"rulesDigest"`
	// sharedCPUs are the CPUs of the shared pool in the state file, as a list as in cpuset(7). CPUs that are neither
	// there nor reserved, and in no grant, are lost to pods.
	//
	// +optional
	SharedCPUs string `json:"sharedCPUs,omitempty"`
	// memory is the accounting in the state file, without the NUMA nodes on which nothing is assigned. It depends on
	// which pods came and went in which order, so it does not follow from the grants.
	//
	// +optional
	// +listType=map
	// +listMapKey=numaNode
	Memory []AccountedMemory `json:"memory,omitempty"`
}

// AccountedMemory is what an accounting has of one NUMA node.
type AccountedMemory struct {
	// +kubebuilder:validation:Minimum=0
	NUMANode int32 `json:"numaNode"`
	// together are the NUMA nodes of the last assignment on this one, which serve memory together. It is omitted if
	// that is this NUMA node alone.
	//
	// +optional
	// +listType=atomic
	Together []int32 `json:"together,omitempty"`
	// assignments is how many blocks of memory are on the NUMA node.
	//
	// +kubebuilder:validation:Minimum=0
	Assignments int32 `json:"assignments"`
	// assigned are the bytes that are assigned there, by type of memory.
	//
	// +optional
	Assigned map[string]int64 `json:"assigned,omitempty"`
}

// ManagerKubelet is the manager of a node whose kubelet decides.
const ManagerKubelet = "kubelet"

// Certainty is how surely a status shows what a kubelet has.
type Certainty struct {
	// answer is exact, pending if pods are bound to the node and the kubelet has not decided about them, or unsure.
	//
	// +kubebuilder:validation:Enum=exact;pending;unsure
	Answer string `json:"answer"`
	// pending is how many pods wait for the kubelet's decision.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Pending int32 `json:"pending,omitempty"`
	// reasons are why the status is unsure.
	//
	// +optional
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
}

// The answers of a Certainty.
const (
	CertaintyExact   = "exact"
	CertaintyPending = "pending"
	CertaintyUnsure  = "unsure"
)

// Moves is how far a node moves running pods.
type Moves struct {
	// pods is how many pods are moved for one pod at most.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2
	Pods int32 `json:"pods"`
	// all moves CPUs within their NUMA nodes also of pods without consent.
	//
	// +optional
	All bool `json:"all,omitempty"`
	// bytes of memory are moved between NUMA nodes for one pod at most.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// anyKernel moves memory also on kernels before 6.18.
	//
	// +optional
	AnyKernel bool `json:"anyKernel,omitempty"`
}

// ReservedMemory is the part of one NUMA node's memory that pods do not get.
type ReservedMemory struct {
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	NUMANode int32 `json:"numaNode"`
	// limits are bytes by type of memory.
	//
	// +optional
	Limits map[string]int64 `json:"limits,omitempty"`
}

// DeviceResource is the devices of one extended resource.
type DeviceResource struct {
	// +kubebuilder:validation:MinLength=1
	Resource string `json:"resource"`
	// +optional
	// +listType=atomic
	Devices []Device `json:"devices,omitempty"`
}

// Device is one device.
type Device struct {
	// +kubebuilder:validation:MinLength=1
	ID string `json:"id"`
	// unhealthy devices are not assigned.
	//
	// +optional
	Unhealthy bool `json:"unhealthy,omitempty"`
	// numaNodes are the NUMA nodes that the device is near, as a list like 0,2-3. Empty: not known.
	//
	// +optional
	NUMANodes string `json:"numaNodes,omitempty"`
}

// PublishedGrant is what one pod has.
type PublishedGrant struct {
	// uid is that of the pod. That of a static pod is the annotation kubernetes.io/config.hash of
	// its mirror pod.
	//
	// +kubebuilder:validation:MinLength=1
	UID string `json:"uid"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// grant is what the pod asks for and has, in the form of Paddock's state file.
	//
	// +kubebuilder:validation:MinLength=1
	Grant string `json:"grant"`
}

// Rejections counts the pods that a node rejected.
type Rejections struct {
	// since is when the agent started to count. Agents that do not publish it do not publish decided either.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// decided is the number of decisions since then: pods and resizes that were admitted or rejected. A known pod
	// that is admitted again does not count. It can be 30 s old.
	//
	// +optional
	Decided int64 `json:"decided,omitempty"`
	// +optional
	Total int64 `json:"total,omitempty"`
	// counts are by class of request and cause. They only grow, and begin at zero when the agent starts.
	//
	// +optional
	// +listType=atomic
	Counts []RejectionCount `json:"counts,omitempty"`
	// last are the last rejections, the newest first.
	//
	// +optional
	// +listType=atomic
	Last []Rejection `json:"last,omitempty"`
}

// RejectionCount is how many pods of a class were rejected for one cause.
type RejectionCount struct {
	// class is what the pods ask for, such as "16 CPUs, 32Gi of memory".
	Class string `json:"class"`
	Cause string `json:"cause"`
	Count int64  `json:"count"`
}

// Rejection is one pod that a node rejected.
type Rejection struct {
	Time metav1.Time `json:"time"`
	// pod is the namespace and the name.
	Pod   string `json:"pod"`
	UID   string `json:"uid"`
	Class string `json:"class"`
	Cause string `json:"cause"`
	// message is the sentence of the pod's event.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// Summary is what `kubectl get paddocknodes` shows. Programs read the other fields.
type Summary struct {
	// policy is such as "restricted, pod", or "kubelet 1.36.4: restricted, pod" where a kubelet decides.
	//
	// +optional
	Policy string `json:"policy,omitempty"`
	// freeCPUs are the CPUs that could become exclusive, by NUMA node, such as "0:12 1:30".
	//
	// +optional
	FreeCPUs string `json:"freeCPUs,omitempty"`
	// largestPod is the largest pod that the node would admit, such as "30 CPUs".
	//
	// +optional
	LargestPod string `json:"largestPod,omitempty"`
	// condition is the condition that matters most.
	//
	// +optional
	Condition string `json:"condition,omitempty"`
}

// PaddockNodeList is a list of PaddockNodes.
//
// +kubebuilder:object:root=true
type PaddockNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PaddockNode `json:"items"`
}
