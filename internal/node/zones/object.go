package zones

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of the API. The types below have only the fields that are written here. The Go module of
// the API would link a client with informers for one object.
const (
	group      = "topology.node.k8s.io"
	apiVersion = group + "/v1alpha2"
	kind       = "NodeResourceTopology"
	resource   = "noderesourcetopologies"
)

// Object is a NodeResourceTopology.
type Object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Content           `json:",inline"`
}

// Content is the part of the object that depends on the state of the node.
type Content struct {
	Attributes []Attribute `json:"attributes,omitempty"`
	Zones      []Zone      `json:"zones"`
}

// Attribute is a setting.
type Attribute struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Zone is a NUMA node.
type Zone struct {
	Name       string      `json:"name"`
	Type       string      `json:"type"`
	Costs      []Cost      `json:"costs,omitempty"`
	Attributes []Attribute `json:"attributes,omitempty"`
	Resources  []Resource  `json:"resources,omitempty"`
}

// Cost is the distance to another zone, or to the zone itself.
type Cost struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// Resource has quantities of CPUs, bytes or devices.
type Resource struct {
	Name        string   `json:"name"`
	Capacity    Quantity `json:"capacity"`
	Allocatable Quantity `json:"allocatable"`
	Available   Quantity `json:"available"`
}

// Quantity is the text of a quantity. Other writers may have written it as a number.
type Quantity string

// UnmarshalJSON implements json.Unmarshaler.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	*q = Quantity(bytes.Trim(data, `"`))
	return nil
}
