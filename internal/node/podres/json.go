package podres

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// JSON returns a response of List or Get as indented protobuf JSON with a line break at its end.
// 64-bit numbers are strings. Zeros and empty lists are written, because NUMA node 0 is a NUMA node
// like the others. A pod with moves has the additional last field "moves". Equal responses give
// equal bytes, which protojson does not guarantee.
func JSON(response proto.Message, moves []Moves) ([]byte, error) {
	options := protojson.MarshalOptions{EmitDefaultValues: true}
	data, err := options.Marshal(response)
	if err == nil && len(moves) > 0 {
		data, err = withMoves(response, moves, options)
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// withMoves returns the JSON of a response whose pods have moves.
func withMoves(response proto.Message, moves []Moves, options protojson.MarshalOptions) ([]byte, error) {
	document := map[string]any{}
	switch r := response.(type) {
	case *podresourcesv1.ListPodResourcesResponse:
		pods := []json.RawMessage{}
		for _, p := range r.GetPodResources() {
			text, err := podJSON(p, moves, options)
			if err != nil {
				return nil, err
			}
			pods = append(pods, text)
		}
		document["podResources"] = pods
	case *podresourcesv1.GetPodResourcesResponse:
		text, err := podJSON(r.GetPodResources(), moves, options)
		if err != nil {
			return nil, err
		}
		document["podResources"] = text
	default:
		return options.Marshal(response)
	}
	return json.Marshal(document)
}

func podJSON(p *PodResources, moves []Moves, options protojson.MarshalOptions) (json.RawMessage, error) {
	text, err := options.Marshal(p)
	at := slices.IndexFunc(moves, func(m Moves) bool { return m.Namespace == p.GetNamespace() && m.Pod == p.GetName() })
	if err != nil || at < 0 {
		return text, err
	}
	more, err := json.Marshal(moves[at])
	if err != nil {
		return nil, err
	}
	return slices.Concat(bytes.TrimSuffix(text, []byte("}")), []byte(`,"moves":`), more, []byte("}")), nil
}
