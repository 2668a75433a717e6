package arch

import (
	"slices"
	"strings"
)

// floor is a layer of the architecture. A package may import packages of its own floor and of the
// floors below. The packages of one floor do not import each other in circles, and neither do
// packages together with the packages inside them.
type floor struct {
	// names are paths below internal/ or below the root of the repository. They include the
	// packages inside.
	names []string
	// what is the advice for a package that needs to import more than that.
	what string
}

// floors are the floors of ARCHITECTURE.md, from the highest to the lowest. The module scheduler is
// on the same level as agent.
var floors = []floor{
	{[]string{"testing"}, "only tests and each other import packages for tests"},
	{[]string{"cmd"}, "nobody imports a command"},
	{[]string{"program"}, "program has the commands; the programs in cmd are above it"},
	{[]string{"agent", "silencer"}, "agent and silencer wire the processes of one node; commands are above them"},
	{[]string{"cli"}, "commands share it; one node's process is internal/agent"},
	{[]string{"ui"}, "it makes documents, tables and pages of values; who reads the values hands them in"},
	{[]string{"cluster"}, "it has many nodes as values, and where they come from; what one node's process does is internal/node's"},
	{[]string{"node"}, "it is one part of a node; internal/agent puts the parts together"},
	{[]string{"kubelet"}, "it knows the kubelet's files and behavior; who decides and who writes is above it"},
	{[]string{"codec"}, "codecs know bytes and values of the core; internal/program, internal/cli or internal/agent put them together"},
	{[]string{"base", "explain", "docs/rules"}, "it is a tool, or explains values of the core; what needs more is above it"},
	{[]string{"predict"}, "other programs import it: it is made of the core and the published objects alone"},
	{[]string{"core", "api"}, "the core decides on values; a codec translates, and the engine keeps them"},
}

// edges must never import each other.
var edges = []string{"node/runtime/nri", "node/runtime/sim", "node/podres", "node/telemetry", "ui/web"}

const adviceEdge = "edges never know each other; declare the small interface that is needed and let internal/agent hand the other one in"

// pure are packages above the core that are values, like the core. They import the core and each
// other. They may use the types of
// package time, but no clocks and timers.
var pure = []string{"node/control", "node/noise", "node/quiet", "node/resctrl"}

const adviceValue = "hand in what it must know as a value: internal/node/runtime/nri is the edge of internal/node/control, internal/node/kernelfiles that of internal/node/noise, internal/node/kernelsettings that of internal/node/quiet"

// modules are the floors that are modules of their own. They require no other module of this
// repository: who links one of them requires what it requires, for its tests too.
var modules = []string{"core", "api", "predict"}

const adviceModule = "it is in a module of its own, which requires as little as possible: a test that needs more is in internal/testing/core"

// coreTests are the libraries that tests of the core may import.
var coreTests = []string{"pgregory.net/rapid", "github.com/cockroachdb/datadriven"}

// room is a package of the core and the packages of this module that it may import.
type room struct {
	name string
	may  []string
}

var (
	values     = []string{"core/mask", "core/cpuset"}
	vocabulary = append([]string{"core/machine", "core/request", "core/layout", "core/hint"}, values...)
	deciders   = append([]string{"core/cpu", "core/memory", "core/device", "core/cache"}, vocabulary...)
)

const adviceCore = "inside the core the arrows point one way; what both sides need belongs to the package below both, the combination to core/node"

var rooms = []room{
	{"core/mask", nil},
	{"core/cpuset", nil},
	{"core/machine", append([]string{"core/request"}, values...)},
	{"core/request", []string{"core/mask"}},
	{"core/layout", []string{"core/request"}},
	{"core/hint", []string{"core/mask", "core/hint/search"}},
	{"core/hint/search", []string{"core/mask"}},
	{"core/cpu", vocabulary},
	{"core/memory", vocabulary},
	{"core/device", vocabulary},
	{"core/cache", vocabulary},
	{"core/account", deciders},
	{"core/rejection", []string{"core/account", "core/mask", "core/request"}},
	{"core/node", slices.Concat(deciders, []string{"core/account", "core/rejection"})},
	{"core/moves", append([]string{"core/node", "core/rejection"}, deciders...)},
	{"core/quota", []string{"core/node", "core/request"}},
	{"core/spec", []string{"core/request", "core/device", "core/mask"}},
	{"core/behavior", []string{"core/node"}},
	{"core/form", append([]string{"core/cache", "core/device"}, vocabulary...)},
	{"core/grantform", append([]string{"core/form", "core/node"}, deciders...)},
	{"core/annotation", append([]string{"core/form", "core/grantform", "core/node"}, deciders...)},
	{"core/shown", append([]string{"core/annotation", "core/node"}, deciders...)},
	{"core/converge", append([]string{"core/node", "core/quota"}, deciders...)},
}

// library is a package or module from outside of this module, or of the standard library, whose use
// is restricted to certain packages.
type library struct {
	prefix string
	// only are the rooms that may import it. Empty means that no package may.
	only []string
	why  string
}

