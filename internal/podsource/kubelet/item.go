package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/paddock-project/paddock/internal/podspec"
)

// The bounds of one pod. A pod beyond them is listed and not usable.
const (
	// maxContainers of a kind. The largest pods that are known of have some hundred.
	maxContainers = 5000
	// maxResources of a list: cpu, memory, a few sizes of huge pages, a few dozen devices.
	maxResources = 128
	// maxWeight bounds all pods of a list together, in containers and their resources: 10,000 containers with what
	// a container usually asks for.
	maxWeight = 65_536
	// maxName is what Kubernetes allows for the longest names: a DNS subdomain, a slash and a label.
	maxName = 253 + 1 + maxLabel
	// maxLabel is what it allows for the name of a container.
	maxLabel = 63
)

// errSyntax says that an item is no JSON, and so neither is the answer. The others are of one item.
var (
	errSyntax  = errors.New("the answer is no JSON")
	errTooBig  = fmt.Errorf("it has more than %d MiB of JSON", maxItem>>20)
	errTooMany = fmt.Errorf("the pods of the list have more than %d containers and resources together", maxWeight)
)

// meta is a pod's identity.
type meta struct {
	UID               string      `json:"uid"`
	Name              string      `json:"name"`
	Namespace         string      `json:"namespace"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
	Annotations       struct {
		Source string `json:"kubernetes.io/config.source"`
	} `json:"annotations"`
}

// item is what is read of a pod: what podspec reads, and no more. A v1.Pod takes several hundred times the memory of
// its JSON at worst. Whoever reads more in podspec adds it here; TestItemIsThePod compares the two.
type item struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Priority       *int32        `json:"priority"`
		Resources      *requirements `json:"resources"`
		InitContainers containers    `json:"initContainers"`
		Containers     containers    `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase    v1.PodPhase    `json:"phase"`
		QOSClass v1.PodQOSClass `json:"qosClass"`
	} `json:"status"`
}

type (
	containers   []container
	resourceList v1.ResourceList

	requirements struct {
		Limits   resourceList `json:"limits"`
		Requests resourceList `json:"requests"`
	}

	container struct {
		Name          string                     `json:"name"`
		RestartPolicy *v1.ContainerRestartPolicy `json:"restartPolicy"`
		Resources     requirements               `json:"resources"`
	}
)

// decode reads one value strictly: names have their case, and none occurs twice.
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

// UnmarshalJSON is json.Unmarshaler's.
func (c *containers) UnmarshalJSON(raw []byte) (err error) {
	*c, err = elements(raw, maxContainers, func(raw []byte, to *container) error {
		if err := decode(raw, to); err != nil {
			return err
		}
		return checkName("a container's name", to.Name, maxLabel)
	})
	return err
}

// UnmarshalJSON is json.Unmarshaler's. Quantities are read by podspec, which knows which ones take for ever.
func (l *resourceList) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	if raw[0] != '{' {
		return fmt.Errorf("want an object of quantities, is %.20s", raw)
	}
	list := resourceList{}
	err := members(raw, func(name string, value []byte, _ bool) error {
		if err := checkName("a resource's name", name, maxName); err != nil {
			return err
		}
		if _, twice := list[v1.ResourceName(name)]; twice {
			return fmt.Errorf("the resource %s is there twice", name)
		}
		if len(list) == maxResources {
			return fmt.Errorf("more than %d resources", maxResources)
		}
		q, err := quantity(value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		list[v1.ResourceName(name)] = q
		return nil
	})
	*l = list
	return err
}

func quantity(raw []byte) (resource.Quantity, error) {
	text := string(raw[:min(len(raw), maxName)])
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(raw, &text); err != nil {
			return resource.Quantity{}, err
		}
	}
	return podspec.ParseQuantity(text)
}

func checkName(what, name string, most int) error {
	if len(name) > most {
		return fmt.Errorf("%s has %d characters, at most %d are valid", what, len(name), most)
	}
	return nil
}

// decodeItem decodes an item of the stream, item or started.
func decodeItem[T any](raw []byte, whole bool, to *T) error {
	if !whole {
		return errTooBig
	}
	return decode(raw, to)
}

// brief is an error's text, without the amount of text that a hostile item can put into it.
func brief(err error) string {
	const most = 500
	text := err.Error()
	if len(text) > most {
		return text[:most] + "…"
	}
	return strings.Clone(text)
}

// identity is the identity that can be read of an item, which may be cut off or anything else. The UID is empty if
// there is none, or more than one.
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

// pod is the item as podspec takes it.
func (i *item) pod() *v1.Pod {
	pod := &v1.Pod{}
	pod.UID, pod.Name, pod.Namespace = types.UID(i.Metadata.UID), i.Metadata.Name, i.Metadata.Namespace
	pod.CreationTimestamp = i.Metadata.CreationTimestamp
	pod.Spec.Priority = i.Spec.Priority
	if r := i.Spec.Resources; r != nil {
		all := r.all()
		pod.Spec.Resources = &all
	}
	pod.Spec.InitContainers, pod.Spec.Containers = i.Spec.InitContainers.all(), i.Spec.Containers.all()
	pod.Status.Phase, pod.Status.QOSClass = i.Status.Phase, i.Status.QOSClass
	return pod
}

func (r *requirements) all() v1.ResourceRequirements {
	return v1.ResourceRequirements{Limits: v1.ResourceList(r.Limits), Requests: v1.ResourceList(r.Requests)}
}

func (c containers) all() []v1.Container {
	all := make([]v1.Container, len(c))
	for i := range c {
		all[i] = v1.Container{Name: c[i].Name, RestartPolicy: c[i].RestartPolicy, Resources: c[i].Resources.all()}
	}
	return all
}

// weight is what the pod takes in memory once it is a request, roughly: its containers, and the names of
// their resources.
func (i *item) weight() int {
	n := 0
	for _, list := range []containers{i.Spec.InitContainers, i.Spec.Containers} {
		for k := range list {
			n += 1 + len(list[k].Resources.Limits) + len(list[k].Resources.Requests)
		}
	}
	return n
}
