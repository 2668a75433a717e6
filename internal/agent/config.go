package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/podres"
	"github.com/paddock-project/paddock/internal/telemetry"
)

// Runtimes that the agent can drive.
const RuntimeSim = "sim"

// Config is what the agent is told about its place: the YAML file of --config. How it decides is
// not here but in the KubeletConfiguration that it names.
type Config struct {
	// Machine is "live", or a recorded MachineInfo.
	Machine string `json:"machine"`
	// KubeletConfig is a KubeletConfiguration; empty: a usual policy.
	KubeletConfig string `json:"kubeletConfig"`
	// Devices is an inventory of devices; empty: none.
	Devices string `json:"devices"`
	// State is the file that holds the assignments.
	State string `json:"state"`
	// Strict refuses to start when anything in the state does not hold any more.
	Strict bool `json:"strict"`
	// Pods are files and directories of manifests.
	Pods    []string `json:"pods"`
	Runtime string   `json:"runtime"`
	// Listen is the address for metrics and health, "host:port"; empty: none.
	Listen string `json:"listen"`
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
		Machine: "live", State: "/var/lib/paddock/state.json", Runtime: RuntimeSim, Listen: "127.0.0.1:9925",
		PodResources: PodResourcesConfig{
			Socket: podres.DefaultSocket, CallsPerSecond: podres.DefaultLimit.PerSecond, Burst: podres.DefaultLimit.Burst,
		},
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
	want(c.State != "", "state", "want the name of a file, which is made if it is not there")
	want(c.Runtime == RuntimeSim, "runtime", "%q is unknown; want sim", c.Runtime)
	want(len(c.Pods) > 0, "pods", "want at least one file or directory of manifests")
	want(slices.Contains(telemetry.Formats, c.Log.Format), "log.format", "%q is unknown; want %s", c.Log.Format, strings.Join(telemetry.Formats, " or "))
	want(slices.Contains(telemetry.Levels, c.Log.Level), "log.level", "%q is unknown; want one of %s", c.Log.Level, strings.Join(telemetry.Levels, ", "))
	want(c.PodResources.CallsPerSecond > 0, "podResources.callsPerSecond", "is %v; want more than 0", c.PodResources.CallsPerSecond)
	want(c.PodResources.Burst > 0, "podResources.burst", "is %d; want more than 0", c.PodResources.Burst)
	if len(problems) > 0 {
		return fmt.Errorf("%w: %s", ErrConfig, strings.Join(problems, "; "))
	}
	return nil
}
