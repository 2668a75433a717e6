// Package shapes reads how often each shape of pod occurs in a fleet. The input is a CSV file with
// a header and one shape per row.
//
// # Columns
//
//	cpu          CPUs as in a manifest: 4, 2500m
//	cpu_milli    thousandths of a CPU
//	memory       memory as in a manifest: 16Gi
//	memory_mib   MiB
//	memory_gib   GiB
//	gpu          whole devices of the resource that Options.GPU names
//	count        number of pods of this shape; 1 if the column is missing
//	max_per_node most pods of this shape that a node may have; no limit if the field is empty
//	name         unique name of the shape; derived from the line if the column is missing
//	-            the column is ignored
//
// If a header has other names, Options.Columns maps them to these. A file has one column for CPUs
// and one for memory.
//
// # Pods
//
// Each row describes a pod with one container whose requests equal its limits. A trace records how
// much a pod requests, but seldom whether it would get exclusive CPUs. With Options.WholeCPUs, CPUs
// are rounded up to whole CPUs, so that every pod qualifies for exclusive CPUs. Without it, a pod
// with a fractional number of CPUs uses shared CPUs.
package shapes

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// Options control how a file is read.
type Options struct {
	// Columns maps names in the header to the column names of the package comment.
	Columns map[string]string
	// GPU is the resource of column gpu. If empty, it is DefaultGPU.
	GPU string
	// WholeCPUs rounds CPUs up to whole CPUs.
	WholeCPUs bool
	// Prefix is prepended to the generated names of shapes: PREFIXline-7.
	Prefix string
	// Skipped is called with a note about unknown columns, which are ignored. It may be nil.
	Skipped func(note string)
}

// Shape is a pod and the number of pods of this shape.
type Shape struct {
	Name  string
	Pod   *v1.Pod
	Count int64
	// MaxPerNode is the maximum number of these pods on a node. 0 means no limit.
	MaxPerNode int64
}

// RowError is the error for a row that cannot be read.
type RowError struct {
	File   string
	Line   int // counted from 1; the header is on line 1 unless lines precede it
	Column string
	Err    error
}

func (e *RowError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s:%d: %s: %v", e.File, e.Line, e.Column, e.Err)
}

// Unwrap returns the error without its location.
func (e *RowError) Unwrap() error { return e.Err }

const (
	// DefaultGPU is the usual value of Options.GPU.
	DefaultGPU = "nvidia.com/gpu"
	ignored    = "-"
	// maxCount is the maximum number of pods for one row. A larger number is most likely a mistake
	// in the file. For more pods of one shape, a file can have several rows.
	maxCount = 1_000_000
)

// columns are the column names that a header may have.
var columns = []string{"cpu", "cpu_milli", "memory", "memory_mib", "memory_gib", "gpu", "count", "max_per_node", "name", ignored}

// together lists groups of columns. A file may have at most one column of each group.
var together = [][]string{{"cpu", "cpu_milli"}, {"memory", "memory_mib", "memory_gib"}}

// Read parses a file. Rows that cannot be parsed are left out and returned as RowErrors, in order.
// The error is about the file as a whole: its header is invalid, or the text is not CSV.
func Read(name string, r io.Reader, o Options) ([]Shape, []*RowError, error) {
	reader := csv.NewReader(r)
	reader.TrimLeadingSpace = true
	reader.Comment = '#'
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("%s is empty: expected a header with columns such as cpu, memory_gib, count", name)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	first, _ := reader.FieldPos(0)
	at, unknown, err := positions(header, o.Columns)
	if near := slices.DeleteFunc(slices.Clone(unknown), func(n string) bool { return meant(n) == "" }); err == nil && len(near) > 0 {
		err = unknownColumns(near) // Most likely it is a mistake, and the column is to count.
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s:%d: %w", name, first, err)
	}
	var out []Shape
	var bad []*RowError
	lines := map[string]int{} // the line of each name
	if len(unknown) > 0 && o.Skipped != nil {
		o.Skipped(fmt.Sprintf("%s:%d: left out: %v", name, first, unknownColumns(unknown)))
	}
	for {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, bad, nil
		}
		if err != nil && !errors.Is(err, csv.ErrFieldCount) {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := reader.FieldPos(0)
		if err != nil {
			bad = append(bad, &RowError{File: name, Line: line, Err: fmt.Errorf("the row has %d fields, the header %d", len(row), len(header))})
			continue
		}
		shape, problem := read(row, at, o)
		if problem != nil {
			problem.File, problem.Line = name, line
			bad = append(bad, problem)
			continue
		}
		if shape.Name == "" {
			shape.Name = fmt.Sprintf("%sline-%d", o.Prefix, line)
		}
		if first, twice := lines[shape.Name]; twice {
			bad = append(bad, &RowError{File: name, Line: line, Column: "name", Err: fmt.Errorf("%q is listed twice, first in line %d: of equal pods write a count", shape.Name, first)})
			continue
		}
		lines[shape.Name] = line
		shape.Pod.Name, shape.Pod.Namespace = shape.Name, "default"
		out = append(out, shape)
	}
}

// known returns the columns that count.
func known() []string {
	return slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return c == ignored })
}

// meant returns the column that a name is perhaps a misspelling of, or "".
func meant(name string) string { return spelling.Nearest(name, known()) }

// unknownColumns returns an error for columns of a header that are not known.
func unknownColumns(names []string) error {
	var quoted []string
	for _, n := range names {
		text := strconv.Quote(n)
		if meant := meant(n); meant != "" {
			text += " (did you mean " + meant + "?)"
		}
		quoted = append(quoted, text)
	}
	what := "column %s is not known"
	if len(names) > 1 {
		what = "columns %s are not known"
	}
	return fmt.Errorf(what+": expected %s; --columns maps other names to these, and to %q what does not count", strings.Join(quoted, ", "), strings.Join(known(), ", "), ignored)
}

