package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/node/apiserver"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/podsource/devicemetadata"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// Who decides about the pods of the node: Paddock, or the kubelet with its own managers. Where the
// kubelet decides, the agent only observes it.
const (
	DecidesPaddock = "paddock"
	DecidesKubelet = "kubelet"
)

// Runtimes of the agent: the simulated one, and containerd or CRI-O over NRI.
const (
	RuntimeSim = "sim"
	RuntimeNRI = "nri"
)

// Config is the content of the YAML file of --config: the agent's environment. The policy is in the
// KubeletConfiguration that it names.
type Config struct {
	// Decides is DecidesPaddock or DecidesKubelet.
	Decides string `json:"decides"`
	// Machine is "live", or the name of a file or a directory that describes a machine.
	Machine string `json:"machine"`
	// KubeletConfig is the name of a KubeletConfiguration file, or of another form that
	// inputs.Reader.KubeletConfig reads. If empty, a default policy is used.
	KubeletConfig string `json:"kubeletConfig"`
	// Devices is the name of a file with an inventory of devices. If empty, there are none.
	Devices string `json:"devices"`
	// State is the name of the state file. It needs a directory of its own, because the agent locks
	// both.
	State string `json:"state"`
	// Strict makes the start fail if an assignment in the state is no longer valid.
	Strict bool `json:"strict"`
	// Pods are files and directories with manifests, for the runtime sim.
	Pods    []string `json:"pods"`
	Runtime string   `json:"runtime"`
	// NRI configures the container runtime, and Kubelet the list of its pods, for the runtime nri.
	NRI     NRIConfig     `json:"nri"`
	Kubelet KubeletConfig `json:"kubelet"`
	// NodeName is the name of this Kubernetes node. If it is set, grants that a scheduler hands
	// over are applied. An agent that uses the API server does not start without it. verify does
	// not need it.
	NodeName string `json:"nodeName"`
	// APIServer is the API server that has the ResourceSlices of this node.
	APIServer APIServerConfig `json:"apiServer"`
	// Publish makes the agent write the PaddockMachine and the PaddockNode of this node to the API
	// server, for schedulers that plan for the node.
	Publish bool `json:"publish"`
	// NodeResourceTopology makes the agent write the NodeResourceTopology of this node to the API
	// server, for schedulers that read it.
	NodeResourceTopology bool `json:"nodeResourceTopology"`
	// Estimate computes a pod's request from the numbers of its cgroup if the kubelet does not list
	// the pod or does not answer, for the runtime nri. If false, such a pod waits until it is
	// listed.
	Estimate bool `json:"estimate"`
	// CPUQuota configures the CFS quotas of pods with exclusive containers.
	CPUQuota CPUQuotaConfig `json:"cpuQuota"`
	// MaxContainersPerPod is the maximum number of containers, including init containers, of a pod
	// that is admitted. Zero means no limit. A pod that is already admitted keeps its assignments.
	MaxContainersPerPod int `json:"maxContainersPerPod"`
	// Moves configures how running pods are moved.
	Moves MovesConfig `json:"moves"`
	// ReleaseOnExit lets every container run on all CPUs again when the agent ends, and drops all
	// assignments. It is for the final end, not for an update of the agent.
	ReleaseOnExit bool `json:"releaseOnExit"`
	// NoticeDir is the directory of the notices to containers, for the runtime nri. Its path must
	// be the same for the agent and the runtime. If empty, there are no notices.
	NoticeDir string `json:"noticeDir"`
	// CgroupRoot is the directory where the cgroups are mounted.
	CgroupRoot string `json:"cgroupRoot"`
	// Listen is the address for metrics and health, "host:port". If empty, they are not served.
	Listen string `json:"listen"`
	// Map selects who can see the live map on Listen: MapLoopback or MapEverywhere.
	Map string `json:"map"`
	// Profile serves /debug/pprof on Listen.
	Profile      bool               `json:"profile"`
	PodResources PodResourcesConfig `json:"podResources"`
	Log          LogConfig          `json:"log"`
}

