package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/cgroup"
	"github.com/paddock-project/paddock/internal/podres"
	"github.com/paddock-project/paddock/internal/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/telemetry"
)

// Runtimes that the agent can drive: the simulated one, and one that asks through NRI, containerd or
// CRI-O.
const (
	RuntimeSim = "sim"
	RuntimeNRI = "nri"
)

// Config is what the agent is told about its place: the YAML file of --config. How it decides is
// not here but in the KubeletConfiguration that it names.
type Config struct {
	// Machine is "live", or a recorded MachineInfo.
	Machine string `json:"machine"`
	// KubeletConfig is a KubeletConfiguration; empty: a usual policy.
	KubeletConfig string `json:"kubeletConfig"`
	// Devices is an inventory of devices; empty: none.
	Devices string `json:"devices"`
	// State is the file that holds the assignments, in a directory of its own: the agent locks both.
	State string `json:"state"`
	// Strict refuses to start when anything in the state does not hold any more.
	Strict bool `json:"strict"`
	// Pods are files and directories of manifests, for the simulated runtime.
	Pods    []string `json:"pods"`
	Runtime string   `json:"runtime"`
	// NRI and Kubelet are the runtime and where its pods are listed, for the runtime nri.
	NRI     NRIConfig     `json:"nri"`
	Kubelet KubeletConfig `json:"kubelet"`
	// Estimate reads what a pod asks for from the numbers of its cgroup where the kubelet does not list it
	// or cannot be asked, for the runtime nri; otherwise such a pod waits until it is listed.
	Estimate bool `json:"estimate"`
	// CPUQuota says whose CFS quotas apply beside exclusive containers.
	CPUQuota CPUQuotaConfig `json:"cpuQuota"`
	// ReleaseOnExit hands every container back to all CPUs when the agent ends, and drops all assignments: for
	// an end for good, not for an update of the agent.
	ReleaseOnExit bool `json:"releaseOnExit"`
	// CgroupRoot is where the cgroups are mounted.
	CgroupRoot string `json:"cgroupRoot"`
	// Listen is the address for metrics and health, "host:port"; empty: none.
	Listen string `json:"listen"`
	// Map is who may see the live map on Listen: MapLoopback, or MapEverywhere.
	Map string `json:"map"`
	// Profile serves /debug/pprof on Listen.
	Profile      bool               `json:"profile"`
	PodResources PodResourcesConfig `json:"podResources"`
	Log          LogConfig          `json:"log"`
}

// PodResourcesConfig is the PodResources API.
type PodResourcesConfig struct {
	// Socket is its unix socket; empty: none.
	Socket string `json:"socket"`
	// CallsPerSecond and Burst are the token bucket that all clients share.
	CallsPerSecond float64 `json:"callsPerSecond"`
	Burst          int     `json:"burst"`
}

// NRIConfig is the container runtime.
type NRIConfig struct {
	// Socket is the runtime's unix socket for plugins.
	Socket string `json:"socket"`
	// PluginName and PluginIndex, two digits, are what the plugin is called; the index orders plugins.
	PluginName  string `json:"pluginName"`
	PluginIndex string `json:"pluginIndex"`
	// Timeout bounds an answer. A runtime goes on without a plugin that takes longer than its
	// plugin_request_timeout, so this is half of that at most.
	Timeout Duration `json:"timeout"`
	// TakeOver manages containers that run on CPUs of which an empty state knows nothing, instead of standing
	// aside: after a lost state. They can move while they run.
	TakeOver bool `json:"takeOver"`
}

// The map names pods. Those who are on the node may see it, or everybody who reaches the address.
const (
	MapLoopback   = "loopback"
	MapEverywhere = "everywhere"
)

// KubeletConfig is the kubelet's list of pods; see kubelet.Address. A URL of http, which is the kubelet's read-only
// port, is taken and warned of: any process that takes the port first can answer there.
type KubeletConfig struct {
	URL       string `json:"url"`
	TokenFile string `json:"tokenFile"`
	CertFile  string `json:"certFile"`
	KeyFile   string `json:"keyFile"`
	CAFile    string `json:"caFile"`
	Insecure  bool   `json:"insecure"`
}

func (c KubeletConfig) address() kubelet.Address {
	return kubelet.Address{URL: c.URL, TokenFile: c.TokenFile, CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: c.CAFile, Insecure: c.Insecure}
}

// Duration is a time.Duration that is written "1.5s".
type Duration time.Duration

