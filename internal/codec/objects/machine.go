package objects

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/annotation"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Machine returns the object for a machine. Its name is the digest of its description.
func Machine(m *machine.Machine) (*v1alpha1.PaddockMachine, error) {
	text, err := discover.Describe(m)
	if err != nil {
		return nil, err
	}
	var memory int64
	for _, n := range m.Nodes() {
		memory += n.Memory
	}
	return &v1alpha1.PaddockMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PaddockMachine"},
		ObjectMeta: metav1.ObjectMeta{Name: annotation.Digest(text)},
		Spec: v1alpha1.PaddockMachineSpec{
			Description: string(text), Sockets: int32(len(m.Sockets())), NUMANodes: int32(len(m.Nodes())),
			CPUs: int32(len(m.CPUs())), Memory: request.RoundedBytes(memory),
		},
	}, nil
}

// ReadMachine returns the machine of an object. It fails if the description does not match the
// object's name or is unusable. The error names the object.
func ReadMachine(o *v1alpha1.PaddockMachine) (*machine.Machine, error) {
	if digest := annotation.Digest([]byte(o.Spec.Description)); digest != o.Name {
		return nil, fmt.Errorf("PaddockMachine %s: its description has the digest %s: it was changed; delete the object, and the agents create it again", o.Name, digest)
	}
	found, err := discover.Read("PaddockMachine "+o.Name, []byte(o.Spec.Description))
	if err != nil {
		return nil, err
	}
	return found.Machine, nil
}
