package objects

import (
	"slices"
	"strings"

	"github.com/paddock-project/paddock/api/v1alpha1"
)

// Versions are the versions of the objects that this program reads. All have the schema of
// v1alpha1: the following version differs only in its name (internal/testing/apiversions). Programs
// ask an API server for v1alpha1, which it serves for one minor beside the next version. A file
// that kubectl writes, however, is in the version that the API server prefers.
var Versions = []string{v1alpha1.GroupVersion.Version, "v1beta1"}

// Readable reports whether apiVersion is the group of the objects with one of the versions.
func Readable(apiVersion string) bool {
	version, is := strings.CutPrefix(apiVersion, v1alpha1.GroupName+"/")
	return is && slices.Contains(Versions, version)
}
