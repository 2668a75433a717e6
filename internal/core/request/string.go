package request

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// String returns the list in one line, bytes in the largest unit that is exact: "hugepages-2Mi=4Mi
// memory=1Gi", or "none".
func (a Amounts) String() string {
	if len(a) == 0 {
		return "none"
	}
	parts := make([]string, len(a))
	for i, x := range a {
		parts[i] = x.String()
	}
	return strings.Join(parts, " ")
}

// String returns the amount with its name: "memory=1Gi", "cpu=3".
func (a Amount) String() string {
	if IsMemory(a.Resource) {
		return a.Resource + "=" + Bytes(a.Value)
	}
	return a.Resource + "=" + strconv.FormatInt(a.Value, 10)
}

// Bytes returns n bytes as in a manifest, in the largest unit that is exact: "1536Mi".
func Bytes[N int64 | uint64](n N) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	unit := 0
	for n != 0 && n%1024 == 0 {
		n, unit = n/1024, unit+1
	}
	return fmt.Sprint(n) + units[unit]
}

// RoundedQuantity returns n bytes so that they can be compared with what a manifest asks for,
// rounded down to Mi and, from 10Gi on, to a tenth of 1 Gi. It is for people only.
func RoundedQuantity(n int64) string {
	const mebi, gibi = 1 << 20, 1 << 30
	if n < 10*gibi {
		return Bytes(n / mebi * mebi)
	}
	return strings.TrimSuffix(strconv.FormatFloat(float64(n/(gibi/10))/10, 'f', 1, 64), ".0") + "Gi"
}

// RoundedBytes returns n bytes in the largest unit in which the number is at least 1, with one
// decimal if it is not whole: "256 GiB", "7.6 GiB", "0 B". Below 10 TiB, GiB remain if a tenth of
// 1 TiB would hide some: "1025 GiB". It is for people only.
func RoundedBytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	amount, unit := float64(n), 0
	for amount >= 1024 || amount <= -1024 {
		if tebi := amount / 1024; units[unit] == "GiB" && math.Abs(tebi) < 10 && tebi*10 != math.Trunc(tebi*10) {
			break
		}
		amount, unit = amount/1024, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(amount, 'f', 1, 64), ".0") + " " + units[unit]
}

// String returns the container in one line. "cpu 1500m/2000m" are request and limit. Its exclusive
// CPUs and pinned memory come before them, and the reason why it has none comes last.
func (c Container) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: cpus=%d, pinned %s, cpu %dm/%dm", c.Type, c.Name, c.CPUs, c.Memory, c.CPURequest, c.CPULimit)
	if c.Equivalent {
		b.WriteString(", equivalent")
	}
	if len(c.HugePages) > 0 {
		b.WriteString(", uses " + strings.Join(c.HugePages, " "))
	}
	if len(c.Devices) > 0 {
		b.WriteString(", devices " + c.Devices.String())
	}
	if !c.Cache.IsZero() {
		b.WriteString(", cache " + c.Cache.String())
	}
	if len(c.Claims) > 0 {
		b.WriteString(", claims " + strings.Join(c.Claims, " "))
	}
	for _, g := range c.Given {
		b.WriteString(", given " + g.String())
	}
	if c.Sharing != NotShared {
		b.WriteString(", shares: " + c.Sharing.String())
		if rule := c.Sharing.Rule(); rule != "" {
			b.WriteString(" (" + rule + ")")
		}
	}
	return b.String()
}

// String returns the pod in one line. Its containers come last, each after a semicolon.
func (p Pod) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s) %s %s: budget cpus=%d %s, cpu %dm/%dm",
		p.ID(), p.UID, p.QoS, p.Kind, p.BudgetCPUs, p.BudgetMemory, p.BudgetCPUMilli, p.CPULimit)
	if p.SharesIsolated {
		b.WriteString(", shares isolated CPUs")
	}
	if !p.PoolCache.IsZero() {
		b.WriteString(", cache of the shared pool " + p.PoolCache.String())
	}
	if p.CacheUnclear != "" {
		b.WriteString(", cache unclear: " + p.CacheUnclear)
	}
	if p.Estimated {
		b.WriteString(", estimated")
	}
	if p.DevicesUnknown != "" {
		b.WriteString(", devices unknown: " + p.DevicesUnknown)
	}
	for _, c := range p.Containers {
		b.WriteString("; " + c.String())
	}
	return b.String()
}

// Words returns an amount of a resource as in a sentence: "1 CPU", "8 CPUs", "16Gi of memory",
// "4 ways of L3", "20% of the memory bandwidth", "2 example.com/gpu".
func Words(resource Resource, amount int64) string {
	switch {
	case resource == CPU && amount == 1:
		return "1 CPU"
	case resource == CPU:
		return fmt.Sprintf("%d CPUs", amount)
	case resource == L3 && amount == 1:
		return "1 way of L3"
	case resource == L3:
		return fmt.Sprintf("%d ways of L3", amount)
	case resource == Bandwidth:
		return fmt.Sprintf("%d%% of the memory bandwidth", amount)
	case !IsMemory(resource):
		return fmt.Sprintf("%d %s", amount, resource)
	}
	return fmt.Sprintf("%s of %s", Bytes(amount), resource)
}