// MarshalText and UnmarshalText make it readable.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// LogConfig is how to log: telemetry.Formats and telemetry.Levels.
type LogConfig struct {
	Format string `json:"format"`
	Level  string `json:"level"`
}

// ErrConfig is wrapped by the errors about the configuration.
var ErrConfig = errors.New("configuration of the agent is not usable")

// DefaultConfig is what holds where nothing is said.
func DefaultConfig() Config {
	return Config{
		Machine: "live", State: "/var/lib/paddock/state.json", Runtime: RuntimeSim, Listen: "127.0.0.1:9925", Map: MapLoopback,
		PodResources: PodResourcesConfig{
			Socket: podres.DefaultSocket, CallsPerSecond: podres.DefaultLimit.PerSecond, Burst: podres.DefaultLimit.Burst,
		},
		NRI:     NRIConfig{Socket: "/var/run/nri/nri.sock", PluginName: "paddock", PluginIndex: "90", Timeout: Duration(800 * time.Millisecond)},
		Kubelet: KubeletConfig{URL: "https://127.0.0.1:10250"}, CPUQuota: DefaultCPUQuota(), CgroupRoot: cgroup.DefaultRoot,
		Log: LogConfig{Format: telemetry.Formats[0], Level: "info"},
	}
}

// ReadConfig reads a file over the defaults. Unknown fields are errors.
func ReadConfig(name string, data []byte) (Config, error) {
	c := DefaultConfig()
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return Config{}, fmt.Errorf("%s: %w: %w", name, ErrConfig, err)
	}
	return c, nil
}

// Check names the fields that are wrong, all of them.
func (c Config) Check() error {
	var problems []string
	want := func(ok bool, field, format string, args ...any) {
		if !ok {
			problems = append(problems, field+": "+fmt.Sprintf(format, args...))
		}
	}
	want(c.Machine != "", "machine", `want "live" or the name of a file`)
	want(c.Map == MapLoopback || c.Map == MapEverywhere, "map", "%q is unknown; want loopback or everywhere", c.Map)
	want(c.State != "", "state", "want the name of a file, which is made if it is not there")
	want(c.Runtime == RuntimeSim || c.Runtime == RuntimeNRI, "runtime", "%q is unknown; want sim or nri", c.Runtime)
	want(c.Runtime != RuntimeSim || len(c.Pods) > 0, "pods", "want at least one file or directory of manifests")
	want(!c.Estimate || c.Runtime != RuntimeSim, "estimate", "the runtime sim has its pods from manifests, and nothing to estimate; leave it out, or set runtime: nri")
	if c.Runtime == RuntimeNRI {
		c.checkNode(want)
	}
	want(slices.Contains(telemetry.Formats, c.Log.Format), "log.format", "%q is unknown; want %s", c.Log.Format, strings.Join(telemetry.Formats, " or "))
	if _, err := c.CPUQuota.Policy(); err != nil {
		problems = append(problems, err.Error())
	}
	want(slices.Contains(telemetry.Levels, c.Log.Level), "log.level", "%q is unknown; want one of %s", c.Log.Level, strings.Join(telemetry.Levels, ", "))
	want(c.PodResources.CallsPerSecond > 0, "podResources.callsPerSecond", "is %v; want more than 0", c.PodResources.CallsPerSecond)
	want(c.PodResources.Burst > 0, "podResources.burst", "is %d; want more than 0", c.PodResources.Burst)
	if len(problems) > 0 {
		return fmt.Errorf("%w: %s", ErrConfig, strings.Join(problems, "; "))
	}
	return nil
}

// checkNode names what is wrong for a real node.
func (c Config) checkNode(want func(ok bool, field, format string, args ...any)) {
	want(len(c.Pods) == 0, "pods", "the runtime nri has its pods from the kubelet; leave it out, or set runtime: sim")
	want(c.NRI.Socket != "", "nri.socket", "want the runtime's unix socket for plugins")
	want(c.NRI.PluginName != "", "nri.pluginName", "want a name")
	digit := func(i int) bool {
		return len(c.NRI.PluginIndex) == 2 && c.NRI.PluginIndex[i] >= '0' && c.NRI.PluginIndex[i] <= '9'
	}
	want(digit(0) && digit(1), "nri.pluginIndex", "%q: want two digits", c.NRI.PluginIndex)
	want(c.NRI.Timeout > 0, "nri.timeout", "is %v; want more than 0", time.Duration(c.NRI.Timeout))
	want(c.CgroupRoot != "", "cgroupRoot", "want where the cgroups are mounted")
	err := c.Kubelet.address().Check()
	want(err == nil, "kubelet", "%v", err)
}