// positions maps the names of columns to their positions in a row. It ignores unknown columns and
// returns their names.
func positions(header []string, names map[string]string) (at map[string]int, unknown []string, err error) {
	at = map[string]int{}
	for i, h := range header {
		h = strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))
		column := h
		if mapped, ok := names[h]; ok {
			column = mapped
		}
		if !slices.Contains(columns, column) {
			unknown = append(unknown, h)
			column = ignored
		}
		if _, twice := at[column]; twice && column != ignored {
			return nil, nil, fmt.Errorf("column %s is listed twice", column)
		}
		at[column] = i
	}
	for _, group := range together {
		var have []string
		for _, c := range group {
			if _, ok := at[c]; ok {
				have = append(have, c)
			}
		}
		if len(have) > 1 {
			return nil, nil, fmt.Errorf("columns %s have the same meaning: keep one, and map the others to %q", strings.Join(have, " and "), ignored)
		}
	}
	if len(at) == 0 || len(at) == 1 && has(at, ignored) {
		if len(unknown) > 0 {
			return nil, nil, unknownColumns(unknown)
		}
		return nil, nil, errors.New("no column is read")
	}
	return at, unknown, nil
}

func has(at map[string]int, column string) bool {
	_, ok := at[column]
	return ok
}

// read parses one row.
func read(row []string, at map[string]int, o Options) (Shape, *RowError) {
	r := &reading{row: row, at: at}
	list := v1.ResourceList{}
	cpu := r.quantity("cpu", 1)
	if has(at, "cpu_milli") {
		cpu = *resource.NewMilliQuantity(r.number("cpu_milli", maxAmount), resource.DecimalSI)
	}
	if o.WholeCPUs {
		cpu = *resource.NewQuantity(cpu.Value(), resource.DecimalSI) // Value rounds up.
	}
	memory := r.quantity("memory", 1)
	switch {
	case has(at, "memory_mib"):
		memory = r.quantity("memory_mib", 1<<20)
	case has(at, "memory_gib"):
		memory = r.quantity("memory_gib", 1<<30)
	}
	for name, q := range map[v1.ResourceName]resource.Quantity{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if !q.IsZero() {
			list[name] = q
		}
	}
	if n := r.number("gpu", maxCount); n > 0 {
		list[v1.ResourceName(cmp.Or(o.GPU, DefaultGPU))] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	shape := Shape{Name: r.text("name"), Count: 1}
	if has(at, "count") {
		shape.Count = r.number("count", maxCount)
	}
	shape.MaxPerNode = r.limit("max_per_node")
	if r.problem == nil && len(list) == 0 {
		r.problem = &RowError{Err: errors.New("the row requests nothing")}
	}
	if r.problem != nil {
		return Shape{}, r.problem
	}
	shape.Pod = &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()},
		}}},
	}
	return shape, nil
}

// reading is a row that is being parsed. It keeps the first error.
type reading struct {
	row     []string
	at      map[string]int
	problem *RowError
}

func (r *reading) text(column string) string {
	i, ok := r.at[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(r.row[i])
}

func (r *reading) fail(column string, err error) {
	if r.problem == nil {
		r.problem = &RowError{Column: column, Err: err}
	}
}

// whole parses a whole number. It accepts 2.0, because programs that export a column with empty
// fields write all its numbers with decimals.
func whole(text string) (int64, error) {
	if before, decimals, found := strings.Cut(text, "."); found && decimals != "" && strings.Trim(decimals, "0") == "" {
		text = before
	}
	return strconv.ParseInt(text, 10, 64)
}

// number parses a whole number from 0 to most. It returns 0 if the column is missing or the field
// is empty.
func (r *reading) number(column string, most int64) int64 {
	text := r.text(column)
	if text == "" {
		return 0
	}
	n, err := whole(text)
	if err != nil || n < 0 || n > most {
		r.fail(column, fmt.Errorf("%q is not a whole number from 0 to %d", text, most))
		return 0
	}
	return n
}

// limit parses a whole number from 1 on. It returns 0 if the column is missing or the field is
// empty.
func (r *reading) limit(column string) int64 {
	text := r.text(column)
	if text == "" {
		return 0
	}
	n, err := whole(text)
	if err != nil || n < 1 || n > maxCount {
		r.fail(column, fmt.Errorf("%q is not a whole number from 1 to %d; leave the field empty if there is no limit", text, maxCount))
		return 0
	}
	return n
}

// maxAmount is the maximum amount of CPUs or bytes: 2^53, up to which JSON represents all whole
// numbers exactly. No node has so much.
const maxAmount = 1 << 53

// quantity parses an amount and multiplies it by each, the number of bytes or CPUs per unit.
// Fractions of a byte and of a thousandth of a CPU are rounded up, as in Kubernetes.
func (r *reading) quantity(column string, each int64) resource.Quantity {
	text := r.text(column)
	if text == "" {
		return resource.Quantity{}
	}
	q, err := podspec.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		r.fail(column, fmt.Errorf("%q is not an amount", text))
		return resource.Quantity{}
	}
	amount := q.AsApproximateFloat64() * float64(each)
	switch {
	case amount > maxAmount:
		r.fail(column, fmt.Errorf("%q is more than any node has", text))
		return resource.Quantity{}
	case each > 1:
		return *resource.NewQuantity(int64(math.Ceil(amount)), resource.BinarySI)
	}
	return q
}
