package agent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// Modes of CPUQuotaConfig.
const (
	// QuotaIsolated removes the CFS quota of every cgroup above exclusive containers, and gives
	// each of their siblings a quota of its own; see node.QuotaPolicy.
	QuotaIsolated = "isolated"
	// QuotaKubelet does what the kubelet does (R-ST-80 to R-ST-83): a pod-level pod keeps its quota
	// unless all of its containers are exclusive.
	QuotaKubelet = "kubelet"
)

// CPUQuotaConfig configures the CFS quotas of pods with exclusive CPUs or with a pool. A change
// applies to pods that are created later. A running pod whose quota was removed gets it back at its
// next start.
type CPUQuotaConfig struct {
	// Mode is QuotaIsolated or QuotaKubelet.
	Mode string `json:"mode"`
	// Ephemeral is the CPU limit of an ephemeral container, which kubectl debug creates, in a pod
	// whose own quota is removed. It is a quantity, e.g. "500m". "0" means no limit. QuotaKubelet
	// does not use it.
	Ephemeral string `json:"ephemeral"`
}

// DefaultCPUQuota returns the default configuration.
func DefaultCPUQuota() CPUQuotaConfig {
	cpus := resource.NewMilliQuantity(quota.DefaultEphemeralMilli, resource.DecimalSI)
	return CPUQuotaConfig{Mode: QuotaIsolated, Ephemeral: cpus.String()}
}

// leastEphemeral is the limit that results in the smallest quota of the kernel, in thousandths of a
// CPU.
var leastEphemeral = quota.Quota(quota.Least).Milli()

// Policy returns the policy that c describes. Its errors name the field.
func (c CPUQuotaConfig) Policy() (node.QuotaPolicy, error) {
	if c.Mode != QuotaIsolated && c.Mode != QuotaKubelet {
		return node.QuotaPolicy{}, fmt.Errorf("cpuQuota.mode: %q is unknown: %s", c.Mode, spelling.Expected(c.Mode, []string{QuotaIsolated, QuotaKubelet}))
	}
	q, err := podspec.ParseQuantity(c.Ephemeral)
	if err != nil {
		return node.QuotaPolicy{}, fmt.Errorf("cpuQuota.ephemeral: %q is not a quantity; expected a number of CPUs, such as 1 or 500m", c.Ephemeral)
	}
	if err := podspec.CheckAmounts(v1.ResourceList{v1.ResourceCPU: q}); err != nil && q.Sign() > 0 { // Otherwise MilliValue would overflow.
		return node.QuotaPolicy{}, fmt.Errorf("cpuQuota.ephemeral: %w", err)
	}
	if milli := q.MilliValue(); q.Sign() < 0 || q.Sign() > 0 && milli < leastEphemeral {
		return node.QuotaPolicy{}, fmt.Errorf("cpuQuota.ephemeral: is %s; expected at least %dm, which is 1 ms in each period of 100 ms, or 0 for no quota", c.Ephemeral, leastEphemeral)
	}
	if c.Mode == QuotaKubelet {
		return node.QuotaPolicy{}, nil
	}
	return node.QuotaPolicy{Isolated: true, EphemeralMilli: q.MilliValue()}, nil
}
