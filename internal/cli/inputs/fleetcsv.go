package inputs

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/codec/discover"
)

// entryColumns are the columns of a CSV file of nodes that are fields of an entry. The others are
// facts of a machine.
var entryColumns = []string{"name", "count", "kubeletConfig", "price"}

// isTable reports whether a file of nodes is a CSV file.
func isTable(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".csv") }

// decodeTable decodes a CSV file of nodes, one kind a row, whose machine is made of facts. A row
// that cannot be read has an error. Columns that are not known do not count, and the note names
// them.
func decodeTable(name string, data []byte) (all []listed, note string, err error) {
	reader := csv.NewReader(bytes.NewReader(data))
	reader.TrimLeadingSpace, reader.Comment = true, '#'
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("%s: it is empty: expected a header with columns such as name, count, sockets, cores, threads, memory, gpus", name)
	}
	if err != nil {
		return nil, "", notCSV(name, err)
	}
	line, _ := reader.FieldPos(0)
	at, note, err := tableColumns(header)
	if err != nil {
		return nil, "", fmt.Errorf("%s:%d: %w", name, line, err)
	}
	if note != "" {
		note = name + ": " + note
	}
	for {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, note, nil
		}
		if err != nil && !errors.Is(err, csv.ErrFieldCount) {
			return nil, "", notCSV(name, err)
		}
		line, _ := reader.FieldPos(0)
		next := listed{at: fmt.Sprintf("%s:%d", name, line), before: ": "}
		if err != nil {
			next.err = fmt.Errorf("the row has %d fields, the header %d", len(row), len(header))
		} else {
			next.fleetEntry, next.err = tableEntry(func(column string) string {
				if k, has := at[column]; has {
					return strings.TrimSpace(row[k])
				}
				return ""
			})
		}
		if next.Name == "" {
			next.Name = fmt.Sprint("kind-", len(all)+1)
		}
		all = append(all, next)
	}
}

// notCSV returns an error for a file that is no CSV at some line.
func notCSV(name string, err error) error {
	if at, is := errors.AsType[*csv.ParseError](err); is {
		return fmt.Errorf("%s:%d: %w", name, at.StartLine, at.Err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// tableColumns returns the index of each known column of a header. The note names the others.
func tableColumns(header []string) (at map[string]int, note string, err error) {
	known := slices.Concat(entryColumns, discover.FactNames())
	at = map[string]int{}
	var skipped []string
	for i, h := range header {
		h = strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))
		_, twice := at[h]
		switch meant := spelling.Nearest(h, known); {
		case twice:
			return nil, "", fmt.Errorf("column %s is listed twice", h)
		case slices.Contains(known, h):
			at[h] = i
		case meant != "": // Most likely it is a mistake, and the column is to count.
			return nil, "", fmt.Errorf("column %q is not known (did you mean %s?)", h, meant)
		default:
			skipped = append(skipped, strconv.Quote(h))
		}
	}
	if len(skipped) > 0 {
		note = fmt.Sprintf("columns %s are not known and do not count: expected %s", strings.Join(skipped, ", "), strings.Join(known, ", "))
	}
	return at, note, nil
}

// tableEntry returns the entry of a row.
func tableEntry(of func(column string) string) (e fleetEntry, err error) {
	e.Name, e.KubeletConfig = of("name"), of("kubeletConfig")
	if text := of("count"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return e, fmt.Errorf("count: %q: expected a whole number", text)
		}
		e.Count = &n
	}
	if text := of("price"); text != "" {
		price, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return e, fmt.Errorf("price: %q: expected a number", text)
		}
		e.Price = &price
	}
	var facts []string
	for _, name := range discover.FactNames() {
		if value := of(name); value != "" {
			facts = append(facts, name+"="+value)
		}
	}
	if len(facts) == 0 {
		return e, fmt.Errorf("it has no machine: expected columns such as %s", strings.Join(discover.FactNames(), ", "))
	}
	if _, err := discover.FactsOf(of); err != nil { // Here, the error names the column alone.
		return e, err
	}
	e.Make = strings.Join(facts, ",")
	return e, nil
}
