package zones

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names of the API. The types below have the fields of it that are written here: its Go module
// would link a client with informers for one object.
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

// Content is what the state of a node decides of it.
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
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	Costs     []Cost     `json:"costs,omitempty"`
	Resources []Resource `json:"resources,omitempty"`
}

// Cost is the distance to another zone, or to the zone itself.
type Cost struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// Resource has quantities, of CPUs, bytes or devices.
type Resource struct {
	Name        string   `json:"name"`
	Capacity    Quantity `json:"capacity"`
	Allocatable Quantity `json:"allocatable"`
	Available   Quantity `json:"available"`
}

// Quantity is the text of a quantity. Others may have written it as a number.
type Quantity string

// UnmarshalJSON is json.Unmarshaler's.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	*q = Quantity(bytes.Trim(data, `"`))
	return nil
}
