package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Text is the amount for reading: "48 CPUs", "102 GiB", "4 GiB hugepages-1Gi", "2 nvidia.com/gpu".
func (a Amount) Text() string {
	switch {
	case a.Resource == request.CPU && a.Value == 1:
		return "1 CPU"
	case a.Resource == request.CPU:
		return strconv.FormatInt(a.Value, 10) + " CPUs"
	case a.Resource == machine.Memory:
		return bytesText(a.Value)
	case isMemory(a.Resource):
		return bytesText(a.Value) + " " + a.Resource
	}
	return strconv.FormatInt(a.Value, 10) + " " + a.Resource
}

// Quantity is the amount as a manifest has it, exact: "48", "104448Mi".
func (a Amount) Quantity() string {
	_, text, _ := strings.Cut(request.Amount(a).String(), "=")
	return text
}

// bytesText has one decimal where the number is not whole.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	value, unit := float64(n), 0
	for value >= 1024 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + units[unit]
}

func isMemory(resource string) bool {
	return resource == machine.Memory || strings.HasPrefix(resource, "hugepages-")
}

// nodesText is "NUMA node 3" or "NUMA nodes 0-1,4".
func nodesText(m mask.Mask) string {
	if m.Len() == 1 {
		return "NUMA node " + listText(m)
	}
	return "NUMA nodes " + listText(m)
}

func listText(m mask.Mask) string { return strings.Trim(m.String(), "{}") }

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
