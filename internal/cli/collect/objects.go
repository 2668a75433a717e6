package collect

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
)

// pod has the fields of a Pod that decide what it gets on its node, or show what became of it.
type pod struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name              string            `json:"name,omitempty"`
		Namespace         string            `json:"namespace,omitempty"`
		UID               string            `json:"uid,omitempty"`
		CreationTimestamp *metav1.Time      `json:"creationTimestamp,omitempty"`
		DeletionTimestamp *metav1.Time      `json:"deletionTimestamp,omitempty"`
		Annotations       map[string]string `json:"annotations,omitempty"`
		// OwnerReferences is empty and not nil if the pod has no controller. ResourceVersion shows
		// that nothing was removed before, and is not kept.
		OwnerReferences []owner `json:"ownerReferences,omitzero"`
		ResourceVersion string  `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Spec struct {
		NodeName       string            `json:"nodeName,omitempty"`
		Priority       *int32            `json:"priority,omitempty"`
		RestartPolicy  string            `json:"restartPolicy,omitempty"`
		Overhead       map[string]amount `json:"overhead,omitempty"`
		Resources      *resources        `json:"resources,omitempty"`
		ResourceClaims []resourceClaim   `json:"resourceClaims,omitempty"`
		InitContainers []container       `json:"initContainers,omitempty"`
		Containers     []container       `json:"containers,omitempty"`
	} `json:"spec"`
	Status struct {
		Phase                 string            `json:"phase,omitempty"`
		Reason                string            `json:"reason,omitempty"`
		Message               string            `json:"message,omitempty"`
		StartTime             *metav1.Time      `json:"startTime,omitempty"`
		QOSClass              string            `json:"qosClass,omitempty"`
		Conditions            []condition       `json:"conditions,omitempty"`
		Resources             *resources        `json:"resources,omitempty"`
		AllocatedResources    map[string]amount `json:"allocatedResources,omitempty"`
		ResourceClaimStatuses []claimStatus     `json:"resourceClaimStatuses,omitempty"`
		InitContainerStatuses []containerStatus `json:"initContainerStatuses,omitempty"`
		ContainerStatuses     []containerStatus `json:"containerStatuses,omitempty"`
	} `json:"status"`
}

type (
	owner struct {
		Kind       string `json:"kind"`
		Name       string `json:"name"`
		Controller bool   `json:"controller,omitempty"`
	}
	container struct {
		Name          string     `json:"name"`
		RestartPolicy string     `json:"restartPolicy,omitempty"`
		Resources     *resources `json:"resources,omitempty"`
	}
	resources struct {
		Limits   map[string]amount `json:"limits,omitempty"`
		Requests map[string]amount `json:"requests,omitempty"`
		Claims   []struct {
			Name    string `json:"name"`
			Request string `json:"request,omitempty"`
		} `json:"claims,omitempty"`
	}
	resourceClaim struct {
		Name                      string `json:"name"`
		ResourceClaimName         string `json:"resourceClaimName,omitempty"`
		ResourceClaimTemplateName string `json:"resourceClaimTemplateName,omitempty"`
	}
	claimStatus struct {
		Name              string `json:"name"`
		ResourceClaimName string `json:"resourceClaimName,omitempty"`
	}
	condition struct {
		Type               string       `json:"type"`
		Status             string       `json:"status"`
		Reason             string       `json:"reason,omitempty"`
		Message            string       `json:"message,omitempty"`
		LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	}
	containerStatus struct {
		Name               string            `json:"name"`
		State              *state            `json:"state,omitempty"`
		Resources          *resources        `json:"resources,omitempty"`
		AllocatedResources map[string]amount `json:"allocatedResources,omitempty"`
	}
	// state is which state a container is in, and since when. Its reasons and messages are the
	// container's own.
	state struct {
		Waiting *struct{} `json:"waiting,omitempty"`
		Running *struct {
			StartedAt *metav1.Time `json:"startedAt,omitempty"`
		} `json:"running,omitempty"`
		Terminated *struct {
			StartedAt  *metav1.Time `json:"startedAt,omitempty"`
			FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
		} `json:"terminated,omitempty"`
	}
)

// node has the fields of a Node that decide.
type node struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name   string            `json:"name,omitempty"`
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Taints []taint `json:"taints,omitempty"`
	} `json:"spec"`
	Status struct {
		Capacity    map[string]amount `json:"capacity,omitempty"`
		Allocatable map[string]amount `json:"allocatable,omitempty"`
		NodeInfo    struct {
			KubeletVersion          string `json:"kubeletVersion,omitempty"`
			ContainerRuntimeVersion string `json:"containerRuntimeVersion,omitempty"`
			KernelVersion           string `json:"kernelVersion,omitempty"`
			OperatingSystem         string `json:"operatingSystem,omitempty"`
			Architecture            string `json:"architecture,omitempty"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// amount is a quantity as it is written. It is not parsed, because parsing some texts of a few
// bytes takes hours, and whoever plans with it checks that first.
type amount string

// written matches every quantity.
var written = regexp.MustCompile(`^[-+]?[0-9.]{1,40}([eE][-+]?[0-9]{1,10}|[KMGTPEmkun]i?)?$`)

// UnmarshalJSON accepts a string or a number that has the form of a quantity.
func (a *amount) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	if !written.MatchString(text) {
		return fmt.Errorf("%.20q is no quantity", text)
	}
	*a = amount(text)
	return nil
}

// unreadable replaces what an annotation asks of the caches if it cannot be read.
const unreadable = "unreadable"

// annotations are the annotations of pods by which the kubelet or Paddock decides, beside
// those about caches.
var annotations = []string{
	v1.MirrorPodAnnotationKey, "kubernetes.io/config.hash", "kubernetes.io/config.source",
	podspec.MovesAnnotation, podspec.QuietAnnotation, request.SharedPoolAnnotation, handover.Annotation,
}

// conditions are the conditions of pods that explain why a pod waits.
var conditions = []string{string(v1.PodScheduled), string(v1.PodResizePending), string(v1.PodResizeInProgress)}

// reduce removes what the type keeps and the pod does not need. What an annotation asks of the
// caches is kept if it can be read. Otherwise a text is left that cannot be read either. Of an
// annotation that is probably misspelt, the key is kept.
func (p *pod) reduce() {
	for key, value := range p.Metadata.Annotations {
		switch {
		case request.IsCacheAnnotation(key):
			if _, err := podspec.ParseCache(value); err != nil {
				p.Metadata.Annotations[key] = unreadable
			}
		case slices.Contains(annotations, key):
		case len(podspec.Misspelt([]string{key})) > 0:
			p.Metadata.Annotations[key] = "" // A reader asks what is meant.
		default:
			delete(p.Metadata.Annotations, key)
		}
	}
	if p.Metadata.ResourceVersion != "" && p.Metadata.OwnerReferences == nil {
		p.Metadata.OwnerReferences = []owner{}
	}
	p.Metadata.ResourceVersion = ""
	p.Metadata.OwnerReferences = slices.DeleteFunc(p.Metadata.OwnerReferences, func(o owner) bool { return !o.Controller })
	p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c condition) bool { return !slices.Contains(conditions, c.Type) })
}

// reduce removes the labels that the node does not need.
func (n *node) reduce() {
	maps.DeleteFunc(n.Metadata.Labels, func(key, _ string) bool {
		return !strings.HasPrefix(key, topologyLabels) && key != v1.LabelHostname && key != v1.LabelInstanceTypeStable
	})
}

// topologyLabels begins the labels for the region and the zone of a node.
const topologyLabels = "topology.kubernetes.io/"
