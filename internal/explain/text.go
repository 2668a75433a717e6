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

// Instead returns the change as in a sentence: "10 CPUs instead of 14", "83Gi of memory instead of
// 90Gi". If a request of at least 10Gi is lowered to an amount in MiB, that amount follows in GiB
// as well, rounded down to a tenth: "10443Mi (10.1Gi) of memory instead of 46Gi". The first is
// exact, and the second compares with the request.
func (c *Change) Instead() string {
	to, from := Amount{c.Resource, c.To}, Amount{c.Resource, c.From}
	text := request.Words(c.Resource, c.To)
	const gibi = 1 << 30
	if request.IsMemory(c.Resource) && c.From >= 10*gibi && c.From%gibi == 0 && c.To%gibi != 0 && c.To >= gibi/10 {
		tenths := strconv.FormatFloat(float64(c.To*10/gibi)/10, 'f', -1, 64)
		text = fmt.Sprintf("%s (%sGi) of %s", to.Quantity(), tenths, c.Resource)
	}
	return text + " instead of " + from.Quantity()
}

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
