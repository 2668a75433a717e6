package collect

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/rejection"
)

// KeyVariable is the environment variable with the key that hashes names. The script makes a key
// for itself and removes it at its end.
const KeyVariable = "PADDOCK_COLLECT_KEY"

// leastKey is the least length of a key, in bytes. The script's keys have 32 random bytes, as 64
// digits.
const leastKey = 32

// ParseKey returns the key in the value of KeyVariable.
func ParseKey(value string) ([]byte, error) {
	if len(value) < leastKey {
		return nil, fmt.Errorf("--anonymize: the environment variable %s has %d characters: expected a random key of at least %d, the same for all objects of a folder; "+
			"the script that \"paddock collect --print --anonymize\" prints makes one", KeyVariable, len(value), leastKey)
	}
	return []byte(value), nil
}

// names hashes the names of pods, namespaces, claims and nodes. Without a key it keeps them.
type names struct {
	key []byte
	// hashes has the hash of every name that was learned.
	hashes map[string]string
}

func newNames(key []byte) *names { return &names{key: key, hashes: map[string]string{}} }

// hash replaces a name with its hash: ten digits of an HMAC. Equal names have equal hashes, and
// without the key a name cannot be guessed and compared.
func (n *names) hash(name *string) {
	if len(n.key) == 0 || *name == "" {
		return
	}
	if _, known := n.hashes[*name]; !known {
		h := hmac.New(sha256.New, n.key)
		_, _ = h.Write([]byte(*name)) // A hash returns no error.
		n.hashes[*name] = hex.EncodeToString(h.Sum(nil))[:10]
	}
	*name = n.hashes[*name]
}

// word matches what can be a name in a message.
var word = regexp.MustCompile(`[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?`)

// admissionReasons are the reasons of messages that kubelets write when they reject a pod or a
// resize. Their messages are about resources. Messages with other reasons can have anything in
// them.
var admissionReasons = []string{
	string(rejection.TopologyAffinityError), string(rejection.SMTAlignmentError), string(rejection.UnexpectedAdmissionError),
	string(rejection.EmptyPodSharedPoolError), string(rejection.PodLevelResourcesNotSupported),
	string(rejection.Infeasible), string(rejection.Deferred),
}

// rejects reports whether a kubelet rejects a pod with the reason.
func rejects(reason string) bool {
	return slices.Contains(admissionReasons, reason) || strings.HasPrefix(reason, "OutOf")
}

// message replaces the names in a message with their hashes. If the reason is not one of an
// admission, it removes the message.
func (n *names) message(reason string, message *string) {
	switch {
	case len(n.key) == 0:
	case !rejects(reason):
		*message = ""
	default:
		*message = word.ReplaceAllStringFunc(*message, func(text string) string {
			if hash, known := n.hashes[text]; known {
				return hash
			}
			parts := strings.Split(text, ".")
			for i, part := range parts {
				if hash, known := n.hashes[part]; known {
					parts[i] = hash
				}
			}
			return strings.Join(parts, ".")
		})
	}
}

// pod hashes the names of a pod. Its messages are replaced later, by messages, when all names are
// known. UIDs and the names of containers remain, because the kubelet's state files have them as
// keys.
func (n *names) pod(p *pod) {
	if len(n.key) == 0 {
		return
	}
	n.hash(&p.Metadata.Namespace)
	n.hash(&p.Metadata.Name)
	n.hash(&p.Spec.NodeName)
	for i := range p.Metadata.OwnerReferences {
		n.hash(&p.Metadata.OwnerReferences[i].Name)
	}
	for i := range p.Spec.ResourceClaims {
		c := &p.Spec.ResourceClaims[i]
		n.hash(&c.Name)
		n.hash(&c.ResourceClaimName)
		n.hash(&c.ResourceClaimTemplateName)
	}
	for i := range p.Status.ResourceClaimStatuses {
		n.hash(&p.Status.ResourceClaimStatuses[i].Name)
		n.hash(&p.Status.ResourceClaimStatuses[i].ResourceClaimName)
	}
	all := []*resources{p.Spec.Resources, p.Status.Resources}
	for _, list := range [][]container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			all = append(all, c.Resources)
		}
	}
	for _, list := range [][]containerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, s := range list {
			all = append(all, s.Resources)
		}
	}
	for _, r := range all {
		if r == nil {
			continue
		}
		for i := range r.Claims {
			n.hash(&r.Claims[i].Name)
			n.hash(&r.Claims[i].Request)
		}
	}
	delete(p.Metadata.Annotations, handover.Annotation) // It names the node.
}

// messages replaces the names in the messages of a pod.
func (n *names) messages(p *pod) {
	n.message(p.Status.Reason, &p.Status.Message)
	for i := range p.Status.Conditions {
		n.message(p.Status.Conditions[i].Reason, &p.Status.Conditions[i].Message)
	}
}

// node hashes the names of a node, and the labels and taints that an organisation chooses.
func (n *names) node(o *node) {
	n.hash(&o.Metadata.Name)
	for key, value := range o.Metadata.Labels {
		if key != v1.LabelInstanceTypeStable {
			n.hash(&value)
			o.Metadata.Labels[key] = value
		}
	}
	for i := range o.Spec.Taints {
		n.hash(&o.Spec.Taints[i].Value)
	}
}
