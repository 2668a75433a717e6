package handover

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// DigestSize is the length of the digest of a machine or a policy: SHA-256 in hexadecimal.
const DigestSize = 2 * sha256.Size

// requestSize is the length of the digest of a request. A pod's owner writes the request and gains
// nothing from two with one digest: 128 bits only tell changes apart.
const requestSize = 32

// Digest is the SHA-256 of a text, in hexadecimal.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// PolicyDigest is the digest of a policy in the form of the state file. The quota policy and
// the bound on containers are no part of it: no grant depends on them.
func PolicyDigest(p node.Policy) (string, error) {
	text, err := statefile.EncodePolicy(p)
	if err != nil {
		return "", err
	}
	return Digest(text), nil
}

// RequestDigest is the digest of a pod's identity and of what it asks for itself (request.Ask.Own):
// two pods share it if request.Pod.Equal reports that they are the same. It leaves out what the
// scheduler may not know yet: the devices and claims that others chose. The rules decide whether a
// grant is aligned with those. Its form is that of the state file, because other versions read it.
func RequestDigest(p request.Pod) (string, error) {
	asks := request.Pod{Identity: p.Identity, Ask: p.Own()}
	text, err := statefile.EncodeGrant(&node.Grant{Pod: asks, Containers: make([]node.ContainerGrant, len(asks.Containers))})
	if err != nil {
		return "", err
	}
	return Digest(text)[:requestSize], nil
}
