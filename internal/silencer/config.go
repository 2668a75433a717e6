package silencer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

// The values of Config.OnExit.
const (
	ExitLeave   = "leave"
	ExitRelease = "release"
)

const (
	shortestInterval = 200 * time.Millisecond
	longestInterval  = time.Minute
)

// Config is the content of the YAML file of --config.
type Config struct {
	// Quiet determines the settings, and for which containers they are made.
	Quiet quiet.Policy `json:"quiet"`
	// Root is the directory with proc and sys of the node. CgroupRoot is the directory at which the
	// cgroups are mounted. If CgroupRoot is empty, it is sys/fs/cgroup below Root.
	Root       string `json:"root"`
	CgroupRoot string `json:"cgroupRoot"`
	// State is the file that records the earlier content of files. It needs a directory of its own.
	State string `json:"state"`
	// PodResources are the sockets that report which container has which CPUs: the agent's, where
	// Paddock decides, and the kubelet's.
	PodResources []string `json:"podResources"`
	// Kubelet lists the pods with their annotations. Without a URL, pods cannot ask for settings.
	Kubelet Kubelet `json:"kubelet"`
	// APIServer gets an event for each wish that is not carried out. Without a URL, the process
	// only logs it.
	APIServer APIServer `json:"apiServer"`
	// Irqbalance locates irqbalance.
	Irqbalance Irqbalance `json:"irqbalance"`
	// Interval is the time between two rounds.
	Interval Duration `json:"interval"`
	// OnExit is ExitLeave or ExitRelease.
	OnExit string `json:"onExit"`
	// Listen is the address of the status, the metrics and the health checks. If empty, they are
	// not served.
	Listen string `json:"listen"`
	// NodeName is the name of the Kubernetes node, for events.
	NodeName string `json:"nodeName"`
	Log      Log    `json:"log"`
}

// NewLogger returns a logger with the format and the level of the configuration.
func (c *Config) NewLogger(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Log.Level)); err != nil {
		return nil, fmt.Errorf("log.level: %q: expected debug, info, warn or error", c.Log.Level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch c.Log.Format {
	case "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return nil, fmt.Errorf("log.format: %q: expected text or json", c.Log.Format)
}

// Kubelet is the address of the kubelet.
type Kubelet struct {
	URL       string `json:"url"`
	TokenFile string `json:"tokenFile"`
	CAFile    string `json:"caFile"`
	Insecure  bool   `json:"insecure"`
}

// APIServer is the address of the API server. The URL "in-cluster" is the address in the pod's
// environment.
type APIServer struct {
	URL       string `json:"url"`
	TokenFile string `json:"tokenFile"`
	CAFile    string `json:"caFile"`
}

// Irqbalance locates irqbalance.
type Irqbalance struct {
	// Sockets is the directory of irqbalance's socket. Environment is its environment file, usually
	// /etc/default/irqbalance or /etc/sysconfig/irqbalance. If empty, the file is not changed.
	Sockets     string `json:"sockets"`
	Environment string `json:"environment"`
}

// Log is the format of the log, text or json, and its level.
type Log struct {
	Format string `json:"format"`
	Level  string `json:"level"`
}

// Duration is an interval, written in the form of time.ParseDuration.
type Duration time.Duration

// MarshalText returns the form that UnmarshalJSON reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalJSON reads a duration such as "2s".
func (d *Duration) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if text == "null" {
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("interval: %q: expected a time such as \"2s\"", text)
	}
	*d = Duration(parsed)
	return nil
}

// DefaultConfig returns the configuration without a file.
func DefaultConfig() Config {
	return Config{
		Quiet: quiet.DefaultPolicy(), Root: "/", State: "/var/lib/paddock-quiet/state.json",
		PodResources: []string{"/run/paddock/podresources.sock", "/var/lib/kubelet/pod-resources/kubelet.sock"},
		Irqbalance:   Irqbalance{Sockets: "/run/irqbalance"},
		Interval:     Duration(2 * time.Second), OnExit: ExitLeave, Listen: "127.0.0.1:9926", Log: Log{Format: "text", Level: "info"},
	}
}

// ReadConfig reads a configuration file. Missing fields have the values of DefaultConfig.
func ReadConfig(name string, data []byte) (Config, error) {
	c := DefaultConfig()
	object, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	unknown, err := strictjson.UnmarshalStrict(object, &c)
	if err != nil {
		return c, fmt.Errorf("%s: %w", name, malformed.JSON(object, err))
	}
	if len(unknown) > 0 {
		return c, fmt.Errorf("%s: %w; paddock quiet --print-config prints every field", name, errors.Join(unknown...))
	}
	return c, nil
}

// Check returns an error if the configuration is not valid.
func (c *Config) Check() error {
	wrong := []error{c.Quiet.Check()}
	add := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	add(c.State == "" || !filepath.IsAbs(c.State), "state: %q: expected the absolute path of a file in a directory of its own", c.State)
	add(len(c.PodResources) == 0, "podResources: expected the socket of the agent, of the kubelet, or both")
	add(c.OnExit != ExitLeave && c.OnExit != ExitRelease, "onExit: %q: expected %s or %s", c.OnExit, ExitLeave, ExitRelease)
	interval := time.Duration(c.Interval)
	add(interval < shortestInterval || interval > longestInterval, "interval: %v: expected a time from %v to %v", interval, shortestInterval, longestInterval)
	if c.Kubelet.URL != "" {
		if err := checkURL(c.Kubelet.URL, c.Kubelet.TokenFile); err != nil {
			wrong = append(wrong, fmt.Errorf("kubelet.%w", err))
		}
		add(c.Kubelet.Insecure && c.Kubelet.CAFile != "", "kubelet.insecure and kubelet.caFile: set only one of them")
	}
	asks := len(c.Quiet.Allow.Namespaces)+len(c.Quiet.Allow.RuntimeClasses) > 0
	add(asks && c.Kubelet.URL == "", "quiet.allow: pods may ask, and nothing shows what they ask for: set kubelet.url, such as https://127.0.0.1:10250")
	return errors.Join(wrong...)
}
