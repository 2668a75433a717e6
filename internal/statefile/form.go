package statefile

// The members of a file in their order. What is empty, zero or false is left out, except where its
// absence would make a file harder to read.
type (
	fileText struct {
		Format     string      `json:"format"`
		Version    int         `json:"version"`
		Generation uint64      `json:"generation"`
		Machine    machineText `json:"machine"`
		Policy     policyText  `json:"policy"`
		Grants     []podText   `json:"grants"`
		Checksum   string      `json:"checksum"`
	}
	machineText struct {
		CPUs  string     `json:"cpus,omitempty"`
		Nodes []nodeText `json:"nodes"`
	}
	nodeText struct {
		ID     int              `json:"id"`
		CPUs   string           `json:"cpus,omitempty"`
		Memory map[string]int64 `json:"memory,omitempty"`
	}
	policyText struct {
		Topology        string         `json:"topologyManagerPolicy,omitempty"`
		Scope           string         `json:"topologyManagerScope,omitempty"`
		TopologyOptions []string       `json:"topologyManagerPolicyOptions,omitempty"`
		CPU             string         `json:"cpuManagerPolicy,omitempty"`
		CPUOptions      []string       `json:"cpuManagerPolicyOptions,omitempty"`
		ReservedCPUs    string         `json:"reservedCPUs,omitempty"`
		Memory          string         `json:"memoryManagerPolicy,omitempty"`
		ReservedMemory  []reservedText `json:"reservedMemory,omitempty"`
		FeatureGates    []string       `json:"featureGates,omitempty"`
	}
	reservedText struct {
		Node   int              `json:"numaNode"`
		Limits map[string]int64 `json:"limits,omitempty"`
	}
	podText struct {
		UID            string           `json:"uid,omitempty"`
		Namespace      string           `json:"namespace,omitempty"`
		Name           string           `json:"name,omitempty"`
		Sequence       uint64           `json:"sequence"`
		QoS            string           `json:"qos,omitempty"`
		Kind           string           `json:"kind,omitempty"`
		Estimated      bool             `json:"estimated,omitempty"`
		BudgetCPUs     int              `json:"budgetCPUs,omitempty"`
		BudgetCPUMilli int64            `json:"budgetCPUMilli,omitempty"`
		BudgetMemory   map[string]int64 `json:"budgetMemory,omitempty"`
		CPULimit       int64            `json:"cpuLimitMilli,omitempty"`
		Priority       int32            `json:"priority,omitempty"`
		Created        int64            `json:"created,omitempty"`
		Pool           string           `json:"poolCPUs,omitempty"`
		PoolMemory     []blockText      `json:"poolMemory,omitempty"`
		Containers     []containerText  `json:"containers"`
	}
	blockText struct {
		Type  string `json:"type,omitempty"`
		Size  int64  `json:"bytes,omitempty"`
		Nodes []int  `json:"nodes,omitempty"`
	}
	containerText struct {
		Name string    `json:"name,omitempty"`
		Lane string    `json:"lane,omitempty"`
		Asks asksText  `json:"asks"`
		Has  grantText `json:"has"`
	}
	asksText struct {
		CPUs       int              `json:"cpus,omitempty"`
		Sharing    string           `json:"sharing,omitempty"`
		Memory     map[string]int64 `json:"memory,omitempty"`
		HugePages  []string         `json:"hugePages,omitempty"`
		Devices    map[string]int64 `json:"devices,omitempty"`
		Equivalent bool             `json:"equivalent,omitempty"`
		CPURequest int64            `json:"cpuRequestMilli,omitempty"`
		CPULimit   int64            `json:"cpuLimitMilli,omitempty"`
	}
	grantText struct {
		CPUs        string              `json:"cpus,omitempty"`
		Memory      []blockText         `json:"memory,omitempty"`
		MemoryNodes []int               `json:"memoryNodes,omitempty"`
		Devices     map[string][]string `json:"devices,omitempty"`
		Affinity    affinityText        `json:"affinity"`
		Removed     bool                `json:"removed,omitempty"`
	}
	affinityText struct {
		Nodes     []int `json:"nodes,omitempty"`
		HasMask   bool  `json:"hasMask,omitempty"`
		Preferred bool  `json:"preferred,omitempty"`
		Admit     bool  `json:"admit,omitempty"`
	}
)
