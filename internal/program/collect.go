package program

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/base/build"
	"github.com/paddock-project/paddock/internal/cli/collect"
	"github.com/paddock-project/paddock/internal/cli/console"
)

// collectCommand is one invocation of paddock collect.
type collectCommand struct {
	print, filter bool
	script        collect.Script
	// cluster is the cluster of the plugin of kubectl, or nil.
	cluster Cluster
}

// Cluster is the cluster from which "kubectl paddock collect" collects.
type Cluster interface {
	// NodeOf returns the node of a pod: NAME, or NAMESPACE/NAME.
	NodeOf(cmd *cobra.Command, pod string) (string, error)
	// Nodes returns the names of the nodes, or none if they cannot be read.
	Nodes(cmd *cobra.Command) []string
	// Kubectl returns the flags --kubeconfig and --context. It returns an error if others were
	// given.
	Kubectl(cmd *cobra.Command) (kubeconfig, context string, err error)
}

// NewCollect returns the command collect for the kubectl plugin. The command also accepts the name
// of a pod instead of that of its node. There, the flag --namespace is kubectl's own.
func NewCollect(of Cluster) *cobra.Command {
	c := collectCommand{cluster: of}
	cmd := c.command()
	cmd.Use, cmd.Args = "collect --print [POD]", console.Arguments(0, 1, "at most one POD")
	console.Exclude(cmd, "print", "filter")
	cmd.Long += `

With POD, the script collects from the node of that pod. It calls kubectl with the same --context and --kubeconfig.`
	cmd.Example = `  kubectl paddock collect --print shop/database > collect.sh
  kubectl paddock collect --print database -n shop > collect.sh
  kubectl paddock collect --print --node node7 > collect.sh`
	return cmd
}

// namespaceFlag is the name of the flag for the namespace of the debug pod.
func (c *collectCommand) namespaceFlag() string {
	if c.cluster != nil {
		return "debug-namespace"
	}
	return "namespace"
}

func (c *collectCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "collect --print",
		Short: "Print a script that collects what decides on a node without Paddock",
		Long: `Collect prints a POSIX shell script. The script collects into one folder the inputs by which the kubelet of
a node admits and rejects pods. Nothing is installed on the node. Paddock runs no command itself: read the
script, and then run it where kubectl and paddock are. "paddock explain POD --state FOLDER" reads the folder.

  node.json             the Node
  pods.json             the pods of the node
  configz.json          the configuration with which the kubelet runs, or config.yaml, its file only
  lscpu.json            CPUs, cores, sockets, caches and NUMA nodes
  numactl.txt           the sizes and distances of the NUMA nodes
  isolation.txt         the CPUs that the kernel isolates, without the other parameters of its command line
  resctrl.txt           how the kernel can divide the L3 caches, if resctrl is mounted
  cpu_manager_state, memory_manager_state, dra_manager_state, kubelet_internal_checkpoint
                        the kubelet's own files, unchanged, those that it has
  allocatable_resources the kubelet's answer about its devices with their NUMA nodes, if curl is on the node

The script reads the node in a pod of "kubectl debug", which it deletes afterwards, or with --via ssh. Admitting
that pod makes the kubelet release what ended pods had, which can be why a pod was rejected: ssh changes nothing.
If a step fails after the kubelet's files were read, the folder remains, and what is missing is listed. K3s and
RKE2 have the kubelet's usual directory; for others, give --kubelet-dir.

The script passes objects through "paddock collect --filter", which reads them from standard input and keeps
only fields that decide: names, UIDs, times, resources, claims, phases, reasons and messages of pods, the kinds and
names of their controllers, their annotations of static pods and of Paddock; the region, zone, instance type,
versions, amounts and taints of nodes; the settings of the kubelet about resources. It has no environments,
arguments, commands, images or volumes, and no other labels and annotations.

With --anonymize, the names of pods, controllers, namespaces, claims and the node are hashed, with a key that is made
for one folder and not kept. Messages are left out unless a kubelet rejected the pod. UIDs and the names of containers
and resources remain, because they are keys in the kubelet's files. A note names the hashes of rejected pods.
What device plugins answered, which can include environment variables, is removed from
kubelet_internal_checkpoint; without --anonymize it is copied unchanged.`,
		Example: `  paddock collect --print --node node7 > collect.sh
  paddock collect --print --node node7 --via ssh --host admin@node7.example.com > collect.sh
  paddock collect --print --anonymize > collect.sh
  kubectl get nodes,pods -A -o json | paddock collect --filter > cluster.json`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	flags, s := cmd.Flags(), &c.script
	flags.BoolVar(&c.print, "print", false, "print the script")
	flags.BoolVar(&c.filter, "filter", false, "reduce the objects on standard input to the fields that decide")
	flags.BoolVar(&s.Anonymize, "anonymize", false, "hash the names of pods, namespaces, claims and the node")
	flags.StringVar(&s.Node, "node", "", "collect from this `NODE`; without it, it is the argument of the script")
	flags.StringVar(&s.Via, "via", collect.Debug, "how the script reads the node: debug, in a pod of kubectl debug, or ssh")
	flags.StringVar(&s.Image, "image", collect.DefaultImage, "the `IMAGE` of the debug pod")
	flags.StringVar(&s.Namespace, c.namespaceFlag(), collect.DefaultNamespace, "the `NAMESPACE` of the debug pod; it must admit privileged pods")
	flags.StringVar(&s.Host, "host", "", "the `HOST` or USER@HOST for ssh, if it is not the name of the node")
	flags.StringVar(&s.KubeletDir, "kubelet-dir", collect.DefaultKubeletDir, "the kubelet's root `DIRECTORY` on the node")
	flags.StringVar(&s.Folder, "folder", "", "the `FOLDER` to make (default ./paddock-NODE; with --anonymize ./paddock-anonymous)")
	console.Exclude(cmd, "print", "filter")
	console.CompleteWords(cmd, "via", collect.Debug, collect.SSH)
	if c.cluster != nil {
		names := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return c.cluster.Nodes(cmd), cobra.ShellCompDirectiveNoFileComp
		}
		if err := cmd.RegisterFlagCompletionFunc("node", names); err != nil {
			panic(err) // The flag was defined above.
		}
	}
	return cmd
}

