package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
)

// These are the limits of one pod. A pod beyond them is listed and not usable.
const (
	// maxContainers limits each container type. The largest known pods have about a hundred
	// containers.
	maxContainers = 5000
	// maxResources limits one list of resources: cpu, memory, a few huge page sizes, and a few
	// dozen devices.
	maxResources = 128
	// maxWeight limits all pods of a list together, in containers and their resources. It allows
	// 10,000 containers with their usual requests.
	maxWeight = 65_536
	// maxTexts limits the grants in the annotations of all pods of a list together, in bytes. It
	// allows 500 pods with 32 KiB each.
	maxTexts = 16 << 20
	// maxName is the length of the longest name in Kubernetes: a DNS subdomain, a slash and a
	// label.
	maxName = 253 + 1 + maxLabel
	// maxLabel is the length of the longest name of a container in Kubernetes.
	maxLabel = 63
)

// errSyntax is the error of an item that is not JSON. It makes the whole answer invalid. The other
// errors concern one item.
var (
	errSyntax  = errors.New("the answer is not JSON")
	errTooBig  = fmt.Errorf("it has more than %d MiB of JSON", maxItem>>20)
	errTooMany = fmt.Errorf("the pods of the list have more than %d containers and resources together", maxWeight)
)

// meta is a pod's identity.
type meta struct {
	UID               string      `json:"uid"`
	Name              string      `json:"name"`
	Namespace         string      `json:"namespace"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
	// DeletionTimestamp is nil if the pod is not being deleted.
	DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
	Labels            struct {
		// KubeVirt is the value of podspec.KubeVirtLabel.
		KubeVirt string `json:"kubevirt.io"`
	} `json:"labels"`
	Annotations annotations `json:"annotations"`
}

// item has only the fields of a pod that podspec and claims.UsesOf read, because at worst a v1.Pod
// takes several hundred times the memory of its JSON. If podspec reads a new field, it must be
// added here; TestItemIsThePod compares the two.
type item struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Priority       *int32        `json:"priority"`
		Resources      *requirements `json:"resources"`
		InitContainers containers    `json:"initContainers"`
		Containers     containers    `json:"containers"`
		ResourceClaims podClaims     `json:"resourceClaims"`
	} `json:"spec"`
	Status struct {
		Phase                       v1.PodPhase    `json:"phase"`
		QOSClass                    v1.PodQOSClass `json:"qosClass"`
		ResourceClaimStatuses       claimNames     `json:"resourceClaimStatuses"`
		ExtendedResourceClaimStatus *extendedClaim `json:"extendedResourceClaimStatus"`
		Conditions                  conditions     `json:"conditions"`
	} `json:"status"`
}

// extendedClaim is the claim that the scheduler created for extended resources.
type extendedClaim struct {
	ResourceClaimName string   `json:"resourceClaimName"`
	RequestMappings   mappings `json:"requestMappings"`
}

type (
	containers   []container
	resourceList v1.ResourceList

	requirements struct {
		Limits   resourceList `json:"limits"`
		Requests resourceList `json:"requests"`
		Claims   usedClaims   `json:"claims"`
	}

	// conditions is the reason why the kubelet does not apply a resize, taken from the conditions
	// of a pod. It is empty if the kubelet applies it.
	conditions string

	usedClaims []v1.ResourceClaim
	podClaims  []v1.PodResourceClaim
	claimNames []v1.PodResourceClaimStatus
	mappings   []v1.ContainerExtendedResourceRequest

	container struct {
		Name          string                     `json:"name"`
		RestartPolicy *v1.ContainerRestartPolicy `json:"restartPolicy"`
		Resources     requirements               `json:"resources"`
	}
)

// decode decodes one value strictly: names are case-sensitive, and none may occur twice.
func decode[T any](raw []byte, to *T) error {
	twice, err := kjson.UnmarshalStrict(raw, to, kjson.DisallowDuplicateFields)
	if syntax, _ := kjson.SyntaxErrorOffset(err); syntax {
		return fmt.Errorf("%w: %w", errSyntax, err)
	}
	if err == nil && len(twice) > 0 {
		err = twice[0]
	}
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *containers) UnmarshalJSON(raw []byte) (err error) {
	*c, err = elements(raw, maxContainers, func(raw []byte, to *container) error {
		if err := decode(raw, to); err != nil {
			return err
		}
		return checkName("a container's name", to.Name, maxLabel)
	})
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *usedClaims) UnmarshalJSON(raw []byte) (err error) {
	*c, err = elements(raw, maxResources, func(raw []byte, to *v1.ResourceClaim) error {
		if err := decode(raw, to); err != nil {
			return err
		}
		return errors.Join(checkName("a claim's name", to.Name, maxName), checkName("a claim's request", to.Request, maxName))
	})
	return err
}

// maxConditions limits the conditions of one pod, which usually has about ten.
const maxConditions = 1024

// UnmarshalJSON implements json.Unmarshaler. It drops the other conditions.
func (c *conditions) UnmarshalJSON(raw []byte) error {
	type condition struct {
		Type    v1.PodConditionType `json:"type"`
		Status  v1.ConditionStatus  `json:"status"`
		Reason  string              `json:"reason"`
		Message string              `json:"message"`
	}
	list, err := elements(raw, maxConditions, decode[condition])
	for _, l := range list {
		if l.Type == v1.PodResizePending && l.Status == v1.ConditionTrue {
			*c = conditions(brief(fmt.Errorf("%s: %s", l.Reason, l.Message)))
		}
	}
	return err
}

// maxClaims limits the claims of one pod, and maxMappings the extended resources of its containers.
const (
	maxClaims   = 1024
	maxMappings = maxContainers
)

// UnmarshalJSON implements json.Unmarshaler.
func (c *podClaims) UnmarshalJSON(raw []byte) (err error) {
	*c, err = elements(raw, maxClaims, func(raw []byte, to *v1.PodResourceClaim) error {
		if err := decode(raw, to); err != nil {
			return err
		}
		return checkNames("a claim's name", &to.Name, to.ResourceClaimName, to.ResourceClaimTemplateName)
	})
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *claimNames) UnmarshalJSON(raw []byte) (err error) {
	*c, err = elements(raw, maxClaims, func(raw []byte, to *v1.PodResourceClaimStatus) error {
		if err := decode(raw, to); err != nil {
			return err
		}
		return checkNames("a claim's name", &to.Name, to.ResourceClaimName)
	})
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *mappings) UnmarshalJSON(raw []byte) (err error) {
	*c, err = elements(raw, maxMappings, func(raw []byte, to *v1.ContainerExtendedResourceRequest) error {
		if err := decode(raw, to); err != nil {
			return err
		}
		return checkNames("a name of an extended resource", &to.ContainerName, &to.ResourceName, &to.RequestName)
	})
	return err
}

func checkNames(what string, names ...*string) error {
	for _, name := range names {
		if name == nil {
			continue
		}
		if err := checkName(what, *name, maxName); err != nil {
			return err
		}
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler. podspec parses the quantities, because parsing some of
// them would take very long.
func (l *resourceList) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	if raw[0] != '{' {
		return fmt.Errorf("expected an object of quantities: got %.20s", raw)
	}
	list := resourceList{}
	err := members(raw, func(name string, value []byte, _ bool) error {
		if err := checkName("a resource's name", name, maxName); err != nil {
			return err
		}
		if _, twice := list[v1.ResourceName(name)]; twice {
			return fmt.Errorf("the resource %s is listed twice", name)
		}
		if len(list) == maxResources {
			return fmt.Errorf("more than %d resources", maxResources)
		}
		text := string(value[:min(len(value), maxName)])
		if strings.HasPrefix(text, `"`) {
			if err := json.Unmarshal(value, &text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		q, err := podspec.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		list[v1.ResourceName(name)] = q
		return nil
	})
	*l = list
	return err
}

