package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubeletcfg"
	"github.com/paddock-project/paddock/internal/kubeletstate"
	"github.com/paddock-project/paddock/internal/podspec"
)

func newStateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Read, verify, convert and repair the kubelet's state files",
		Long: `State is for the files in which the kubelet keeps which containers have which CPUs and memory:

  /var/lib/kubelet/cpu_manager_state
  /var/lib/kubelet/memory_manager_state

It needs no cluster and no agent. show and verify read only; convert and repair show first
what they are about to do, and keep the file that was there beside the new one.`,
		Example: `  # "checkpoint is corrupted", "cannot unmarshal object", "doesn't match with CPUs in state":
  paddock state verify --kubelet-config /var/lib/kubelet/config.yaml /var/lib/kubelet/*_manager_state`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q: want show, verify, convert or repair; see %s --help", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStateShowCommand(), newStateVerifyCommand(), newStateConvertCommand(), newStateRepairCommand())
	return cmd
}

// stateText is a file that was named, and whose state it is.
type stateText struct {
	name    string
	manager kubeletstate.Manager
	data    []byte
}

// errWhose is wrapped by the errors about files of which it cannot be told whose they are.
var errWhose = errors.New("neither its content nor its name says whether it is a CPU or a memory state")

// readStates reads files, at most one of each manager. A file that is damaged counts by its name.
func readStates(names []string, stdin io.Reader) ([]stateText, error) {
	var texts []stateText
	seen := map[kubeletstate.Manager]string{}
	for _, name := range names {
		data, err := readInput(name, stdin)
		if err != nil {
			return nil, err
		}
		m, err := managerOf(name, data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if first, twice := seen[m]; twice {
			return nil, fmt.Errorf("%s: %s is a state of the %s already; a node has one", name, first, m)
		}
		seen[m] = name
		texts = append(texts, stateText{name, m, data})
	}
	return texts, nil
}

// noStdin refuses "-" where files are replaced.
func noStdin(names []string) error {
	if slices.Contains(names, "-") {
		return errors.New("standard input cannot be replaced: name the files")
	}
	return nil
}

// managerOf says whose state it is: as the file is named, or, under another name, as its content says.
func managerOf(name string, data []byte) (kubeletstate.Manager, error) {
	for _, m := range []kubeletstate.Manager{kubeletstate.CPUManager, kubeletstate.MemoryManager} {
		if filepath.Base(name) == m.FileName() {
			return m, nil
		}
	}
	f, err := kubeletstate.Recognise(data)
	if err != nil {
		return 0, fmt.Errorf("%w; %w", err, errWhose)
	}
	return f.Manager, nil
}

// kubeletFlag is --kubelet.
type kubeletFlag struct{ version string }

func (f *kubeletFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.version, "kubelet", "1.36", "the kubelet's `VERSION`, from 1.21 to 1.37")
}

// The releases whose files are known. The newest memory state of 1.21 is the one of 1.35.
const (
	oldestKubelet = 21
	newestKubelet = 37
)

func (f *kubeletFlag) minor() (int, error) {
	v, err := version.ParseGeneric(f.version)
	switch {
	case err != nil || v.Major() != 1:
		return 0, fmt.Errorf("--kubelet %q: want a version such as 1.36", f.version)
	case v.Minor() < oldestKubelet || v.Minor() > newestKubelet:
		return 0, fmt.Errorf("--kubelet %s: the files of 1.%d to 1.%d are known", f.version, oldestKubelet, newestKubelet)
	}
	return int(v.Minor()), nil
}

// kubeletConfig is --kubelet-config where it is the kubelet's own configuration.
type kubeletConfig struct{ name string }

func (f *kubeletConfig) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "kubelet-config", "", "the kubelet's own configuration: a KubeletConfiguration `FILE`")
}

// load resolves the configuration for a machine; nil where none is named. The error is a
// *kubeletcfg.RefusedError where the kubelet would not even start with it.
func (f *kubeletConfig) load(m *machine.Machine, stdin io.Reader) (*node.Policy, error) {
	if f.name == "" {
		return nil, nil
	}
	data, err := readInput(f.name, stdin)
	if err != nil {
		return nil, fmt.Errorf("--kubelet-config: %w", err)
	}
	config, err := kubeletcfg.Read(f.name, data)
	if err != nil {
		return nil, err
	}
	policy, err := config.Resolve(m)
	if err != nil {
		return nil, err
	}
	if more := config.KubeletRefuses(m); len(more) > 0 {
		return nil, &kubeletcfg.RefusedError{Name: f.name, Problems: more}
	}
	return &policy, nil
}

// podsFlag is --pods: who the UIDs are.
type podsFlag struct{ paths []string }

func (f *podsFlag) register(cmd *cobra.Command, use string) {
	cmd.Flags().StringSliceVar(&f.paths, "pods", nil, use+": `FILES` or directories of manifests, the output of kubectl get pods -o json, or of the kubelet's /pods")
}

func (f *podsFlag) given() bool { return len(f.paths) > 0 }

// load reads the pods by UID; nil where none are named.
func (f *podsFlag) load(stdin io.Reader) (map[string]*v1.Pod, error) {
	if !f.given() {
		return nil, nil
	}
	sources, _, err := podspec.ReadFiles(f.paths, stdin)
	if err != nil {
		return nil, fmt.Errorf("--pods: %w", err)
	}
	pods := map[string]*v1.Pod{}
	for _, s := range sources {
		pods[podspec.UID(s.Pod)] = s.Pod
		// The API server shows a static pod as its mirror; the kubelet's files have the UID of the pod.
		if uid := s.Pod.Annotations[mirrorAnnotation]; uid != "" {
			pods[uid] = s.Pod
		}
	}
	return pods, nil
}

// mirrorAnnotation is the UID of the static pod that a mirror pod stands for.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// podName is what people call the pod: its name where that is known.
func podName(pods map[string]*v1.Pod, uid string) string {
	if p := pods[uid]; p != nil {
		return p.Namespace + "/" + p.Name
	}
	return uid
}
