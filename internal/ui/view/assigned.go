package view

import (
	"strconv"
	"strings"
)

// Assigned describes briefly what is assigned: the number of CPUs, their ids and the memory.
func Assigned(cpus string, memory []PlanBlock) string {
	var words []string
	if cpus != "" {
		n, _ := strconv.Atoi(cpuCount(cpus))
		words = append(words, Count(n, "CPU")+" "+ShortCPUs(cpus))
	}
	if len(memory) > 0 {
		words = append(words, blocksText(memory))
	}
	if words == nil {
		return "node shared pool"
	}
	return strings.Join(words, ", ")
}

// Assigned describes briefly what is assigned to the container.
func (c PlanContainer) Assigned() string {
	text := Assigned(c.CPUs, c.Memory)
	if cache := SharesText(c.Cache); cache != "" {
		text += ", " + cache
	}
	if c.RunsOn != "" {
		return text + ", offline: runs on " + ShortCPUs(c.RunsOn)
	}
	if c.CPUs != "" && c.Isolation == "pod" {
		return "shares " + text
	}
	return text
}
