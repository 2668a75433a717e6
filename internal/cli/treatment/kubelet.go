package treatment

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// DefaultVersion is the kubelet that reads single files of which the kubelet is not given.
const DefaultVersion = "1.36"

// Kubelet describes a kubelet by flags.
type Kubelet struct {
	// Version is for example "1.36". If empty, it is DefaultVersion.
	Version string
	// Machine and Config are names of files. If Config is empty, the configuration is not known.
	Machine, Config string
	// SameMachine is set if the machine is that of the files even if it differs from what they
	// have.
	SameMachine bool
}

// Setup reads the machine and the configuration with which the kubelet starts. The notes are about
// what is not known of the machine, and where the configuration comes from.
func (k Kubelet) Setup(r inputs.Reader) (s doctor.Setup, notes []string, err error) {
	minor, err := kubeletstate.ParseMinor(cmp.Or(k.Version, DefaultVersion))
	if err != nil {
		return s, nil, fmt.Errorf("--kubelet %w", err)
	}
	found, err := r.Machine(k.Machine)
	if err != nil {
		return s, nil, err
	}
	policy, more, err := r.KubeletPolicy(k.Config, found.Machine)
	notes = append(notes, found.Notes...)
	if err != nil {
		return s, notes, err
	}
	notes = append(notes, more...)
	s = doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: minor}, Machine: found.Machine, Policy: policy}
	if policy != nil {
		if s.Kubelet.Minor < 36 && policy.PodLevelManagers {
			return s, notes, fmt.Errorf("%s: the feature gate PodLevelResourceManagers is on, which kubelet 1.%d does not know: it does not start with it; remove the gate", k.Config, s.Kubelet.Minor)
		}
		s.Kubelet.PodLevelManagers = policy.PodLevelManagers
	}
	return s, notes, nil
}

// KubeletRejects reports whether an error of Setup means that the kubelet itself would not start
// with the configuration. A configuration that Paddock rejects for a reason of its own may be right
// for the kubelet.
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
