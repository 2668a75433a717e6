package resourceslices

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// maxSlices limits the slices of a list. A node has one or a few for each of its drivers.
const maxSlices = 1024

// object is a ResourceSlice whose spec is not decoded: at worst, decoded objects take a hundred
// times the memory of their JSON.
type object struct {
	metav1.TypeMeta
	Metadata metadata        `json:"metadata"`
	Spec     json.RawMessage `json:"spec"`
}

type metadata struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
}

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (o *object) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: o.Metadata.Name, ResourceVersion: o.Metadata.ResourceVersion}
}

// DeepCopyObject implements runtime.Object.
func (o *object) DeepCopyObject() runtime.Object {
	other := *o
	other.Spec = bytes.Clone(o.Spec)
	return &other
}

type list struct {
	metav1.TypeMeta
	metav1.ListMeta `json:"metadata"`
	Items           items `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *list) DeepCopyObject() runtime.Object {
	other := *l
	other.Items = slices.Clone(l.Items)
	for i := range other.Items {
		other.Items[i].Spec = bytes.Clone(l.Items[i].Spec)
	}
	return &other
}

type items []object

// UnmarshalJSON implements json.Unmarshaler.
func (l *items) UnmarshalJSON(raw []byte) error {
	*l = nil
	if string(raw) == "null" {
		return nil
	}
	elements := json.NewDecoder(bytes.NewReader(raw))
	if begin, err := elements.Token(); err != nil || begin != json.Delim('[') {
		return fmt.Errorf("expected a list of ResourceSlices: got %.20q", raw)
	}
	for elements.More() {
		if len(*l) == maxSlices {
			return fmt.Errorf("one Kubernetes node has more than %d ResourceSlices", maxSlices)
		}
		var o object
		if err := elements.Decode(&o); err != nil {
			return err
		}
		*l = append(*l, o)
	}
	return nil
}

// codecs returns codecs for ResourceSlices, lists of them, and the other answers of an API server.
func codecs() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), &object{})
	scheme.AddKnownTypeWithName(resourceapi.SchemeGroupVersion.WithKind("ResourceSliceList"), &list{})
	metav1.AddToGroupVersion(scheme, resourceapi.SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme)
}

// client returns a client that requests ResourceSlices and lists of them, in JSON.
func client(c *rest.Config) (*rest.RESTClient, error) {
	c = rest.CopyConfig(c)
	c.APIPath, c.GroupVersion = "/apis", &resourceapi.SchemeGroupVersion
	c.NegotiatedSerializer = codecs().WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(c)
}
