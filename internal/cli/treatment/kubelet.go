package treatment

import (
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// Kubelet is a kubelet as flags describe it.
type Kubelet struct {
	// Version is such as 1.36.
	Version string
	// Machine and Config name files; without Config the configuration is not known.
	Machine, Config string
}

// Setup reads what the kubelet starts with.
func (k Kubelet) Setup(r inputs.Reader) (doctor.Setup, error) {
	var s doctor.Setup
	minor, err := kubeletstate.ParseMinor(k.Version)
	if err != nil {
		return s, fmt.Errorf("--kubelet %w", err)
	}
	found, err := r.Machine(k.Machine)
	if err != nil {
		return s, err
	}
	policy, err := r.KubeletPolicy(k.Config, found.Machine)
	if err != nil {
		return s, err
	}
	s = doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: minor}, Machine: found.Machine, Policy: policy}
	if policy != nil {
		if s.Kubelet.Minor < 36 && policy.PodLevelManagers {
			return s, fmt.Errorf("%s: the feature gate PodLevelResourceManagers is on, which kubelet 1.%d does not know: it does not start with it; remove the gate", k.Config, s.Kubelet.Minor)
		}
		s.Kubelet.PodLevelManagers = policy.PodLevelManagers
	}
	return s, nil
}

// KubeletRejects reports of an error of Setup whether the kubelet itself would not start with the
// configuration. A configuration that also Paddock alone rejects may be right for the kubelet.
func KubeletRejects(err error) bool {
	rejected := (*kubeletcfg.RejectedError)(nil)
	if !errors.As(err, &rejected) {
		return false
	}
	for _, p := range rejected.Problems {
		if p.Kubelet == "" {
			return false
		}
	}
	return true
}
