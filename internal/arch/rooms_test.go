package arch

import "strings"

// room is a package, or with "/..." a family of packages, and which packages of this
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
	codecs     = []string{"podspec", "discover", "devicefile", "kubeletcfg", "statefile", "kubeletstate", "view"}
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
	{"core/request", nil, adviceCore},
	{"core/layout", []string{"core/request"}, adviceCore},
	{"core/hint", []string{"core/mask", "core/hint/search"}, adviceCore},
	{"core/hint/search", []string{"core/mask"}, adviceCore},
	{"core/cpu", vocabulary, adviceCore},
	{"core/memory", vocabulary, adviceCore},
	{"core/device", vocabulary, adviceCore},
	{"core/node", deciders, adviceCore},
	{"core/converge", append([]string{"core/node"}, deciders...), adviceCore},

	{"bounded", []string{"core/request"}, "it reads bytes; what they mean is the caller's"},
	{"podspec", []string{"core/...", "bounded"}, adviceCodec},
	{"discover", []string{"core/..."}, adviceCodec},
	{"devicefile", []string{"core/..."}, adviceCodec},
	{"kubeletcfg", []string{"core/..."}, adviceCodec},
	{"statefile", []string{"core/..."}, adviceCodec},
	{"journal", []string{"core/..."}, adviceCodec},
	{"kubeletstate", []string{"core/..."}, adviceCodec},
	{"explain", []string{"core/..."}, "it explains values of the core; cmd/paddock and internal/agent hand them in, internal/view prints what comes out"},
	{"view", []string{"core/...", "explain"}, adviceCodec},
	{"doctor", []string{"core/...", "kubeletstate", "statefile"}, "the doctor judges values that cmd/paddock has read; files, flags and pods' manifests stay there"},
	{"scenario", append([]string{"core/..."}, codecs...), "a scenario is played on values; nothing of a running agent is needed for it"},
	{"replay", append([]string{"core/..."}, codecs...), "scenarios are replayed on values; nothing of a running agent is needed for it"},

	{"store", []string{"bounded"}, "the store moves bytes; what they mean is internal/statefile's"},
	{"store/crashfs", []string{"store"}, "it is a file system for tests of the store and of what uses it"},
	{"engine", []string{"core/...", "store", "statefile"}, adviceEngine},
	{"absence", nil, "it judges lists as values; internal/podsource/kubelet brings them"},
	{"podsource", []string{"core/...", "podspec"}, adviceEdge},
	{"podsource/...", []string{"core/...", "bounded", "podspec", "podsource", "absence"}, adviceEdge},
	{"runtime", []string{"core/...", "engine"}, adviceEdge},
	{"runtime/sim/simtest", []string{"core/...", "runtime/sim"}, "it holds histories of the simulated runtime to what a plugin promises; the plugin is handed in by the test"},
	{"runtime/...", []string{"core/...", "engine", "runtime", "absence"}, adviceEdge},
	{"cgroup", []string{"core/...", "bounded"}, adviceEdge},
	{"podres", []string{"core/...", "engine"}, adviceEdge},
	{"access", nil, "it decides by the request alone who may ask; what is served is internal/web's and internal/telemetry's"},
	{"telemetry", []string{"core/...", "engine", "access"}, adviceEdge},
	{"web", []string{"core/...", "engine", "explain", "view", "journal"}, adviceEdge},

	{"agent", []string{"..."}, "agent wires the parts together; commands are above it"},
	{"cmd/paddock", []string{"..."}, "a command parses, calls and prints"},
	{"arch", nil, "nothing is imported here"},
}

// testOnly are packages that only tests may import: they are no part of the product, and "make deadcode" does
// not ask who calls them there.
var testOnly = []string{"scenario", "store/crashfs", "runtime/sim/simtest"}

// library is a module or package from outside, or of the standard library, that has its
// place.
type library struct {
	prefix string
	// only are the rooms that may import it; none: nobody.
	only []string
	why  string
}

var libraries = []library{
	{"github.com/containerd/nri", []string{"runtime/nri", "runtime/sim"}, "internal/runtime/nri is the plugin's side of NRI, internal/runtime/sim the runtime's"},
	{"github.com/prometheus", []string{"telemetry"}, "metrics are computed from snapshots in internal/telemetry"},
	{"k8s.io/kubelet/pkg/apis/podresources", []string{"podres"}, "the PodResources API is internal/podres"},
	{"github.com/google/cadvisor", []string{"discover"}, "internal/discover reads machines and hands out machine.Machine"},
	{"k8s.io/client-go", []string{"podsource", "podsource/...", "agent"}, "pods come from internal/podsource"},
	{"github.com/fsnotify/fsnotify", []string{"podsource/manifests"}, "events only say when to look; internal/podsource/manifests looks"},
	{"github.com/spf13/cobra", []string{"cmd/paddock"}, "the command line is cmd/paddock"},
	{"k8s.io/kubernetes", nil, "Paddock decides by itself; docs/rules says how"},
	{"github.com/stretchr/testify", nil, "compare with go-cmp, and let cases live in files"},
	{"go.uber.org/mock", nil, "hand in a small fake of the interface instead"},
	{"github.com/golang/mock", nil, "hand in a small fake of the interface instead"},
	{"github.com/pkg/errors", nil, "wrap with fmt.Errorf and %w"},
	{"k8s.io/klog", []string{"cmd/paddock", "agent"}, "log/slog, at the edges; what libraries say through klog is led there once, at the start"},
	{"go.uber.org/zap", nil, "log/slog, at the edges"},
	{"log", nil, "log/slog, at the edges"},
	{"log/slog", []string{"engine", "podsource", "podsource/...", "runtime", "runtime/...", "podres", "telemetry", "web", "agent", "cmd/paddock"}, "return an error or put it into the trace; the edges log"},
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

// roomOf finds the row of a directory: the exact one before a family.
func roomOf(dir string) (room, bool) {
	name := strings.TrimPrefix(dir, "internal/")
	var family room
	found := false
	for _, r := range rooms {
		if r.name == name {
			return r, true
		}
		if matches(r.name, name) {
			family, found = r, true
		}
	}
	return family, found
}

// matches says whether pattern, "a/b", "a/..." or "...", covers name. "a/..." covers what is
// below a, not a itself.
func matches(pattern, name string) bool {
	prefix, isFamily := strings.CutSuffix(pattern, "...")
	if !isFamily {
		return pattern == name
	}
	return strings.HasPrefix(name, prefix)
}

// covers says whether the import is prefix or below it.
func covers(prefix, imported string) bool {
	return imported == prefix || strings.HasPrefix(imported, prefix+"/")
}
