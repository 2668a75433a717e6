package podres

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// JSON is a response as protobuf JSON, indented, with a line break at its end. 64-bit numbers are
// strings. Zeros and empty lists are written, as NUMA node 0 is one like the others. Equal
// responses give equal bytes, which protojson does not promise.
func JSON(response proto.Message) ([]byte, error) {
	data, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(response)
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
