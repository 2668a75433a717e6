package podres

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// JSON is a response as protobuf JSON (64-bit numbers are strings, empty fields are left
// out), indented, with a line break at its end. Equal responses give equal bytes, for which
// protojson alone does not stand.
func JSON(response proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(response)
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
