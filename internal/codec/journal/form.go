package journal

import "time"

// The form of an entry, as the package comment describes it.
type (
	headText struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	journalText struct {
		Admissions []admissionText `json:"admissions"`
		Rejections []rejectionText `json:"rejections"`
	}
	admissionText struct {
		UID      string    `json:"uid"`
		At       time.Time `json:"at"`
		Revision uint64    `json:"revision"`
	}
	rejectionText struct {
		Number    int       `json:"number"`
		First     time.Time `json:"first"`
		Last      time.Time `json:"last"`
		Times     int       `json:"times"`
		Revision  uint64    `json:"revision,omitempty"`
		Pod       podText   `json:"pod"`
		Rejection *whyText  `json:"rejection,omitempty"`
		Earlier   *whyText  `json:"refusal,omitempty"` // the name of the member before 0.1.0
		Error     string    `json:"error,omitempty"`
	}
	podText struct {
		UID            string           `json:"uid"`
		Namespace      string           `json:"namespace"`
		Name           string           `json:"name"`
		QoS            string           `json:"qos"`
		Kind           string           `json:"kind"`
		BudgetCPUs     int              `json:"budgetCPUs,omitempty"`
		BudgetMemory   map[string]int64 `json:"budgetMemory,omitempty"`
		BudgetMilli    int64            `json:"budgetCPUMilli,omitempty"`
		LimitMilli     int64            `json:"cpuLimitMilli,omitempty"`
		SharesIsolated bool             `json:"sharesIsolated,omitempty"`
		PoolCache      *cacheText       `json:"poolCache,omitempty"`
		CacheUnclear   string           `json:"cacheUnclear,omitempty"`
		Estimated      bool             `json:"estimated,omitempty"`
		Priority       int32            `json:"priority,omitempty"`
		Created        int64            `json:"created,omitempty"`
		Stock          []stockText      `json:"stock,omitempty"`
		Unknown        string           `json:"devicesUnknown,omitempty"`
		Containers     []containerText  `json:"containers"`
	}
	// cacheText is what an annotation asks of the caches.
	cacheText struct {
		Ways      int `json:"ways,omitempty"`
		Percent   int `json:"percent,omitempty"`
		Bandwidth int `json:"bandwidth,omitempty"`
	}
	stockText struct {
		Of     string      `json:"of"`
		Places []placeText `json:"places"`
	}
	placeText struct {
		Nodes   []int `json:"numaNodes"`
		Devices int   `json:"devices"`
	}
	containerText struct {
		Name          string           `json:"name"`
		Type          string           `json:"type"` // init, sidecar or app
		CPUs          int              `json:"cpus,omitempty"`
		Shares        string           `json:"shares,omitempty"`
		Memory        map[string]int64 `json:"memory,omitempty"`
		Equivalent    bool             `json:"equivalent,omitempty"`
		HugePages     []string         `json:"hugePages,omitempty"`
		Devices       map[string]int64 `json:"devices,omitempty"`
		Cache         *cacheText       `json:"cache,omitempty"`
		RequestMilli  int64            `json:"cpuRequestMilli,omitempty"`
		LimitMilli    int64            `json:"cpuLimitMilli,omitempty"`
		MemoryRequest map[string]int64 `json:"memoryRequest,omitempty"`
		MemoryLimit   map[string]int64 `json:"memoryLimit,omitempty"`
		Claims        []string         `json:"claims,omitempty"`
		Given         []givenText      `json:"given,omitempty"`
	}
	givenText struct {
		Resource string `json:"resource,omitempty"`
		Claim    string `json:"claim,omitempty"`
		Driver   string `json:"driver,omitempty"`
		Pool     string `json:"pool,omitempty"`
		Name     string `json:"name"`
		Nodes    []int  `json:"numaNodes,omitempty"`
	}
	whyText struct {
		Reason    string        `json:"reason"`
		Rule      string        `json:"rule,omitempty"`
		Container string        `json:"container,omitempty"`
		Resource  string        `json:"resource,omitempty"`
		Wanted    int64         `json:"wanted,omitempty"`
		Detail    string        `json:"detail"`
		Nodes     []accountText `json:"nodes,omitempty"`
		Misfit    *misfitText   `json:"misfit,omitempty"`
	}
	misfitText struct {
		Devices []givenText    `json:"devices"`
		Nodes   []int          `json:"numaNodes"`
		Short   []shortageText `json:"short,omitempty"`
		Final   bool           `json:"final,omitempty"`
	}
	shortageText struct {
		Resource  string `json:"resource"`
		Wanted    int64  `json:"wanted,omitempty"`
		Free      int64  `json:"free,omitempty"`
		Total     int64  `json:"total,omitempty"`
		Preferred int    `json:"preferred,omitempty"`
	}
	accountText struct {
		Node      int          `json:"numaNode"`
		Total     int64        `json:"total,omitempty"`
		Free      int64        `json:"free,omitempty"`
		Unhealthy int64        `json:"unhealthy,omitempty"`
		Holders   []holderText `json:"holders,omitempty"`
	}
	holderText struct {
		Pod    string `json:"pod"`
		Amount int64  `json:"amount,omitempty"`
		Nodes  []int  `json:"numaNodes,omitempty"`
	}
)

// The names of values, indexed by the value. They are part of the form and must not change.
var (
	qosNames    = []string{"BestEffort", "Burstable", "Guaranteed"}
	kindNames   = []string{"plain", "pod-level", "unmanaged"}
	typeNames   = []string{"init", "sidecar", "app"}
	sharesNames = []string{"", "qos", "not-equivalent", "fractional-cpu", "no-cpu-request", "gate-off", "estimated"}
)
