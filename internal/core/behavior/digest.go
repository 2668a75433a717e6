package behavior

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Published returns the rules of a kubelet as the agent of a node publishes them: the version, and
// the digest of the rules by which the agent reads the kubelet's files. doubts are sentences about
// what this program does not know of them. If it does not know the version, the rules are those of
// Paddock, and there is a doubt.
func Published(version, digest string) (v Version, rules node.Behavior, doubts []string) {
	v, err := Parse(version)
	if err == nil {
		rules, err = Of(v)
	}
	if err != nil {
		doubts = append(doubts, err.Error())
	}
	if here, err := Digest(rules); err != nil || here != digest {
		doubts = append(doubts, "the agent knows other rules of kubelet "+version+" than this program: update both to one version")
	}
	return v, rules, doubts
}

// Digest returns the digest of the rules by which a kubelet decides. It depends only on the
// fields that are set, so a field that a later version adds for another kubelet does not change it.
func Digest(b node.Behavior) (string, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(set("", fields), "\n")))
	return hex.EncodeToString(sum[:]), nil
}

// set returns the names of the fields that are true, ascending. A field of another type, which
// would be missing in a digest, has its value in its name.
func set(prefix string, fields map[string]any) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name].(type) {
		case map[string]any:
			names = append(names, set(prefix+name+".", value)...)
		case bool:
			if value {
				names = append(names, prefix+name)
			}
		default:
			names = append(names, fmt.Sprintf("%s%s=%v", prefix, name, value))
		}
	}
	return names
}