func (c *collectCommand) run(cmd *cobra.Command, pods []string) error {
	s := console.StreamsOf(cmd)
	if c.filter && len(pods) > 0 {
		return fmt.Errorf("%s belongs to --print: --filter reads only standard input; remove one of them", pods[0])
	}
	if c.filter {
		return c.reduce(cmd, s)
	}
	if !c.print {
		return errors.New("collect runs nothing: it only prints a script, so that you can read what will be run on your cluster; add --print, read the script, and run it")
	}
	for _, of := range []struct{ flag, via string }{{"image", collect.Debug}, {c.namespaceFlag(), collect.Debug}, {"host", collect.SSH}} {
		if cmd.Flags().Changed(of.flag) && c.script.Via != of.via {
			return fmt.Errorf("--%s belongs to --via %s, and --via is %s: remove one of them", of.flag, of.via, c.script.Via)
		}
	}
	if err := c.of(cmd, pods); err != nil {
		return err
	}
	c.script.Version = build.Version()
	text, err := c.script.Text()
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.Stdout, text)
	return err
}

// of finds the node of a pod, and how the script reaches the cluster.
func (c *collectCommand) of(cmd *cobra.Command, pods []string) error {
	if c.cluster == nil {
		return nil
	}
	var err error
	if c.script.Kubeconfig, c.script.Context, err = c.cluster.Kubectl(cmd); err != nil || len(pods) == 0 {
		return err
	}
	if c.script.Node != "" {
		return fmt.Errorf("--node %s and the pod %s: give one of them", c.script.Node, pods[0])
	}
	c.script.Node, err = c.cluster.NodeOf(cmd, pods[0])
	return err
}

// reduce reduces the objects on standard input.
func (c *collectCommand) reduce(cmd *cobra.Command, s console.Streams) error {
	for _, flag := range []string{"node", "via", "image", c.namespaceFlag(), "host", "kubelet-dir", "folder"} {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s belongs to --print: --filter reads only standard input; remove one of them", flag)
		}
	}
	var f collect.Filter
	if c.script.Anonymize {
		key, err := collect.ParseKey(os.Getenv(collect.KeyVariable))
		if err != nil {
			return err
		}
		f.Key = key
	}
	notes, err := f.Copy(s.Stdout, s.Stdin)
	s.Notes(notes)
	return err
}
