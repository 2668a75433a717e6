package arch

import "strings"

// room is a package, or with "/..." a tree of packages, and which packages of this
// module it may import. Names are relative to internal/, but for the command.
type room struct {
	name string
	may  []string
	// right is the advice for somebody who needs more than that.
	right string
}

var (
	values     = []string{"core/mask", "core/cpuset"}
	vocabulary = append([]string{"core/machine", "core/request", "core/layout", "core/hint"}, values...)
	deciders   = append([]string{"core/cpu", "core/memory", "core/device"}, vocabulary...)
	codecs     = []string{"claims", "podspec", "discover", "devicefile", "kubeletcfg", "statefile", "kubeletstate", "view"}
)

const (
	adviceCore   = "inside the core the arrows point one way; what both sides need belongs to the package below both, the combination to core/node"
	adviceCodec  = "codecs and parsers know the core and nothing else; cmd/paddock, internal/replay or internal/agent put them together"
	adviceEdge   = "edges never know each other; declare the small interface that is needed and let internal/agent hand the other one in"
	adviceEngine = "the engine knows core, store and statefile; everything else is an interface that it declares and internal/agent fills"
)

// rooms are the arrows of ARCHITECTURE.md.
var rooms = []room{
	{"core/mask", nil, adviceCore},
	{"core/cpuset", nil, adviceCore},
	{"core/machine", append([]string{"core/request"}, values...), adviceCore},
	{"core/request", []string{"core/mask"}, adviceCore},
	{"core/layout", []string{"core/request"}, adviceCore},
	{"core/hint", []string{"core/mask", "core/hint/search"}, adviceCore},
	{"core/hint/search", []string{"core/mask"}, adviceCore},
	{"core/cpu", vocabulary, adviceCore},
	{"core/memory", vocabulary, adviceCore},
	{"core/device", vocabulary, adviceCore},
	{"core/node", deciders, adviceCore},
	{"core/moves", append([]string{"core/node"}, deciders...), adviceCore},
	{"core/converge", append([]string{"core/node"}, deciders...), adviceCore},

	{"bounded", []string{"core/request"}, "it reads bytes; what they mean is the caller's"},
	{"podspec", []string{"core/...", "bounded"}, adviceCodec},
	{"claims", []string{"core/..."}, adviceCodec},
	{"discover", []string{"core/..."}, adviceCodec},
	{"devicefile", []string{"core/..."}, adviceCodec},
	{"spelling", nil, "it compares names"},
	{"kubeletcfg", []string{"core/...", "spelling"}, adviceCodec},
	{"statefile", []string{"core/..."}, adviceCodec},
	{"journal", []string{"core/..."}, adviceCodec},
	{"kubeletstate", []string{"core/..."}, adviceCodec},
	{"explain", []string{"core/..."}, "it explains values of the core; cmd/paddock and internal/agent hand them in, internal/view prints what comes out"},
	{"quirk", []string{"core/..."}, "it decides as a kubelet does on values of the core; cmd/paddock, internal/explain and internal/replay ask it"},
	{"terminal", nil, "it prints texts; internal/view and the commands know what they mean"},
	{"view", []string{"capacity", "core/...", "explain", "quirk", "terminal"}, adviceCodec},
	{"nodemap", []string{"core/...", "terminal", "view"}, "the map is drawn from a state; internal/web serves it, cmd/paddock prints it"},
	{"doctor", []string{"core/...", "kubeletstate", "statefile"}, "the doctor judges values that cmd/paddock has read; files, flags and pods' manifests stay there"},
	{"inputs", []string{"core/...", "api/v1alpha1", "clusterstate", "objects", "bounded", "capacity", "claims", "fleet", "podspec", "discover", "devicefile", "kubeletcfg", "statefile"}, "it reads files and returns values; what is done with them is the caller's"},
	{"replacement", []string{"store", "statefile"}, "it writes bytes in the place of others; what they mean is the caller's"},
	{"treatment", []string{"core/...", "inputs", "doctor", "kubeletstate", "kubeletcfg", "statefile", "podspec", "replacement"}, "it reads and plans; internal/stateview shows the plan, internal/replacement writes it"},
	{"stateview", []string{"core/...", "inputs", "doctor", "kubeletstate", "statefile", "treatment", "terminal", "view"}, "it shows values; internal/doctor judges and internal/treatment reads"},
	{"fleet", []string{"core/..."}, "a fleet places values of core/node; what nodes and pods are read from is internal/inputs"},
	{"fleet/memo", []string{"core/...", "fleet"}, "it keeps the answers of a fleet's nodes"},
	{"capacity", []string{"core/...", "fleet"}, "it asks a fleet; internal/inputs reads, internal/view prints"},
	{"shapes", []string{"podspec"}, "it reads shapes as pods; internal/inputs makes a question of them"},
	{"api/v1alpha1", nil, "it is what the API server stores; internal/objects translates"},
	{"handover", []string{"core/...", "statefile"}, adviceCodec},
	{"intake", []string{"core/...", "engine", "handover", "objects"}, "it decides about grants that were handed over; internal/runtime/nri brings them, internal/agent the pods"},
	{"promise", []string{"core/..."}, "it keeps the place of a pod for a planner; internal/runtime/nri makes the moves"},
	{"hollow", []string{"core/...", "engine", "fleetsource", "handover", "intake", "publication"}, "it is a node for simulations; what plays its kubelet is the simulation"},
	{"objects/objectstest", nil, "it is an API server for tests; what asks it is handed its address"},
	{"reconcile", nil, "it decides when an object is looked at; what is in it is for internal/publication and internal/zones"},
	{"publication", []string{"api/v1alpha1", "core/...", "engine", "handover", "objects", "reconcile"}, "it writes what it is shown; internal/agent hands the views in"},
	{"zones", []string{"core/...", "engine", "reconcile"}, "it writes what it is shown; internal/agent hands the states in"},
	{"objects", []string{"api/v1alpha1", "core/...", "discover", "handover", "statefile"}, "it translates values; internal/publication writes objects and internal/fleetsource reads them"},
	{"clusterstate/clustertest", []string{"api/v1alpha1", "core/...", "handover", "objects", "podspec"}, "it makes objects for tests"},
	{"clusterstate", []string{"api/v1alpha1", "capacity", "core/...", "fleet", "fleetsource", "handover", "kubeletcfg", "podspec"}, "it keeps what objects show; internal/inputs reads them from files and internal/fleetwatch watches them"},
	{"fleetsource", []string{"api/v1alpha1", "core/...", "handover", "objects", "podspec"}, "it makes states of objects and pods; what is done with them is the scheduler's"},
	{"fleetwatch", []string{"api/v1alpha1", "clusterstate", "core/...", "fleet", "fleetsource", "objects", "podspec"}, "it watches; what is done with the moments is the caller's"},
	{"scenario", append([]string{"core/..."}, codecs...), "a scenario is played on values; nothing of a running agent is needed for it"},
	{"golden/recording", nil, "it reads lines; what is in them is the test's"},
	{"golden", []string{"scenario"}, "it compares texts with files; what is in them is the test's"},
	{"replay", append([]string{"core/...", "quirk"}, codecs...), "scenarios are replayed on values; nothing of a running agent is needed for it"},

	{"store", []string{"bounded"}, "the store moves bytes; what they mean is internal/statefile's"},
	{"store/crashfs", []string{"store"}, "it is a file system for tests of the store and of what uses it"},
	{"engine", []string{"core/...", "store", "statefile"}, adviceEngine},
	{"notice", []string{"core/..."}, "it shows what it is handed; internal/runtime/nri knows what containers have, internal/store writes files"},
	{"absence", nil, "it judges lists as values; internal/podsource/kubelet brings them"},
	{"podsource", []string{"core/...", "podspec"}, adviceEdge},
	{"podsource/...", []string{"core/...", "bounded", "claims", "podspec", "podsource", "absence", "handover"}, adviceEdge},
	{"apiserver", nil, "it reaches the API server; what is asked there is for the packages that internal/agent hands it to"},
	{"runtime", []string{"core/...", "engine"}, adviceEdge},
	{"runtime/sim/simtest", []string{"core/...", "runtime/sim"}, "it holds histories of the simulated runtime to what a plugin promises; the plugin is handed in by the test"},
	{"runtime/...", []string{"core/...", "engine", "runtime", "absence", "handover"}, adviceEdge},
	{"cgroup", []string{"core/...", "bounded"}, adviceEdge},
	{"podres", []string{"core/...", "engine"}, adviceEdge},
	{"access", nil, "it decides by the request alone who may ask; what is served is internal/web's and internal/telemetry's"},
	{"telemetry", []string{"core/...", "engine", "access"}, adviceEdge},
	{"web", []string{"docs/rules", "core/...", "engine", "explain", "terminal", "view", "nodemap", "journal", "webui"}, adviceEdge},
	{"webui", nil, "it is what the pages have in common"},
	{"webui/webuitest", nil, "it is a browser for tests; the page is handed in by its address"},
	{"fleetpage", []string{"core/...", "capacity", "fleet", "nodemap", "view", "webui"}, "it shows a fleet as a value; internal/inputs reads what it is made of, and cmd/paddock serves it"},

	{"livefleet", []string{"capacity", "clusterstate", "core/...", "fleet", "fleetpage", "fleetwatch", "inputs", "podspec", "view"}, "it shows a cluster that changes; internal/fleetwatch watches, internal/fleetpage serves, cmd/paddock puts them together"},

	{"console", []string{"inputs", "terminal"}, "it is what all commands have in common; what one command asks about is its own"},
	{"fleetcommand", []string{"access", "capacity", "clusterstate", "console", "core/...", "discover", "fleet", "fleetpage", "fleetwatch", "inputs", "kubectl", "livefleet", "podspec", "shapes", "telemetry", "view"}, "it is a command of two programs: it parses, calls and prints"},

	{"docs/rules", []string{"spelling"}, "it is the rule book; cmd/paddock prints it"},
	{"kubectl", []string{"bounded"}, "it passes on what agents answer; cmd/paddock says what is asked, internal/agent answers"},
	{"kubectl/kubectltest", nil, "it is an API server for tests; what asks it is handed its address"},
	{"agent", []string{"..."}, "agent wires the parts together; commands are above it"},
	{"cmd/paddock", []string{"..."}, "a command parses, calls and prints"},
	{"arch", nil, "nothing is imported here"},
}

