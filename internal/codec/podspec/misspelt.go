package podspec

import (
	"bytes"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/core/request"
)

const (
	// ownPrefix is in front of the names of the annotations of Paddock.
	ownPrefix = "paddock-project.github.io/"
	// frequencyKey is the annotation of package node/quiet. The name of a container may follow.
	frequencyKey = "cpu-frequency.paddock-project.github.io"
	// mostMisspelt limits the sentences about one pod, and mostCompared the keys that are compared.
	// longestKey is the length of the longest key that the API server accepts.
	mostMisspelt, mostCompared, longestKey = 5, 100, 253 + 1 + 63
)

// ownNames are the names that follow ownPrefix in annotations of pods. The first ones are for
// users.
func ownNames() []string {
	return []string{"moves", "leave-alone-until", "shared-pool", "shared-pool-cache", "notice", "grant", "predicted-grant"}
}

// Misspelt returns a sentence about each key of an annotation that is probably meant for Paddock
// and has no effect: an unknown name with Paddock's prefix, or a name of Paddock with a similar
// prefix, such as paddock.io/moves. The sentences are in the order of the keys, and five at most.
func Misspelt(keys []string) []string {
	var ours []string
	for _, key := range keys {
		if len(key) <= longestKey && MayBeOurs([]byte(key)) && !isKnown(key) {
			ours = append(ours, key)
		}
	}
	slices.Sort(ours)
	var odd []string
	for _, key := range ours[:min(len(ours), mostCompared)] {
		prefix, name, _ := strings.Cut(key, "/")
		meant := meantBy(prefix, name)
		switch {
		case len(odd) == mostMisspelt:
			return odd
		case meant != "":
			odd = append(odd, "annotation "+key+" has no effect; did you mean "+meant+"?")
		case prefix+"/" == ownPrefix:
			odd = append(odd, "annotation "+key+" has no effect: Paddock does not know it; it knows "+spelling.Or(ownNames()[:5]))
		}
	}
	return odd
}

// isKnown reports whether a key is that of an annotation of Paddock. Others check the value, and
// the name of a container.
func isKnown(key string) bool {
	return slices.Contains(ownNames(), strings.TrimPrefix(key, ownPrefix)) || strings.HasPrefix(key, request.CacheAnnotationPrefix) ||
		key == frequencyKey || strings.HasPrefix(key, frequencyKey+"/")
}

// MayBeOurs reports whether a text can have the key of an annotation that Misspelt is about. It is
// fast, because most pods have none.
func MayBeOurs(text []byte) bool {
	for _, part := range []string{"addock", "padock", "-project.github.io"} {
		if bytes.Contains(text, []byte(part)) {
			return true
		}
	}
	return false
}

// meantBy returns the annotation that a key most likely means, or "".
func meantBy(prefix, name string) string {
	sub, _, _ := strings.Cut(prefix, ".")
	if kind := spelling.Nearest(sub, []string{"cache", "cpu-frequency"}); kind != "" && name != "" {
		return kind + "." + ownPrefix + name
	}
	if near := spelling.Nearest(name, ownNames()); near != "" {
		return ownPrefix + near
	}
	return ""
}
