package discover

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// lineWidth is how long a line may be before an array or object is broken up.
const lineWidth = 140

// maxDepth is where breaking up ends; the deepest list of a MachineInfo, a core's
// caches, is at 6.
const maxDepth = 8

// WriteJSON writes the MachineInfo with the PCI devices, so that Read of it finds the same machine.
// Of a recorded file every field is written, known or not, in the order of the file. What fits on a
// line is written on one: a core is a line, not twenty.
func (f *Found) WriteJSON(w io.Writer) error {
	data := f.recorded
	if data == nil {
		var err error
		if data, err = json.Marshal(recording{f.Info, f.PCI}); err != nil {
			return err
		}
	}
	var compact, out bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return err
	}
	if err := layOut(&out, compact.Bytes(), 0); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := out.WriteTo(w)
	return err
}

// layOut writes compact JSON in lines, indented by depth steps of two spaces.
func layOut(out *bytes.Buffer, value json.RawMessage, depth int) error {
	isObject := value[0] == '{'
	if isList := value[0] == '['; !isObject && !isList || 2*depth+len(value) <= lineWidth || depth == maxDepth {
		// Compact, with a space after colons and commas. A line feed of json.Indent is never inside
		// a string, where it would be escaped.
		var lines bytes.Buffer
		if err := json.Indent(&lines, value, "", ""); err != nil {
			return err
		}
		_, err := strings.NewReplacer(",\n", ", ", "\n", "").WriteString(out, lines.String())
		return err
	}
	d := json.NewDecoder(bytes.NewReader(value))
	if _, err := d.Token(); err != nil {
		return err
	}
	out.WriteByte(value[0])
	indent := "\n" + strings.Repeat("  ", depth)
	for separator := ""; d.More(); separator = "," {
		out.WriteString(separator + indent + "  ")
		if isObject {
			before := d.InputOffset()
			if _, err := d.Token(); err != nil {
				return err
			}
			out.Write(bytes.TrimLeft(value[before:d.InputOffset()], ",")) // The key as it is spelled in the file.
			out.WriteString(": ")
		}
		var element json.RawMessage
		if err := d.Decode(&element); err != nil {
			return err
		}
		if err := layOut(out, element, depth+1); err != nil {
			return err
		}
	}
	out.WriteString(indent)
	return out.WriteByte(value[len(value)-1])
}
