package resctrl

import (
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
)

// prefix begins the name of every group of Paddock.
const prefix = "paddock-"

// PoolName returns the name of the group of a pod's pool.
func PoolName(uid string) string { return prefix + uid }

// ContainerName returns the name of the group of a container. The names of containers have no dots.
func ContainerName(uid, container string) string { return prefix + uid + "." + container }

// GroupOf returns the name of the group of container i, or "" for the default class.
func GroupOf(g *node.Grant, i int) string {
	switch class, pool := g.ClassOf(i); {
	case len(class) == 0:
		return ""
	case pool:
		return PoolName(g.Pod.UID)
	}
	return ContainerName(g.Pod.UID, g.Pod.Containers[i].Name)
}

// longestName is the length of the longest name of a directory (NAME_MAX).
const longestName = 255

// IsOurs reports whether a group belongs to Paddock, by its name.
func IsOurs(name string) bool {
	uid, is := strings.CutPrefix(name, prefix)
	uid, container, one := strings.Cut(uid, ".")
	return is && isWord(uid) && (!one || isWord(container)) && len(name) <= longestName
}

// isWord reports whether a word can be the UID of a pod or the name of a container.
func isWord(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	})
}
