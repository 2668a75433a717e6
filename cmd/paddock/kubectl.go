package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-project/paddock/internal/base/build"
	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/kubectl"
	"github.com/paddock-project/paddock/internal/program"
)

// isPlugin reports whether the program was started with the name of the kubectl plugin.
func isPlugin(name string) bool { return filepath.Base(name) == "kubectl-paddock" }

// pluginCommand is one invocation of kubectl paddock.
type pluginCommand struct {
	access    kubectl.Access
	namespace string // the namespace of the agents
}

// newPluginCommand returns the root command of the kubectl plugin.
func newPluginCommand() *cobra.Command {
	var p pluginCommand
	root := &cobra.Command{
		Use:   "kubectl-paddock",
		Short: "Ask the agents of a cluster which CPUs and memory its pods have, and why",
		Long: `Kubectl paddock finds the agent of a node and asks it, through the API server. You need no login to the
node. It uses kubectl's files, contexts and flags.

It runs commands in the agents' containers. You need permission to list pods and to create pods/exec in the agents'
namespace, and to get the pods that you ask about.

Exit codes: 0 done, 1 error, 2 the answer is no.`,
		Example: `  kubectl paddock explain database -n shop
  kubectl paddock map node7
  kubectl paddock pods
  kubectl paddock verify --context production`,
		Version:       build.Described(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl paddock", console.ProgramAnnotation: "paddock"},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("kubectl-paddock {{.Version}}\n")
	root.SetFlagErrorFunc(console.FlagError)
	console.Group(root)
	p.access.Register(root.PersistentFlags())
	root.PersistentFlags().StringVar(&p.namespace, "agent-namespace", "paddock", "the `NAMESPACE` in which the agents run")
	root.AddCommand(p.explain(), p.mapOf(), program.NewCollect(&p),
		p.ask("pods", "Show what the pods of nodes have", "table", "wide", "json"),
		p.ask("report", "Show how the CPUs and memory of nodes are used, and how large a pod still fits", "text", "json", "yaml"),
		p.ask("trust", "Show whether the kubelets of observed nodes do what Paddock predicts", "text", "json", "yaml"),
		p.ask("verify", "Compare what runs on nodes with what its pods were given"), program.NewVersion("kubectl-paddock"))
	return root
}

// NodeOf implements program.Cluster.
func (p *pluginCommand) NodeOf(cmd *cobra.Command, pod string) (string, error) {
	cluster, err := p.access.Cluster()
	if err != nil {
		return "", err
	}
	namespace, name, err := podArgument(pod, cluster.Namespace)
	if err != nil {
		return "", err
	}
	return cluster.NodeOf(cmd.Context(), namespace, name)
}

// completionTime is how long a person at a prompt waits for the names of nodes.
const completionTime = 5 * time.Second

// Nodes implements program.Cluster.
func (p *pluginCommand) Nodes(cmd *cobra.Command) []string {
	cluster, err := p.access.Cluster()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	names, err := cluster.Nodes(ctx)
	if err != nil {
		return nil
	}
	return names
}

// Kubectl implements program.Cluster.
func (p *pluginCommand) Kubectl(cmd *cobra.Command) (kubeconfig, inContext string, err error) {
	passed := []string{"kubeconfig", "context", "namespace", "request-timeout", "agent-namespace"}
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(passed, f.Name) {
			err = fmt.Errorf("--%s would not be in the script: put it into a context of the kubeconfig, and give --context", f.Name)
		}
	})
	kubeconfig, inContext = p.access.File()
	return kubeconfig, inContext, err
}

