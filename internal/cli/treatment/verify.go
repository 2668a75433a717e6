package treatment

import (
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// Verified is a file with its diagnosis for a kubelet.
type Verified struct {
	Name      string
	Kubelet   kubeletstate.Kubelet
	Diagnosis *doctor.Diagnosis
	// Steps are set for a file with a fault if the next start changes pods even after a repair.
	// They are what to do before that start, in this order.
	Steps []string
}

// Verify diagnoses each file alone and together with the others. If the configuration of the
// kubelet is not known, the gate PodLevelResourceManagers is assumed to be as it was when the file
// was written. pods is nil if the pods are not known. Otherwise, pods that are not in it are
// assumed to be gone.
func Verify(texts []Text, s doctor.Setup, pods inputs.Roster) []Verified {
	known := doctor.Pods{}
	if pods != nil {
		known.Alive, s.Name = pods.Alive, pods.Name
	}
	var verified []Verified
	var diagnoses []*doctor.Diagnosis
	for _, t := range texts {
		if s.Policy == nil && !t.Manager.HasDevices() {
			f, err := kubeletstate.Recognise(t.Data)
			s.Kubelet.PodLevelManagers = s.Kubelet.Minor >= 36 && err == nil && f.Version >= t.Manager.PoolsSince()
		}
		d := doctor.Verify(t.Manager, t.Data, s)
		verified = append(verified, Verified{Name: t.Name, Kubelet: s.Kubelet, Diagnosis: d})
		diagnoses = append(diagnoses, d)
	}
	doctor.Compare(diagnoses, s, known)
	return verified
}

// Answer combines the answers for all files. It is Rejects if the kubelet rejects one of them, else
// StartsWithout if it starts without the content of one, else Unsure if the answer for one is not
// known, and else Starts.
func Answer(all []Verified) doctor.Answer {
	answer := doctor.Starts
	for _, v := range all {
		switch v.Diagnosis.Answer() {
		case doctor.Rejects:
			return doctor.Rejects
		case doctor.StartsWithout:
			answer = doctor.StartsWithout
		case doctor.Unsure:
			if answer == doctor.Starts {
				answer = doctor.Unsure
			}
		case doctor.Starts:
		}
	}
	return answer
}