// PodResourcesConfig configures the PodResources API.
type PodResourcesConfig struct {
	// Socket is the path of its unix socket. If empty, the API is not served.
	Socket string `json:"socket"`
	// CallsPerSecond and Burst are the token bucket that all clients share.
	CallsPerSecond float64 `json:"callsPerSecond"`
	Burst          int     `json:"burst"`
}

// NRIConfig configures the connection to the container runtime.
type NRIConfig struct {
	// Socket is the path of the runtime's unix socket for plugins.
	Socket string `json:"socket"`
	// PluginName is the plugin's name at the runtime. PluginIndex has two digits and determines its
	// order among plugins.
	PluginName  string `json:"pluginName"`
	PluginIndex string `json:"pluginIndex"`
	// Timeout limits the time of an answer. A runtime continues without a plugin that takes longer
	// than its plugin_request_timeout, so half of that is a limit too.
	Timeout Duration `json:"timeout"`
	// TakeOver makes the agent manage containers that run on CPUs although the state is empty, for
	// a node whose state was lost. Their CPUs can change while they run. If false, the agent does
	// not manage such a node.
	TakeOver bool `json:"takeOver"`
	// CacheSchemata is whether the OCI runtime carries out intelRdt.schemata, which runc does since
	// 1.4, and crun since 1.22. The runtime then makes the group of resctrl of a container with a
	// class of the caches when it creates the container. Others fail to create such a container.
	CacheSchemata bool `json:"cacheSchemata"`
}

// Values of Config.Map. The map names pods. Either only clients on the node can see it, or all
// clients that reach the address.
const (
	MapLoopback   = "loopback"
	MapEverywhere = "everywhere"
)

// KubeletConfig configures access to the kubelet's list of pods; see kubelet.Address. A URL with
// http, which is the kubelet's read-only port, is accepted with a warning: any process that opens
// the port first can answer there.
type KubeletConfig struct {
	URL       string `json:"url"`
	TokenFile string `json:"tokenFile"`
	CertFile  string `json:"certFile"`
	KeyFile   string `json:"keyFile"`
	CAFile    string `json:"caFile"`
	Insecure  bool   `json:"insecure"`
	// PodResources is the kubelet's socket that lists the devices of pods. If empty, it is not
	// used.
	PodResources string `json:"podResources"`
	// Dir is the kubelet's directory, in which DRA drivers describe the devices of claims. If
	// empty, it is not read.
	Dir string `json:"dir"`
}

// APIServerConfig configures access to the cluster's API server; see apiserver.Address.
type APIServerConfig struct {
	// URL is the address of the API server, or "in-cluster". If empty, the API server is not used.
	URL       string `json:"url"`
	TokenFile string `json:"tokenFile"`
	CAFile    string `json:"caFile"`
}

func (c APIServerConfig) address() apiserver.Address {
	return apiserver.Address{URL: c.URL, TokenFile: c.TokenFile, CAFile: c.CAFile}
}

func (c KubeletConfig) address() kubelet.Address {
	return kubelet.Address{URL: c.URL, TokenFile: c.TokenFile, CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: c.CAFile, Insecure: c.Insecure}
}

// Duration is a time.Duration that is written as text, e.g. "1.5s".
type Duration time.Duration

// MarshalText returns the form that time.ParseDuration reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText accepts what time.ParseDuration accepts.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil { // The decoder adds the field to errors of this type only.
		return &json.UnmarshalTypeError{Value: fmt.Sprintf("%.40q", text), Type: reflect.TypeFor[Duration]()}
	}
	*d = Duration(parsed)
	return nil
}

const wantDuration = "a number with a unit, such as 800ms, 1.5s or 10m"

// LogConfig configures the log. Format is one of telemetry.Formats, and Level one of
// telemetry.Levels.
type LogConfig struct {
	Format string `json:"format"`
	Level  string `json:"level"`
}

// ErrConfig is wrapped by errors about the configuration.
var ErrConfig = errors.New("the agent's configuration is not valid")

