package podspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	yamlparser "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/base/malformed"
)

// document is one object of a file, as JSON.
type document struct {
	line int // the line where it starts, counted from 1
	json []byte
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// isJSON reports whether the name of a file ends in .json.
func isJSON(name string) bool { return strings.EqualFold(filepath.Ext(name), ".json") }

// split splits a file into documents. A file whose name ends in .json is JSON. Any other file is a
// stream of JSON objects if it can be parsed as one, and YAML otherwise. Empty documents are left
// out. A syntax error names the line of the file. split does not parse documents that the budget
// does not allow.
func split(name string, data []byte, b *budget) ([]document, error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	named := isJSON(name)
	if start := bytes.TrimSpace(data); named || len(start) > 0 && start[0] == '{' {
		docs, err := splitJSON(data)
		for _, d := range docs {
			if err == nil {
				err = b.json(d.json)
			}
		}
		if limit := (*LimitError)(nil); err == nil || named || errors.As(err, &limit) {
			return docs, err
		}
		// Flow style YAML starts with a brace, too. If it is neither, report the JSON error,
		// because the author most likely meant JSON.
		if docs, yamlErr := splitYAML(data, b); yamlErr == nil {
			return docs, nil
		}
		return nil, err
	}
	return splitYAML(data, b)
}

func splitJSON(data []byte) ([]document, error) {
	var docs []document
	dec := json.NewDecoder(bytes.NewReader(data))
	line, counted := 1, 0
	lineAt := func(offset int) int {
		offset = min(offset, len(data))
		line += bytes.Count(data[counted:offset], []byte("\n"))
		counted = offset
		return line
	}
	for {
		var raw json.RawMessage
		before := int(dec.InputOffset())
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax):
			return nil, fmt.Errorf("json: line %d: %w", lineAt(before+int(syntax.Offset)), err)
		case err != nil:
			return nil, fmt.Errorf("json: line %d: %w", lineAt(before), cutOff(err))
		}
		docs = append(docs, document{line: lineAt(int(dec.InputOffset()) - len(raw)), json: raw})
	}
}

// splitYAML splits a stream at the markers "---" and "...", which YAML reserves at the start of a
// line whatever the context.
func splitYAML(data []byte, b *budget) ([]document, error) {
	var docs []document
	start, first, n := 0, 1, 0
	add := func(text []byte) error {
		if isBlank(text) {
			return nil
		}
		raw, err := b.convert(text)
		if limit := (*LimitError)(nil); errors.As(err, &limit) {
			return err
		}
		if err != nil { // Prepending the lines before it makes the error count lines from the start of the file.
			moved := append(bytes.Repeat([]byte("\n"), first-1), text...)
			if _, again := b.convert(moved); again != nil {
				err = again
			}
			return err
		}
		if string(raw) != "null" {
			docs = append(docs, document{line: first, json: raw})
		}
		return nil
	}
	for at := 0; at < len(data); n++ {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if isMarker(data[at:end]) {
			if err := add(data[start:at]); err != nil {
				return nil, err
			}
			start, first = at, n+1
			if data[at] == '.' {
				start, first = end, n+2
			}
		}
		at = end
	}
	if err := add(data[start:]); err != nil {
		return nil, err
	}
	return docs, nil
}

// convert calls toJSON for a document that the budget allows.
func (b *budget) convert(text []byte) ([]byte, error) {
	if err := b.yaml(text); err != nil {
		return nil, err
	}
	return toJSON(text)
}

// toJSON converts one document and rejects any content after its end.
func toJSON(text []byte) ([]byte, error) {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var skipped struct{}
	dec := yamlparser.NewDecoder(bytes.NewReader(text))
	_ = dec.Decode(&skipped) // a document that is not an object gets a better error later
	if err := dec.Decode(&skipped); err == nil {
		return nil, errors.New("yaml: two documents with nothing between them")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return raw, nil
}

func isMarker(line []byte) bool {
	if len(line) < 3 || (string(line[:3]) != "---" && string(line[:3]) != "...") {
		return false
	}
	return len(line) == 3 || strings.ContainsRune(" \t\r\n", rune(line[3]))
}

// isBlank reports whether a document consists only of comments and directives.
func isBlank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if isMarker(line) {
			line = line[3:]
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// cutOff returns err, with advice if the text ends too early.
func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w; collect it again", malformed.ErrCutOff)
	}
	return err
}
