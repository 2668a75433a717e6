package annotation

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// DigestSize is the length of the digest of a machine or a policy: SHA-256 in hexadecimal.
const DigestSize = 2 * sha256.Size

// requestSize is the length of the digest of a request: 128 bits in hexadecimal. The digest only
// has to tell changes apart, because the owner of a pod writes the request and gains nothing from
// two requests with one digest.
const requestSize = 32

// Digest returns the SHA-256 of a text in hexadecimal.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// PolicyDigest returns the digest of a policy in the form of the state file. The digest does not
// cover the quota policy and the bound on containers, because no grant depends on them.
func PolicyDigest(p node.Policy) (string, error) {
	text, err := grantform.EncodePolicy(p)
	if err != nil {
		return "", err
	}
	return Digest(text), nil
}

// RequestDigest returns the digest of a pod's identity and of its own request (request.Ask.Own).
// Two pods have the same digest if request.Pod.Equal reports that they are equal. The digest does
// not cover what the scheduler may not know yet: the devices and claims that others chose. The
// rules decide whether a grant is aligned with those. The digest is computed from the form of the
// state file, because other versions compute it too.
func RequestDigest(p request.Pod) (string, error) {
	asks := request.Pod{Identity: p.Identity, Ask: p.Own()}
	if asks.CacheUnclear != "" {
		asks.CacheUnclear = "yes" // The reason is for people, and may have other words in another version.
	}
	text, err := grantform.Encode(&node.Grant{Pod: asks, Containers: make([]node.ContainerGrant, len(asks.Containers))})
	if err != nil {
		return "", err
	}
	return Digest(text)[:requestSize], nil
}
