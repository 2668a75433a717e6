package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PaddockMachine is the hardware of nodes of a kind. Its name is the SHA-256 of its description in
// hexadecimal, so that nodes with the same hardware share one object, and a reader can check it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=pm
// +kubebuilder:printcolumn:name="Sockets",type=integer,JSONPath=".spec.sockets"
// +kubebuilder:printcolumn:name="NUMA nodes",type=integer,JSONPath=".spec.numaNodes"
// +kubebuilder:printcolumn:name="CPUs",type=integer,JSONPath=".spec.cpus"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=".spec.memory"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type PaddockMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the hardware. It never changes.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a PaddockMachine never changes: create another one, its name is the digest of its description"
	Spec PaddockMachineSpec `json:"spec"`
}

// PaddockMachineSpec is the hardware of a PaddockMachine.
type PaddockMachineSpec struct {
	// description is the machine as `paddock topology -o json` writes it, without what differs between
	// machines of a kind. It is the only field that programs read.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1048576
	Description string `json:"description"`
	// sockets, numaNodes, cpus and memory are for people.
	//
	// +optional
	Sockets int32 `json:"sockets,omitempty"`
	// +optional
	NUMANodes int32 `json:"numaNodes,omitempty"`
	// +optional
	CPUs int32 `json:"cpus,omitempty"`
	// +optional
	Memory string `json:"memory,omitempty"`
}

// PaddockMachineList is a list of PaddockMachines.
//
// +kubebuilder:object:root=true
type PaddockMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PaddockMachine `json:"items"`
}