func (p *pluginCommand) explain() *cobra.Command {
	var node string
	var verbose bool
	var output console.Form
	cmd := &cobra.Command{
		Use:   "explain POD",
		Short: "Show why a pod has what it has, or why its node rejected it",
		Long: `Explain asks the agent of the pod's node about the pod; see paddock explain --agent. A node still knows a deleted
POD for some time: to ask about it, add --node.

On a node without an agent, the kubelet decides. To explain a pod there, collect the kubelet's files with the
script that kubectl paddock collect --print POD prints, and run paddock explain POD --state FOLDER.

Exit codes: 0 the pod is admitted, 1 error, 2 it is rejected.`,
		Example: `  kubectl paddock explain database
  kubectl paddock explain shop/database -v
  kubectl paddock explain database-7c9 -n shop --node node7`,
		Args: console.Arguments(1, 1, "POD, such as database or shop/database"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := p.access.Cluster()
			if err != nil {
				return err
			}
			namespace, name, err := podArgument(args[0], cluster.Namespace)
			if err != nil {
				return err
			}
			if node == "" {
				if node, err = cluster.NodeOf(cmd.Context(), namespace, name); err != nil {
					return err
				}
			}
			flags := passed(cmd, output)
			if verbose {
				flags = append(flags, "--verbose")
			}
			return p.one(cmd, cluster, []string{node}, kubectl.Question{Name: "explain", Pod: namespace + "/" + name, Flags: flags})
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "ask the agent of this `NODE`, without looking for the pod")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show everything")
	output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (p *pluginCommand) mapOf() *cobra.Command {
	var output console.Form
	cmd := &cobra.Command{
		Use:   "map [NODE]",
		Short: "Draw a node and show which pod has which part of it",
		Long:  `Map draws a node as paddock map does. Without NODE it draws the only node that has an agent.`,
		Example: `  kubectl paddock map node7
  kubectl paddock map node7 -o svg > node7.svg`,
		Args: console.Arguments(0, 1, "at most one NODE"),
		RunE: func(cmd *cobra.Command, nodes []string) error {
			cluster, err := p.access.Cluster()
			if err != nil {
				return err
			}
			return p.one(cmd, cluster, nodes, kubectl.Question{Name: "map", Flags: passed(cmd, output)})
		},
	}
	output.Register(cmd, "term", "svg", "html")
	return cmd
}

// ask returns a command that asks the agents of some nodes, or all agents.
func (p *pluginCommand) ask(name, short string, forms ...string) *cobra.Command {
	var output console.Form
	cmd := &cobra.Command{
		Use:   name + " [NODE...]",
		Short: short,
		Long: fmt.Sprintf(`%s asks the agents of the nodes as paddock %s does on a node. Without a NODE it asks all agents
that can answer, and prints the name of the node before each answer.`, strings.ToUpper(name[:1])+name[1:], name),
		Example: fmt.Sprintf("  kubectl paddock %s\n  kubectl paddock %s node7", name, name),
		RunE: func(cmd *cobra.Command, nodes []string) error {
			cluster, err := p.access.Cluster()
			if err != nil {
				return err
			}
			question := kubectl.Question{Name: name, Flags: passed(cmd, output)}
			if output.Value == "json" || output.Value == "yaml" {
				return p.one(cmd, cluster, nodes, question)
			}
			return p.several(cmd, cluster, nodes, question)
		},
	}
	if len(forms) > 0 {
		output.Register(cmd, forms...)
	}
	return cmd
}

// one asks one agent and passes on its output while the agent prints it, with control characters
// replaced as by printAnswer.
func (p *pluginCommand) one(cmd *cobra.Command, cluster *kubectl.Cluster, nodes []string, q kubectl.Question) error {
	agents, err := p.agents(cmd, cluster, nodes, q)
	if err != nil {
		return err
	}
	if len(agents) != 1 {
		return fmt.Errorf("%d nodes have an agent: name one node, such as %s", len(agents), agents[0].Node)
	}
	stdout, stderr := terminal.NewWriter(cmd.OutOrStdout(), false), terminal.NewWriter(cmd.ErrOrStderr(), false)
	err = exitOf(agents[0].Node, cluster.Ask(cmd.Context(), agents[0], q, stdout, stderr))
	return errors.Join(err, stdout.Flush(), stderr.Flush())
}

// withoutAgent adds to a NoAgentError, on lines of their own, how to ask about a node where the
// kubelet decides. It returns other errors unchanged.
func withoutAgent(err error, q kubectl.Question) error {
	missing := (*kubectl.NoAgentError)(nil)
	if !errors.As(err, &missing) {
		return err
	}
	node := cmp.Or(missing.Node, "NODE")
	return inputs.PodErrors{
		err,
		fmt.Errorf("without an agent, the kubelet decides; to collect its files, print a script, read it, and run it: paddock collect --print --node %s > collect.sh", node),
		fmt.Errorf("then ask about the folder that it makes: paddock explain %s --state ./paddock-%s", cmp.Or(q.Pod, "NAMESPACE/POD"), node),
	}
}

// printAnswer prints the output of an agent. These are bytes from another machine, which may not
// really be the agent's, and even a colour can hide text. An agent has no terminal and prints no
// colours.
func printAnswer(to io.Writer, text []byte) error {
	w := terminal.NewWriter(to, false)
	if _, err := w.Write(text); err != nil {
		return err
	}
	return w.Flush()
}

// agents returns the agents of these nodes, or all that can answer if none is named.
func (p *pluginCommand) agents(cmd *cobra.Command, cluster *kubectl.Cluster, nodes []string, q kubectl.Question) ([]kubectl.Agent, error) {
	agents, err := cluster.Agents(cmd.Context(), p.namespace, nodes...)
	if err != nil {
		return nil, withoutAgent(err, q)
	}
	if len(nodes) > 0 {
		return agents, nil
	}
	if agents = slices.DeleteFunc(agents, func(a kubectl.Agent) bool { return !q.Of(a) }); len(agents) == 0 {
		return nil, errors.New(about[q.Name])
	}
	return agents, nil
}

// about explains, by the name of a question, why no agent can answer it.
var about = map[string]string{
	"trust":  "trust is about nodes whose kubelet decides: Paddock decides on every node that has an agent",
	"verify": "verify is about nodes on which Paddock decides: the kubelet decides on every node that has an agent; to compare its decisions with the predictions: kubectl paddock trust",
}

// several asks agents concurrently and prints the answers in the order of their nodes.
func (p *pluginCommand) several(cmd *cobra.Command, cluster *kubectl.Cluster, nodes []string, q kubectl.Question) error {
	agents, err := p.agents(cmd, cluster, nodes, q)
	if err != nil {
		return err
	}
	var failed []string
	code := 2 // Or 1, if one of the nodes that failed did not just answer no.
	err = cluster.AskAll(cmd.Context(), agents, q, func(a kubectl.Answer) error {
		if len(agents) > 1 {
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "node %s\n", a.Agent.Node); err != nil {
				return err
			}
		}
		if err := printAnswer(cmd.OutOrStdout(), a.Stdout); err != nil {
			return err
		}
		if err := exitOf(a.Agent.Node, a.Err); err != nil {
			failed = append(failed, a.Agent.Node)
			if exit := (*console.ExitError)(nil); !errors.As(err, &exit) || exit.Code != 2 {
				code = 1
			}
			printFailure(cmd.ErrOrStderr(), a, err)
			return nil
		}
		return printAnswer(cmd.ErrOrStderr(), a.Stderr)
	})
	switch {
	case err != nil:
		return err
	case len(failed) > 0 && len(agents) == 1:
		return &console.ExitError{Code: code}
	case len(failed) > 0 && code == 2:
		return &console.ExitError{Code: 2, Err: fmt.Errorf("the answer of %d of %d nodes is no: %s", len(failed), len(agents), strings.Join(failed, ", "))}
	case len(failed) > 0:
		return fmt.Errorf("%d of %d nodes did not answer, or answered with an error: %s", len(failed), len(agents), strings.Join(failed, ", "))
	}
	return nil
}

// printFailure prints what the command printed about its failure, or why it did not run.
func printFailure(stderr io.Writer, a kubectl.Answer, err error) {
	if len(a.Stderr) > 0 {
		_ = printAnswer(stderr, a.Stderr)
		return
	}
	fmt.Fprintf(stderr, "paddock: %s\n", console.OneLine(err.Error()))
}

// exitOf returns the error of a command that ran on a node. If the command failed, it has already
// printed the reason.
func exitOf(node string, err error) error {
	if exit := (*kubectl.ExitError)(nil); errors.As(err, &exit) {
		return &console.ExitError{Code: exit.Code}
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return nil
}

// podArgument parses NAME, pod/NAME and NAMESPACE/NAME.
func podArgument(arg, namespace string) (string, string, error) {
	name := arg
	if prefix, rest, ok := strings.Cut(arg, "/"); ok {
		if name = rest; prefix != "pod" && prefix != "pods" && prefix != "po" {
			namespace = prefix
		}
	}
	if name == "" || namespace == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%q: expected a pod, such as database or shop/database", arg)
	}
	return namespace, name, nil
}

// passed returns the arguments for a command that has the same flag.
func passed(cmd *cobra.Command, f console.Form) []string {
	if !cmd.Flags().Changed("output") {
		return nil
	}
	return []string{"--output", f.Value}
}
