package arch

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// notOnNodes are packages that the program in the container image must not link. The program runs
// on every node, and again for each command in a container. Everything that it links is loaded and
// initialized each time. deploy/image limits its size.
var notOnNodes = []struct{ prefix, why string }{
	{modulePath + "/internal/codec/allocation", "cmd/paddock allocates claims: hand in a claims.Allocator"},
	{"github.com/google/cel-go", "only the allocator of claims evaluates CEL"},
	{"k8s.io/apiserver", "only the allocator of claims needs it"},
	{"k8s.io/dynamic-resource-allocation/structured", "internal/codec/allocation has the allocator"},
	{"k8s.io/dynamic-resource-allocation/cel", "internal/codec/allocation has the allocator"},
	{"k8s.io/kube-openapi/pkg/validation", "it compiles dozens of regular expressions at each start"},
	{"k8s.io/client-go/kubernetes", "its scheme has every API group: make a scheme with the kinds that are decoded, as internal/node/reconcile"},
	{"k8s.io/client-go/informers", "it has the clients of every API group: watch with k8s.io/client-go/tools/cache"},
	{"k8s.io/client-go/applyconfigurations", "it has every API group"},
	{"github.com/spf13/cobra/doc", "cmd/paddock writes the manual pages"},
	{modulePath + "/api/predict", "cmd/paddock has the command predict"},
	{"golang.org/x/image", "internal/ui/slide draws with its fonts: hand in fleetcommand.Pictures"},
	{"github.com/russross/blackfriday", "cmd/paddock writes the manual pages"},
	{modulePath + "/internal/silencer", "cmd/paddock-quiet is the process of paddock quiet"},
}

// notQuiet are packages that cmd/paddock-quiet must not link: it may take 20 MiB of memory, and the
// parts of its program that it uses are most of that.
var notQuiet = []struct{ prefix, why string }{
	{"k8s.io/api", "the types of a pod take 5 MiB: read the fields that are needed"},
	{"k8s.io/client-go", "it takes 10 MiB: internal/silencer has clients of its own"},
	{"github.com/prometheus", "internal/silencer writes its few metrics as text"},
	{"github.com/spf13/cobra", "cmd/paddock has the command with its help and completion"},
	{modulePath + "/internal/cli", "it links what all commands share"},
	{modulePath + "/internal/program/quietcommand", "cmd/paddock has the command; the program has flags"},
}

// TestQuietLinks checks that cmd/paddock-quiet imports none of these packages, and that cmd/paddock
// imports all of them.
func TestQuietLinks(t *testing.T) {
	full := linked(t, "cmd/paddock")
	for _, not := range notQuiet {
		for _, name := range linked(t, "cmd/paddock-quiet") {
			if covers(not.prefix, name) {
				t.Errorf("cmd/paddock-quiet links %s: %s; go list -deps and go mod why show who imports it", name, not.why)
			}
		}
		if !slices.ContainsFunc(full, func(name string) bool { return covers(not.prefix, name) }) {
			t.Errorf("cmd/paddock does not link %s: is the list still right?", not.prefix)
		}
	}
}

// TestAgentLinks checks that the program in the container image imports none of these packages,
// directly or indirectly. It also checks that cmd/paddock imports most of them, so that the list
// has packages that exist.
func TestAgentLinks(t *testing.T) {
	agent, full := linked(t, "cmd/paddock-agent"), linked(t, "cmd/paddock")
	found := 0
	for _, not := range notOnNodes {
		for _, name := range agent {
			if covers(not.prefix, name) {
				t.Errorf("cmd/paddock-agent links %s: %s; go list -deps and go mod why show who imports it", name, not.why)
			}
		}
		for _, name := range full {
			if covers(not.prefix, name) {
				found++
				break
			}
		}
	}
	if found < 6 {
		t.Errorf("cmd/paddock links %d of the packages that the agent does without: is the list still right?", found)
	}
}

// linked returns the packages that a program links.
func linked(t *testing.T, program string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+program)
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list -deps: %v", err)
	}
	return strings.Fields(string(out))
}