func checkName(what, name string, most int) error {
	if len(name) > most {
		return fmt.Errorf("%s has %d characters: expected at most %d", what, len(name), most)
	}
	return nil
}

// decodeItem decodes an element of the list's items into an item or a started.
func decodeItem[T any](raw []byte, whole bool, to *T) error {
	if !whole {
		return errTooBig
	}
	return decode(raw, to)
}

// brief returns the text of an error, cut off because a hostile item can make it long.
func brief(err error) string {
	const most = 500
	text := err.Error()
	if len(text) > most {
		return text[:most] + "…"
	}
	return strings.Clone(text)
}

// identity reads the identity of an item that may be cut off or damaged. The UID is empty if the
// item has no UID, or more than one.
func identity(raw []byte) meta {
	var m meta
	objects, uids := 0, 0
	short := func(value []byte, whole bool) (text string) {
		if whole && len(value) <= maxName && json.Unmarshal(value, &text) == nil {
			return text
		}
		return ""
	}
	_ = members(raw, func(key string, value []byte, _ bool) error {
		if key != "metadata" {
			return nil
		}
		objects++
		return members(value, func(key string, value []byte, whole bool) error {
			switch key {
			case "uid":
				uids++
				m.UID = short(value, whole)
			case "name":
				m.Name = short(value, whole)
			case "namespace":
				m.Namespace = short(value, whole)
			}
			return nil
		})
	})
	if objects != 1 || uids != 1 {
		m.UID = ""
	}
	return m
}