// testOnly are packages that only tests, and each other, may import: they are no part of the
// product, and "make deadcode" does not ask who calls them there.
var testOnly = []string{"golden", "golden/recording", "scenario", "store/crashfs", "runtime/sim/simtest", "kubectl/kubectltest", "webui/webuitest", "objects/objectstest", "clusterstate/clustertest", "hollow"}

// library is a module or package from outside, or of the standard library, that has its
// place.
type library struct {
	prefix string
	// only are the rooms that may import it; none: no package.
	only []string
	why  string
}

var libraries = []library{
	{"github.com/containerd/nri", []string{"runtime/nri", "runtime/sim"}, "internal/runtime/nri is the plugin's side of NRI, internal/runtime/sim the runtime's"},
	{"github.com/prometheus", []string{"telemetry"}, "metrics are computed from snapshots in internal/telemetry"},
	{"k8s.io/kubelet/pkg/apis/podresources", []string{"podres", "podsource/kubeletdevices"}, "internal/podres serves the PodResources API, internal/podsource/kubeletdevices asks the kubelet"},
	{"github.com/google/cadvisor", []string{"discover"}, "internal/discover reads machines and hands out machine.Machine"},
	{"k8s.io/client-go", []string{"podsource", "podsource/...", "apiserver", "agent", "fleetsource", "fleetwatch", "kubectl", "kubectl/...", "objects", "publication", "reconcile", "objects/...", "zones"}, "pods and devices come from internal/podsource; internal/kubectl asks a cluster's agents"},
	{"github.com/fsnotify/fsnotify", []string{"podsource/manifests"}, "events only say when to look; internal/podsource/manifests looks"},
	{"github.com/rivo/uniseg", []string{"terminal"}, "internal/terminal knows how wide text is"},
	{"k8s.io/dynamic-resource-allocation", []string{"claims"}, "internal/claims finds the devices of claims"},
	{"github.com/spf13/cobra", []string{"cmd/paddock", "console", "fleetcommand"}, "the command line is cmd/paddock"},
	{"k8s.io/kubernetes", nil, "Paddock decides by itself; docs/rules says how"},
	{"github.com/stretchr/testify", nil, "compare with go-cmp, and let cases live in files"},
	{"go.uber.org/mock", nil, "hand in a small fake of the interface instead"},
	{"github.com/golang/mock", nil, "hand in a small fake of the interface instead"},
	{"github.com/pkg/errors", nil, "wrap with fmt.Errorf and %w"},
	{"k8s.io/klog", []string{"console", "agent", "inputs"}, "log/slog, at the edges; what libraries say through klog is led there once, at the start"},
	{"go.uber.org/zap", nil, "log/slog, at the edges"},
	{"log", nil, "log/slog, at the edges"},
	{"log/slog", []string{"engine", "hollow", "intake", "notice", "publication", "reconcile", "zones", "podsource", "podsource/...", "runtime", "runtime/...", "podres", "telemetry", "web", "agent", "cmd/paddock", "console", "fleetcommand"}, "return an error or put it into the trace; the edges log"},
}

