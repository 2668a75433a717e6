package discover

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// lineWidth is the length of a line, in bytes, above which an array or object is split.
const lineWidth = 140

// maxDepth is the depth at which splitting ends. The deepest list of a MachineInfo, the caches of a
// core, is at depth 6.
const maxDepth = 8

// WriteJSON writes the MachineInfo with the PCI devices, the isolation and the caches, such that
// Read returns the same machine. If the machine was read from a file, it writes every field of the
// file, known or not, in the order of the file. Values that fit on a line are written on one line,
// so that a core takes one line and not twenty.
func (f *Found) WriteJSON(w io.Writer) error {
	data := f.recorded
	if data == nil {
		var err error
		if data, err = json.Marshal(recording{f.Info, f.PCI, isolationTextOf(f.Machine.Isolation()), cachesTextOf(f.Machine)}); err != nil {
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

// layOut writes compact JSON in lines, indented by two spaces for each level of depth.
func layOut(out *bytes.Buffer, value json.RawMessage, depth int) error {
	isObject := value[0] == '{'
	if isList := value[0] == '['; !isObject && !isList || 2*depth+len(value) <= lineWidth || depth == maxDepth {
		// The value stays on one line, with a space after each colon and comma. A line feed that
		// json.Indent inserts is never inside a string, where line feeds are escaped.
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
			out.Write(bytes.TrimLeft(value[before:d.InputOffset()], ",")) // The key as spelled in the file.
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
