package inputs

import (
	"bytes"
	"encoding/csv"
	"fmt"
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

// decodeTable decodes a CSV file of nodes, one kind a row, whose machine is made of facts. Columns
// that are not known do not count, and the note names them.
func decodeTable(data []byte) (file fleetFile, note string, err error) {
	reader := csv.NewReader(bytes.NewReader(data))
	reader.TrimLeadingSpace, reader.Comment = true, '#'
	rows, err := reader.ReadAll()
	if err != nil {
		return file, "", err
	}
	if len(rows) == 0 {
		return file, "", fmt.Errorf("it is empty: expected a header with columns such as name, count, sockets, cores, threads, memory, gpus")
	}
	known := slices.Concat(entryColumns, discover.FactNames())
	at := map[string]int{}
	var skipped []string
	for i, h := range rows[0] {
		h = strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))
		_, twice := at[h]
		switch meant := spelling.Nearest(h, known); {
		case twice:
			return file, "", fmt.Errorf("column %s is listed twice", h)
		case slices.Contains(known, h):
			at[h] = i
		case meant != "": // Most likely it is a mistake, and the column is to count.
			return file, "", fmt.Errorf("column %q is not known (did you mean %s?)", h, meant)
		default:
			skipped = append(skipped, strconv.Quote(h))
		}
	}
	if len(skipped) > 0 {
		note = fmt.Sprintf("columns %s are not known and do not count: expected %s", strings.Join(skipped, ", "), strings.Join(known, ", "))
	}
	for i, row := range rows[1:] {
		entry, err := tableEntry(func(column string) string {
			if k, has := at[column]; has {
				return strings.TrimSpace(row[k])
			}
			return ""
		})
		if err != nil {
			return file, "", fmt.Errorf("row %d: %w", i+1, err)
		}
		if entry.Name == "" {
			entry.Name = fmt.Sprint("kind-", i+1)
		}
		file.Nodes = append(file.Nodes, entry)
	}
	return file, note, nil
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
	e.Make = strings.Join(facts, ",")
	return e, nil
}