// pod returns the item as podspec reads it.
func (i *item) pod() *v1.Pod {
	pod := &v1.Pod{}
	pod.UID, pod.Name, pod.Namespace = types.UID(i.Metadata.UID), i.Metadata.Name, i.Metadata.Namespace
	pod.CreationTimestamp = i.Metadata.CreationTimestamp
	if moves := i.Metadata.Annotations.Moves; moves != nil {
		pod.Annotations = map[string]string{podspec.MovesAnnotation: *moves}
	}
	if shared := i.Metadata.Annotations.SharedPool; shared != nil {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, request.SharedPoolAnnotation, *shared)
	}
	for key, text := range i.Metadata.Annotations.caches {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, text)
	}
	if label := i.Metadata.Labels.KubeVirt; label != "" {
		pod.Labels = map[string]string{podspec.KubeVirtLabel: label}
	}
	pod.Spec.Priority = i.Spec.Priority
	if r := i.Spec.Resources; r != nil {
		all := r.all()
		pod.Spec.Resources = &all
	}
	pod.Spec.InitContainers, pod.Spec.Containers = i.Spec.InitContainers.all(), i.Spec.Containers.all()
	pod.Spec.ResourceClaims, pod.Status.ResourceClaimStatuses = i.Spec.ResourceClaims, i.Status.ResourceClaimStatuses
	if e := i.Status.ExtendedResourceClaimStatus; e != nil {
		pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: e.ResourceClaimName, RequestMappings: e.RequestMappings}
	}
	pod.Status.Phase, pod.Status.QOSClass = i.Status.Phase, i.Status.QOSClass
	return pod
}

func (r *requirements) all() v1.ResourceRequirements {
	return v1.ResourceRequirements{Limits: v1.ResourceList(r.Limits), Requests: v1.ResourceList(r.Requests), Claims: r.Claims}
}

func (c containers) all() []v1.Container {
	all := make([]v1.Container, len(c))
	for i := range c {
		all[i] = v1.Container{Name: c[i].Name, RestartPolicy: c[i].RestartPolicy, Resources: c[i].Resources.all()}
	}
	return all
}

// weight approximates the memory that the pod takes as a request: its containers, their resources,
// and its claims.
func (i *item) weight() int {
	n := len(i.Spec.ResourceClaims) + len(i.Status.ResourceClaimStatuses)
	if e := i.Status.ExtendedResourceClaimStatus; e != nil {
		n += 1 + len(e.RequestMappings)
	}
	for _, list := range []containers{i.Spec.InitContainers, i.Spec.Containers} {
		for k := range list {
			r := &list[k].Resources
			n += 1 + len(r.Limits) + len(r.Requests) + len(r.Claims)
		}
	}
	return n
}
