package podspec

import (
	"cmp"
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Slim returns a pod with only the parts that influence decisions: its identity and owner, its
// requests, where it may run, and its progress. Default, Request and Validate give the same answers
// for both pods, except for what Validate finds in the removed parts. A full pod of a running
// cluster has 5 to 20 KiB, most of it in managed fields, volumes, environments and statuses. The
// result shares parts with the given pod.
func Slim(pod *v1.Pod) *v1.Pod {
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, GenerateName: pod.GenerateName, UID: types.UID(UID(pod)), Labels: pod.Labels,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, OwnerReferences: pod.OwnerReferences,
		},
		Spec: v1.PodSpec{
			NodeName: pod.Spec.NodeName, NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations,
			TopologySpreadConstraints: pod.Spec.TopologySpreadConstraints, Priority: pod.Spec.Priority, Overhead: pod.Spec.Overhead,
			Resources: pod.Spec.Resources, ResourceClaims: pod.Spec.ResourceClaims,
			InitContainers: slimContainers(pod.Spec.InitContainers), Containers: slimContainers(pod.Spec.Containers),
		},
		Status: v1.PodStatus{
			Phase: pod.Status.Phase, QOSClass: pod.Status.QOSClass, Resources: pod.Status.Resources, AllocatedResources: pod.Status.AllocatedResources,
			InitContainerStatuses: slimStatuses(pod.Status.InitContainerStatuses), ContainerStatuses: slimStatuses(pod.Status.ContainerStatuses),
		},
	}
	for key, value := range pod.Annotations {
		if keptAnnotation(key) {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
		}
	}
	return out
}

func slimContainers(all []v1.Container) []v1.Container {
	var out []v1.Container
	for i := range all {
		c := &all[i]
		out = append(out, v1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
	}
	return out
}

// slimStatuses keeps the resources that a resize reports.
func slimStatuses(all []v1.ContainerStatus) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i := range all {
		if c := &all[i]; len(c.AllocatedResources) > 0 || c.Resources != nil {
			out = append(out, v1.ContainerStatus{Name: c.Name, Resources: c.Resources, AllocatedResources: c.AllocatedResources})
		}
	}
	return out
}

// slimText is the JSON of a stored pod with only the fields that Slim keeps. It is a sixth of the
// original, which saves time because it is decoded twice.
type slimText struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Metadata   struct {
		Name              text            `json:"name,omitempty"`
		GenerateName      text            `json:"generateName,omitempty"`
		Namespace         text            `json:"namespace,omitempty"`
		UID               text            `json:"uid,omitempty"`
		ResourceVersion   text            `json:"resourceVersion,omitempty"`
		CreationTimestamp text            `json:"creationTimestamp,omitempty"`
		DeletionTimestamp text            `json:"deletionTimestamp,omitempty"`
		Labels            text            `json:"labels,omitempty"`
		Annotations       map[string]text `json:"annotations,omitempty"`
		OwnerReferences   text            `json:"ownerReferences,omitempty"`
	} `json:"metadata"`
	Spec struct {
		NodeName                  text            `json:"nodeName,omitempty"`
		NodeSelector              text            `json:"nodeSelector,omitempty"`
		Affinity                  text            `json:"affinity,omitempty"`
		Tolerations               text            `json:"tolerations,omitempty"`
		TopologySpreadConstraints text            `json:"topologySpreadConstraints,omitempty"`
		Priority                  text            `json:"priority,omitempty"`
		Overhead                  text            `json:"overhead,omitempty"`
		Resources                 text            `json:"resources,omitempty"`
		ResourceClaims            text            `json:"resourceClaims,omitempty"`
		InitContainers            []slimContainer `json:"initContainers,omitempty"`
		Containers                []slimContainer `json:"containers,omitempty"`
	} `json:"spec"`
	Status struct {
		Phase                 text         `json:"phase,omitempty"`
		QOSClass              text         `json:"qosClass,omitempty"`
		Resources             text         `json:"resources,omitempty"`
		AllocatedResources    text         `json:"allocatedResources,omitempty"`
		InitContainerStatuses []slimStatus `json:"initContainerStatuses,omitempty"`
		ContainerStatuses     []slimStatus `json:"containerStatuses,omitempty"`
	} `json:"status"`
}

type (
	text          = json.RawMessage
	slimContainer struct {
		Name          text `json:"name,omitempty"`
		Resources     text `json:"resources,omitempty"`
		RestartPolicy text `json:"restartPolicy,omitempty"`
	}
	slimStatus struct {
		Name               text `json:"name,omitempty"`
		Resources          text `json:"resources,omitempty"`
		AllocatedResources text `json:"allocatedResources,omitempty"`
	}
)

// slimRaw reduces the JSON of a stored pod to the fields that Slim keeps. It returns any other
// object, and a text that does not have the form of a pod, unchanged.
func slimRaw(raw []byte, assumed identity) []byte {
	var s slimText
	if json.Unmarshal(raw, &s) != nil {
		return raw
	}
	if cmp.Or(s.Kind, assumed.Kind) != "Pod" || cmp.Or(s.APIVersion, assumed.APIVersion) != "v1" || len(s.Metadata.UID) == 0 || len(s.Metadata.ResourceVersion) == 0 {
		return raw
	}
	for key := range s.Metadata.Annotations {
		if !keptAnnotation(key) {
			delete(s.Metadata.Annotations, key)
		}
	}
	out, err := json.Marshal(&s)
	if err != nil {
		return raw
	}
	return out
}

// PredictionAnnotation is the annotation in which a scheduler shows the grant that it predicts on a
// node whose kubelet decides. It is for people: no program reads it, because the kubelet's files
// show what the pod has.
const PredictionAnnotation = "paddock-project.github.io/predicted-grant"

// keptAnnotation reports whether an annotation can influence a decision.
func keptAnnotation(key string) bool {
	return strings.HasPrefix(key, "paddock-project.github.io/") && key != PredictionAnnotation ||
		strings.HasPrefix(key, request.CacheAnnotationPrefix) || strings.HasPrefix(key, "kubernetes.io/config.")
}