// impure are the parts of the standard library that the core does without, and where the
// thing belongs.
var impure = []library{
	{"os", nil, "internal/discover reads the machine and internal/store writes files; hand in a value"},
	{"io/fs", nil, "internal/discover and internal/store have the file system; hand in a value"},
	{"net", nil, "sockets are internal/podres, internal/web and internal/runtime"},
	{"time", nil, "a decision does not depend on when it is made; budgets count steps"},
	{"sync", nil, "the core is values; internal/engine is the single writer"},
	{"log", nil, "say it in the trace or the refusal; the edges log"},
	{"context", nil, "the core never waits"},
	{"math/rand", nil, "the same input gives the same answer"},
	{"crypto/rand", nil, "the same input gives the same answer"},
	{"syscall", nil, "the edges talk to the kernel"},
	{"unsafe", nil, "nothing here needs it"},
	{"testing", nil, "only test files test"},
}

// roomOf finds the row of a directory: the exact one before a hint set.
func roomOf(dir string) (room, bool) {
	name := strings.TrimPrefix(dir, "internal/")
	var hintSet room
	found := false
	for _, r := range rooms {
		if r.name == name {
			return r, true
		}
		if matches(r.name, name) {
			hintSet, found = r, true
		}
	}
	return hintSet, found
}

// matches reports whether pattern, "a/b", "a/..." or "...", covers name. "a/..." covers what is
// below a, not a itself.
func matches(pattern, name string) bool {
	prefix, isHintSet := strings.CutSuffix(pattern, "...")
	if !isHintSet {
		return pattern == name
	}
	return strings.HasPrefix(name, prefix)
}

// covers reports whether the import is prefix or below it.
func covers(prefix, imported string) bool {
	return imported == prefix || strings.HasPrefix(imported, prefix+"/")
}
