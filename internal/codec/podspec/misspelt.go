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
	// mostMisspelt limits the sentences about one pod. longestKey is the length of the longest key
	// that the API server accepts.
	mostMisspelt, longestKey = 5, 253 + 1 + 63
)

// ownNames are the names that follow ownPrefix in annotations of pods.
func ownNames() []string {
	return []string{"moves", "leave-alone-until", "shared-pool", "shared-pool-cache", "notice", "grant", "predicted-grant"}
}

// Misspelt returns a sentence about each key of an annotation that is probably meant for Paddock
// and has no effect: an unknown name with Paddock's prefix, or a name of Paddock with a similar
// prefix, such as paddock.io/moves. The sentences are in the order of the keys, and five at most.
// It sorts the keys.
func Misspelt(keys []string) (odd []string) {
	slices.Sort(keys)
	for _, key := range keys {
		if len(odd) == mostMisspelt || len(key) > longestKey || !MayBeOurs([]byte(key)) {
			continue
		}
		prefix, name, _ := strings.Cut(key, "/")
		own, meant := prefix+"/" == ownPrefix, meantBy(prefix, name)
		switch {
		case meant == key, strings.HasPrefix(key, request.CacheAnnotationPrefix), key == frequencyKey:
		case meant != "":
			odd = append(odd, "annotation "+key+" has no effect; did you mean "+meant+"?")
		case own:
			odd = append(odd, "annotation "+key+" has no effect: Paddock does not know it")
		}
	}
	return odd
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
