package console

import (
	"encoding/json"
	"fmt"

	"github.com/paddock-project/paddock/api/v1alpha1"
)

// Kind is the kind of a document that commands print with -o json and -o yaml. Its fields are in
// docs/schemas.
type Kind string

// The kinds.
const (
	Plan               Kind = "Plan"
	Explanation        Kind = "Explanation"
	Report             Kind = "Report"
	Map                Kind = "Map"
	Defragmentation    Kind = "Defragmentation"
	ConfigurationCheck Kind = "ConfigurationCheck"
	UpgradeCheck       Kind = "UpgradeCheck"
	StateList          Kind = "StateList"
	StateCheck         Kind = "StateCheck"
	StateDifference    Kind = "StateDifference"
	NodeCheck          Kind = "NodeCheck"
	NodeNoise          Kind = "NodeNoise"
	QuietStatus        Kind = "QuietStatus"
	Fleet              Kind = "Fleet"
	FleetSizes         Kind = "FleetSizes"
	FleetTrials        Kind = "FleetTrials"
	FleetRejections    Kind = "FleetRejections"
	FleetLargest       Kind = "FleetLargest"
	Trust              Kind = "Trust"
	RuleList           Kind = "RuleList"
	Version            Kind = "Version"
)

// Document prints a document of a kind as json or yaml, with its apiVersion and kind, or as text in
// every other form. A list is printed as the items of an object.
func (s Streams) Document(form string, kind Kind, document any, text func() string) error {
	return s.Print(form, typed{kind, document}, text)
}

// typed is a document with its kind.
type typed struct {
	kind     Kind
	document any
}

// MarshalJSON implements json.Marshaler.
func (d typed) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(d.document)
	if err != nil {
		return nil, err
	}
	out := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q`, v1alpha1.GroupVersion.String(), d.kind)
	switch {
	case string(data) == "null":
		return append(out, `,"items":[]}`...), nil
	case data[0] == '[':
		return append(append(append(out, `,"items":`...), data...), '}'), nil
	case string(data) == "{}":
		return append(out, '}'), nil
	}
	return append(append(out, ','), data[1:]...), nil
}