var libraries = []library{
	{"github.com/containerd/nri", []string{"node/runtime/nri", "node/runtime/sim", "node/runtime/registration"}, "internal/node/runtime/nri is the plugin's side of NRI, internal/node/runtime/sim the runtime's"},
	{"github.com/prometheus", []string{"node/telemetry"}, "metrics are computed from snapshots in internal/node/telemetry"},
	{"k8s.io/kubelet/pkg/apis/podresources", []string{"node/podres", "node/podsource/kubeletdevices"}, "internal/node/podres serves the PodResources API, internal/node/podsource/kubeletdevices asks the kubelet"},
	{"k8s.io/kubelet/pkg/apis/pods", []string{"node/podsource/kubeletpods", "testing/podsapitest"}, "internal/node/podsource/kubeletpods watches the kubelet's pods"},
	{"github.com/google/cadvisor", []string{"codec/discover"}, "internal/codec/discover reads machines and hands out machine.Machine"},
	{"k8s.io/client-go", []string{"node/podsource", "node/podsource/...", "node/apiserver", "agent", "cluster/fleetsource", "cluster/fleetwatch", "cli/kubectl", "testing/kubectltest", "codec/objects", "node/publication", "node/reconcile", "testing/objectstest", "node/zones"}, "pods and devices come from internal/node/podsource; internal/cli/kubectl asks a cluster's agents"},
	{"github.com/fsnotify/fsnotify", []string{"node/podsource/manifests"}, "events only say when to look; internal/node/podsource/manifests looks"},
	{"github.com/rivo/uniseg", []string{"base/terminal"}, "internal/base/terminal knows how wide text is"},
	{"k8s.io/dynamic-resource-allocation", []string{"codec/claims", "codec/allocation"}, "internal/codec/claims finds the devices of claims"},
	{"k8s.io/dynamic-resource-allocation/structured", []string{"codec/allocation"}, "internal/codec/allocation allocates claims; what imports it links CEL"},
	{"k8s.io/dynamic-resource-allocation/cel", []string{"codec/allocation"}, "internal/codec/allocation allocates claims; what imports it links CEL"},
	{"github.com/spf13/cobra", []string{"cmd/paddock", "program", "cli/console", "cli/fleetcommand", "program/quietcommand", "program/predictcommand"}, "the command line is internal/program"},
	{"k8s.io/kubernetes", nil, "Paddock decides by itself; docs/rules says how"},
	{"github.com/stretchr/testify", nil, "compare with go-cmp, and let cases live in files"},
	{"go.uber.org/mock", nil, "hand in a small fake of the interface instead"},
	{"github.com/golang/mock", nil, "hand in a small fake of the interface instead"},
	{"github.com/pkg/errors", nil, "wrap with fmt.Errorf and %w"},
	{"k8s.io/klog", []string{"cli/console", "agent", "cli/inputs"}, "log/slog, at the edges; what libraries say through klog is led there once, at the start"},
	{"go.uber.org/zap", nil, "log/slog, at the edges"},
	{"log", nil, "log/slog, at the edges"},
	{"log/slog", []string{"node/engine", "testing/hollow", "node/intake", "node/notice", "node/publication", "node/reconcile", "node/zones", "node/podsource", "node/podsource/...", "node/runtime", "node/runtime/...", "node/podres", "node/telemetry", "ui/web", "agent", "silencer", "cmd/paddock-quiet", "program", "program/quietcommand", "cli/console", "cli/fleetcommand"}, "return an error or put it into the trace; the edges log"},
}

// impure are the parts of the standard library that the core must not use, and where such code
// belongs.
var impure = []library{
	{"os", nil, "internal/codec/discover reads the machine and internal/node/store writes files; hand in a value"},
	{"io/fs", nil, "internal/codec/discover and internal/node/store have the file system; hand in a value"},
	{"net", nil, "sockets are internal/node/podres, internal/ui/web and internal/node/runtime"},
	{"time", nil, "a decision does not depend on when it is made; budgets count steps"},
	{"sync", nil, "the core is values; internal/node/engine is the single writer"},
	{"log", nil, "say it in the trace or the refusal; the edges log"},
	{"context", nil, "the core never waits"},
	{"math/rand", nil, "the same input gives the same answer"},
	{"crypto/rand", nil, "the same input gives the same answer"},
	{"syscall", nil, "the edges talk to the kernel"},
	{"unsafe", nil, "nothing here needs it"},
	{"testing", nil, "only test files test"},
}

// floorOf returns the index of the floor of a package, where 0 is the highest, or -1 if it is on no
// floor. Names are relative to internal/ or to the root of the repository.
func floorOf(name string) int {
	for i, f := range floors {
		for _, n := range f.names {
			if covers(n, name) {
				return i
			}
		}
	}
	return -1
}

// within returns the name in the list that equals name or contains it, or "" if there is none.
func within(list []string, name string) string {
	for _, n := range list {
		if covers(n, name) {
			return n
		}
	}
	return ""
}

// matches reports whether pattern ("a/b", "a/..." or "...") covers name. "a/..." covers packages
// below a, but not a itself.
func matches(pattern, name string) bool {
	prefix, tree := strings.CutSuffix(pattern, "...")
	if !tree {
		return pattern == name
	}
	return strings.HasPrefix(name, prefix)
}

// covers reports whether the import path is prefix or below it.
func covers(prefix, imported string) bool {
	return imported == prefix || strings.HasPrefix(imported, prefix+"/")
}
