package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the group of the objects.
const GroupName = "paddock-project.github.io"

// GroupVersion is the group and version of the objects.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1beta1"}

// The resources, as the paths of the API server name them.
const (
	PaddockMachines = "paddockmachines"
	PaddockNodes    = "paddocknodes"
)

// AddToScheme makes the objects known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PaddockMachine{}, &PaddockMachineList{}, &PaddockNode{}, &PaddockNodeList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
