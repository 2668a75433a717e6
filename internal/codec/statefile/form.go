package statefile

// The members of a file in their order. A member that is empty, zero or false is omitted, unless
// its absence would make a file harder to read.
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
		Moves           *movesText     `json:"moves,omitempty"`
	}
	movesText struct {
		Pods      int   `json:"pods"`
		All       bool  `json:"all,omitempty"`
		Bytes     int64 `json:"bytes,omitempty"`
		AnyKernel bool  `json:"anyKernel,omitempty"`
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
		Resized        uint64           `json:"resized,omitempty"`
		QoS            string           `json:"qos,omitempty"`
		Kind           string           `json:"kind,omitempty"`
		Estimated      bool             `json:"estimated,omitempty"`
		BudgetCPUs     int              `json:"budgetCPUs,omitempty"`
		BudgetCPUMilli int64            `json:"budgetCPUMilli,omitempty"`
		BudgetMemory   map[string]int64 `json:"budgetMemory,omitempty"`
		CPULimit       int64            `json:"cpuLimitMilli,omitempty"`
		Priority       int32            `json:"priority,omitempty"`
		Created        int64            `json:"created,omitempty"`
		Moves          string           `json:"moves,omitempty"`
		Stock          []stockText      `json:"stock,omitempty"`
		DevicesUnknown string           `json:"devicesUnknown,omitempty"`
		ResourceClaims []claimText      `json:"resourceClaims,omitempty"`
		Pool           string           `json:"poolCPUs,omitempty"`
		PoolBaseline   string           `json:"poolBaseline,omitempty"`
		PoolMemory     []blockText      `json:"poolMemory,omitempty"`
		Moving         *movingText      `json:"moving,omitempty"`
		Containers     []containerText  `json:"containers"`
	}
	movingText struct {
		Pool         string      `json:"poolCPUs,omitempty"`
		PoolBaseline string      `json:"poolBaseline,omitempty"`
		PoolMemory   []blockText `json:"poolMemory,omitempty"`
		Containers   []grantText `json:"containers"`
	}
	blockText struct {
		Type  string `json:"type,omitempty"`
		Size  int64  `json:"bytes,omitempty"`
		Nodes []int  `json:"nodes,omitempty"`
	}
	containerText struct {
		Name string    `json:"name,omitempty"`
		Type string    `json:"lane,omitempty"`
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
		Claims     []string         `json:"claims,omitempty"`
		Given      []givenText      `json:"given,omitempty"`
	}
	givenText struct {
		Resource string `json:"resource,omitempty"`
		Claim    string `json:"claim,omitempty"`
		Driver   string `json:"driver,omitempty"`
		Pool     string `json:"pool,omitempty"`
		Name     string `json:"name,omitempty"`
		Nodes    []int  `json:"nodes,omitempty"`
	}
	// A claim without devices has an empty list if that is known, and no list if it is not. The
	// same applies to the requests of a device.
	claimText struct {
		Name    string             `json:"name"`
		Uses    []useText          `json:"uses"`
		Devices *[]claimDeviceText `json:"devices,omitempty"`
	}
	useText struct {
		Container string `json:"container"`
		Request   string `json:"request,omitempty"`
	}
	claimDeviceText struct {
		Driver   string    `json:"driver"`
		Pool     string    `json:"pool"`
		Name     string    `json:"name"`
		Share    string    `json:"share,omitempty"`
		Requests *[]string `json:"requests,omitempty"`
		CDI      []string  `json:"cdi,omitempty"`
	}
	stockText struct {
		Of     string      `json:"of"`
		Places []placeText `json:"places"`
	}
	placeText struct {
		Nodes   []int `json:"nodes"`
		Devices int   `json:"devices"`
	}
	grantText struct {
		CPUs        string              `json:"cpus,omitempty"`
		Baseline    string              `json:"baseline,omitempty"`
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
