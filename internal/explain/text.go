package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Text returns the amount for people, such as "48 CPUs", "102 GiB", "4 GiB hugepages-1Gi" or "2
// nvidia.com/gpu".
func (a Amount) Text() string {
	switch {
	case a.Resource == request.CPU && a.Value == 1:
		return "1 CPU"
	case a.Resource == request.CPU:
		return strconv.FormatInt(a.Value, 10) + " CPUs"
	case a.Resource == machine.Memory:
		return request.RoundedBytes(a.Value)
	case request.IsMemory(a.Resource):
		return request.RoundedBytes(a.Value) + " " + a.Resource
	case request.IsCache(a.Resource):
		return request.Words(a.Resource, a.Value)
	}
	return strconv.FormatInt(a.Value, 10) + " " + a.Resource
}

// Quantity returns the exact amount as in a manifest, such as "48" or "104448Mi".
func (a Amount) Quantity() string {
	_, text, _ := strings.Cut(request.Amount(a).String(), "=")
	return text
}

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
