package manifests

import (
	"fmt"
	"regexp"
	"strings"
)

// These are the names of the OCI distribution specification
// (https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests). The host
// is in lower case, although DNS does not require it: two spellings would be two names of one image.
const (
	host      = `(?:localhost|[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+|[a-z0-9](?:[a-z0-9-]*[a-z0-9])?:[0-9]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?`
	component = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
)

var (
	registry  = regexp.MustCompile(`^` + host + `(?:/` + component + `)*$`)
	reference = regexp.MustCompile(`^` + host + `(?:/` + component + `)+@sha256:[0-9a-f]{64}$`)
)

// longestRegistry is how long a registry with its path may be, so that there is room for the name of
// an image in the 255 bytes that registries take.
const longestRegistry = 255 - len("/paddock-scheduler")

// CheckRegistry checks what stands before the names of the images: a registry, with or without a path.
func CheckRegistry(name string) error {
	if len(name) > longestRegistry {
		return fmt.Errorf("REGISTRY has %d bytes: expected at most %d", len(name), longestRegistry)
	}
	if !registry.MatchString(name) {
		return fmt.Errorf("REGISTRY %q: expected a registry, with or without a port and a path, in lower case, such as registry.example:5000/paddock%s", name, hint(name))
	}
	return nil
}

// hint names what is often wrong.
func hint(name string) string {
	switch {
	case strings.Contains(name, "://"):
		return ": leave out " + name[:strings.Index(name, "://")+3]
	case strings.HasSuffix(name, "/"):
		return ": leave out the slash at the end"
	case name != strings.ToLower(name):
		return ": it has upper case letters"
	}
	return ""
}

// CheckReference checks the name of an image of a release, with its digest.
func CheckReference(image string) error {
	if !reference.MatchString(image) {
		return fmt.Errorf("the image %q: expected a registry, a name and a digest, such as registry.example/paddock@sha256:…", image)
	}
	return nil
}