// DefaultConfig returns the default configuration.
func DefaultConfig() Config {
	return Config{
		Decides: DecidesPaddock, Machine: "live", State: "/var/lib/paddock/state.json", Runtime: RuntimeSim, Listen: "127.0.0.1:9925", Map: MapLoopback,
		PodResources: PodResourcesConfig{
			Socket: podres.DefaultSocket, CallsPerSecond: podres.DefaultLimit.PerSecond, Burst: podres.DefaultLimit.Burst,
		},
		NRI:     NRIConfig{Socket: "/var/run/nri/nri.sock", PluginName: "paddock", PluginIndex: "90", Timeout: Duration(800 * time.Millisecond)},
		Kubelet: KubeletConfig{URL: "https://127.0.0.1:10250", PodResources: kubeletdevices.DefaultSocket, Dir: devicemetadata.DefaultDir}, CPUQuota: DefaultCPUQuota(), CgroupRoot: cgroup.DefaultRoot,
		MaxContainersPerPod: 512, NoticeDir: "/run/paddock/notices",
		Moves: MovesConfig{Notice: Duration(time.Second), Interval: Duration(10 * time.Minute), LeaveAloneAtMost: Duration(time.Hour)},
		Log:   LogConfig{Format: telemetry.Formats[0], Level: "info"},
	}
}

// ReadConfig parses a file. Fields that it does not set have their defaults. Unknown and duplicate
// fields are errors.
func ReadConfig(name string, data []byte) (Config, error) {
	c := DefaultConfig()
	if err := malformed.CutOff(data); err != nil {
		return Config{}, fmt.Errorf("%s: %w: %w", name, ErrConfig, err)
	}
	object, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w: %w", name, ErrConfig, err)
	}
	unknown, err := strictjson.UnmarshalStrict(object, &c)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w: %w", name, ErrConfig, plainly(err))
	}
	if len(unknown) > 0 {
		return Config{}, fmt.Errorf("%s: %w: %w; paddock agent --print-config prints every field", name, ErrConfig, errors.Join(unknown...))
	}
	return c, nil
}

// plainly returns an error that names the field with the invalid value and the values that it
// accepts. The error of the decoder has Go types.
func plainly(err error) error {
	var found *json.UnmarshalTypeError
	if !errors.As(err, &found) {
		return err
	}
	field := found.Field
	if field == "" {
		field = "the file"
	}
	if strings.HasPrefix(found.Value, `"`) { // from Duration.UnmarshalText
		return fmt.Errorf("%s: %s is not a duration; expected %s", field, found.Value, wantDuration)
	}
	kind, _, _ := strings.Cut(found.Value, " ") // "number 1e99" if a number is out of range
	return fmt.Errorf("%s: has the type %s; expected %s", field, kind, wanted(found.Type))
}

// wanted describes the values that a field of type t accepts.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		return "an object, such as {field: value}"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string, in quotes"
	case reflect.Int:
		return "a whole number of at most 64 bits"
	case reflect.Float64:
		return "a number"
	default: // The only other type of a field is Duration.
		return wantDuration
	}
}

