// Package build reports the version of Paddock that a program was built from.
//
// The version has one source: the newest tag of the repository that the commit descends from, as
// the go command derives versions from tags. A commit with the tag v0.1.0 is v0.1.0. A later commit
// has a pseudo-version such as v0.1.1-0.20261128101112-0123456789ab, which sorts after v0.1.0 and
// before v0.1.1.
//
// The go command records this version in programs of the main module that it builds in a clone.
// Programs of other modules of the repository, such as scheduler, have no tags of their own: the
// version that the go command records there, v0.0.0 with a time, sorts before every release, and
// is ignored. Whoever builds these programs sets the version with
//
//	-ldflags "-X github.com/paddock-project/paddock/internal/base/build.version=v0.1.0"
//
// as deploy/image does for all programs, and "make scheduler" for paddock-scheduler. A plain
// "go build" of it gives the version devel.
package build

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// unknown is the version of a program for which the go command recorded none, such as a test.
const unknown = "devel"

// version is the version that the linker set. If it is empty, the go command's applies.
var version string

// mainModule is the module whose versions are those of Paddock.
const mainModule = "github.com/paddock-project/paddock"

// Version returns the version of this program, such as "v0.1.0". It is "devel" if the program was
// built without a version, as tests are.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	return versionOf(version, info, ok)
}

func versionOf(set string, info *debug.BuildInfo, ok bool) string {
	switch {
	case set != "":
		return set
	case ok && info.Main.Path == mainModule && info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return unknown
}

// Revision returns the git commit of this program. It is empty if the program was not built in a
// clone, as with go install …@v0.1.0.
func Revision() string { return setting("vcs.revision") }

// Time returns the time of the commit. It reports false if it is not known.
func Time() (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, setting("vcs.time"))
	return at.UTC(), err == nil
}

// Platform returns the operating system and the architecture of this program, such as
// "linux/amd64".
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// UserAgent returns the User-Agent that a program sends to servers, in the form of Kubernetes' own
// programs: "paddock-agent/v0.1.0 (linux/amd64)".
func UserAgent(program string) string {
	return fmt.Sprintf("%s/%s (%s)", program, Version(), Platform())
}

func setting(key string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
