package view

import (
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
)

// Bytes prints an amount of memory in the largest binary unit that leaves at least 1,
// with one decimal where it is not whole: "256 GiB", "7.6 GiB", "0 B". The decimal is
// rounded, so the text is for reading alone.
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	amount, unit := float64(n), 0
	for amount >= 1024 || amount <= -1024 {
		amount /= 1024
		unit++
	}
	text := strings.TrimSuffix(strconv.FormatFloat(amount, 'f', 1, 64), ".0")
	return text + " " + units[unit]
}

// pageSize is the size of huge pages as resource names have it: "2Mi", "1Gi".
func pageSize(sizeKiB int64) string {
	return machine.HugePageType(sizeKiB)[len("hugepages-"):]
}