// Check returns an error that names all invalid fields.
func (c Config) Check() error {
	var problems []string
	want := func(ok bool, field, format string, args ...any) {
		if !ok {
			problems = append(problems, field+": "+fmt.Sprintf(format, args...))
		}
	}
	word := func(value, field string, known ...string) {
		want(slices.Contains(known, value), field, "%q is unknown: %s", value, spelling.Expected(value, known))
	}
	want(c.Machine != "", "machine", `expected "live", a file or a directory`)
	word(c.Map, "map", MapLoopback, MapEverywhere)
	want(c.State != "", "state", "expected the name of a file; the agent creates the file if it does not exist")
	word(c.Decides, "decides", DecidesPaddock, DecidesKubelet)
	observes := c.Decides == DecidesKubelet
	if observes {
		want(len(c.Pods) == 0, "pods", "the kubelet lists the pods that it decides about; remove the field, or set decides: paddock")
		want(filepath.IsAbs(c.Kubelet.Dir), "kubelet.dir", "%q: expected the absolute path of the kubelet's directory, such as /var/lib/kubelet", c.Kubelet.Dir)
		err := c.Kubelet.address().Check()
		want(err == nil, "kubelet", "%v", err)
		c.checkAPIServer(want)
		want(!c.NodeResourceTopology, "nodeResourceTopology", "is not written where the kubelet decides; remove the field")
	}
	word(c.Runtime, "runtime", RuntimeSim, RuntimeNRI)
	want(observes || c.Runtime != RuntimeSim || len(c.Pods) > 0, "pods", "expected at least one file or directory of manifests")
	want(!c.Estimate || c.Runtime != RuntimeSim, "estimate", "runtime sim reads pods from manifests and estimates nothing; remove the field, or set runtime: nri")
	if c.Runtime == RuntimeNRI && !observes {
		want(len(c.Pods) == 0, "pods", "runtime nri gets pods from the kubelet; remove the field, or set runtime: sim")
		want(c.NRI.Socket != "", "nri.socket", "expected the runtime's unix socket for plugins")
		want(c.NRI.PluginName != "", "nri.pluginName", "expected a name")
		digit := func(i int) bool {
			return len(c.NRI.PluginIndex) == 2 && c.NRI.PluginIndex[i] >= '0' && c.NRI.PluginIndex[i] <= '9'
		}
		want(digit(0) && digit(1), "nri.pluginIndex", "%q: expected two digits", c.NRI.PluginIndex)
		want(c.NRI.Timeout > 0, "nri.timeout", "is %v; expected more than 0", time.Duration(c.NRI.Timeout))
		want(c.CgroupRoot != "", "cgroupRoot", "expected the directory where cgroups are mounted")
		want(c.NoticeDir == "" || filepath.IsAbs(c.NoticeDir) && filepath.Clean(c.NoticeDir) != "/", "noticeDir", "%q: expected the absolute path of a directory that is only for notices, or an empty value", c.NoticeDir)
		err := c.Kubelet.address().Check()
		want(err == nil, "kubelet", "%v", err)
		c.checkAPIServer(want)
		want(!c.NodeResourceTopology || c.APIServer.URL != "", "nodeResourceTopology", "expected apiServer.url: the agent writes the object of this node there")
	}
	want(c.MaxContainersPerPod >= 0, "maxContainersPerPod", "is %d; expected a number of containers, or 0 for no bound", c.MaxContainersPerPod)
	want(c.Moves.Notice >= 0, "moves.notice", "is %v; expected 0 or more", time.Duration(c.Moves.Notice))
	want(c.Moves.LeaveAloneAtMost >= 0, "moves.leaveAloneAtMost", "is %v; expected 0 or more", time.Duration(c.Moves.LeaveAloneAtMost))
	want(c.Moves.Interval >= 0, "moves.interval", "is %v; expected 0 or more", time.Duration(c.Moves.Interval))
	word(c.Log.Format, "log.format", telemetry.Formats...)
	if _, err := c.CPUQuota.Policy(); err != nil {
		problems = append(problems, err.Error())
	}
	word(c.Log.Level, "log.level", telemetry.Levels...)
	want(c.PodResources.CallsPerSecond > 0, "podResources.callsPerSecond", "is %v; expected more than 0", c.PodResources.CallsPerSecond)
	want(c.PodResources.Burst > 0, "podResources.burst", "is %d; expected more than 0", c.PodResources.Burst)
	if len(problems) > 0 {
		return fmt.Errorf("%w: %s", ErrConfig, strings.Join(problems, "; "))
	}
	return nil
}

// checkAPIServer checks how the API server is reached, and that it is if something is written
// there.
func (c Config) checkAPIServer(want func(ok bool, field, format string, args ...any)) {
	if c.APIServer.URL != "" {
		err := c.APIServer.address().Check()
		want(err == nil, "apiServer", "%v", err)
	}
	want(!c.Publish || c.APIServer.URL != "", "publish", "expected apiServer.url: the agent writes the objects of this node there")
}
