package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	info "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

// emulatedVersion is the flag of kube-scheduler that selects the defaults of an earlier version.
const emulatedVersion = "emulated-version"

// patience is how long the scheduler waits at its start for an API server that does not answer.
// Then the program ends, and whatever started it starts it again.
const patience = time.Minute

// emulations is the number of earlier minor versions that kube-scheduler can emulate.
const emulations = 3

// emulateServer makes the scheduler use the feature gates of the API server's version.
//
// A kube-scheduler must not be newer than the API server: by default it watches kinds that an older
// server does not serve, and it schedules nothing until it has listed them. Users cannot choose
// between schedulers here, because the plugin is built with one version. So command asks the API
// server for its version before it sets the gates. The flag --emulated-version has precedence.
func emulateServer(command *cobra.Command) {
	next := command.PersistentPreRunE
	command.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		for _, name := range []string{emulatedVersion, "version", "write-config-to"} {
			if c.Flags().Changed(name) {
				return next(c, args)
			}
		}
		config, err := clientConfig(c)
		if err != nil {
			return err
		}
		server, err := askVersion(c.Context(), config, patience)
		if err != nil {
			return err
		}
		binary := compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent).BinaryVersion()
		emulated, err := emulation(server, binary)
		if err != nil {
			return err
		}
		if emulated != "" {
			klog.InfoS("Scheduling as an earlier kube-scheduler does, because the API server is older", "version", emulated, "apiServer", server.GitVersion)
			if err := c.Flags().Set(emulatedVersion, emulated); err != nil {
				return err
			}
		}
		return next(c, args)
	}
}

// clientConfig returns the client configuration that the flags and the configuration file describe.
// Without both it is that of a pod.
func clientConfig(c *cobra.Command) (*rest.Config, error) {
	value := func(name string) string { return c.Flags().Lookup(name).Value.String() }
	kubeconfig := value("kubeconfig")
	if name := value("config"); name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		// The scheduler reads the whole file later, with the gates that are set by then.
		var file struct {
			ClientConnection struct {
				Kubeconfig string `json:"kubeconfig"`
			} `json:"clientConnection"`
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			return nil, fmt.Errorf("--config %s: %w", name, err)
		}
		kubeconfig = file.ClientConnection.Kubeconfig
	}
	if kubeconfig == "" && value("master") == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags(value("master"), kubeconfig)
}

// askVersion returns the version of the API server. It asks once a second until limit has passed.
func askVersion(ctx context.Context, config *rest.Config, limit time.Duration) (*info.Info, error) {
	if ctx == nil { // Nothing gives a context to the command of kube-scheduler.
		ctx = context.Background()
	}
	config = rest.CopyConfig(config)
	config.Timeout = 10 * time.Second
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	var found *info.Info
	var last error
	err = wait.PollUntilContextTimeout(ctx, time.Second, limit, true, func(context.Context) (bool, error) {
		if found, last = client.ServerVersion(); last != nil {
			klog.ErrorS(last, "The API server did not answer with its version", "server", config.Host)
		}
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("the API server %s did not answer within %s: %w", config.Host, limit, last)
	}
	return found, nil
}

// emulation returns the version to emulate for an API server, such as "1.36". It is empty if the
// server is not older than binary.
func emulation(server *info.Info, binary *utilversion.Version) (string, error) {
	served, err := utilversion.ParseGeneric(server.GitVersion)
	if err != nil {
		return "", fmt.Errorf("the API server has the version %q: %w; set --%s", server.GitVersion, err, emulatedVersion)
	}
	if server.EmulationMajor != "" && server.EmulationMinor != "" {
		// The server emulates a version itself, and serves the kinds of that version.
		if emulated, err := utilversion.ParseGeneric(server.EmulationMajor + "." + server.EmulationMinor); err == nil {
			served = emulated
		}
	}
	served = utilversion.MajorMinor(served.Major(), served.Minor())
	newest := utilversion.MajorMinor(binary.Major(), binary.Minor())
	if !served.LessThan(newest) {
		return "", nil
	}
	if oldest := newest.SubtractMinor(emulations); served.LessThan(oldest) {
		return "", fmt.Errorf("the API server is Kubernetes %s, and this scheduler works with %s and later: upgrade the control plane, "+
			"or use a scheduler of an earlier release", served, oldest)
	}
	return served.String(), nil
}
