package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/podres"
)

const (
	// askTime is how long a command waits for an agent's answer.
	askTime = 10 * time.Second
	// watchPeriod is how often --watch asks. The API has no stream, and an answer takes about 1 ms.
	watchPeriod = time.Second
)

// podsCommand is one invocation of paddock pods.
type podsCommand struct {
	socket, namespace string
	all, watch        bool
	output            console.Form
}

func (c *podsCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pods",
		Short: "Show what the pods of this node have, as its agent reports",
		Long: `Pods asks the agent of this node, through the PodResources API, which CPUs, memory and devices its pods
and their containers have. It does not show standard init containers.

  text   for reading; the line of a pod shows its pool; ISOLATION shows who shares the CPUs
         of a container: only itself (container), its pod (pod) or the node (host);
         OFFLINE are CPUs that a pod has but cannot use, because they are offline or were
         reserved later; DEVICES are those of device plugins and claims, with their NUMA
         nodes, and "remote" if CPUs or memory of the container are on another one; MOVES
         shows a pod that is being moved, which has its old and its new CPUs until then,
         or that was moved since the agent started; CACHES shows which parts of the caches
         and of the memory bandwidth a container, or a pool, has for itself, if any has
  wide   every CPU, and the pools and claims of devices
  json   the response as protobuf JSON, in which 64-bit numbers are strings; yaml is the same;
         a pod that is or was moved has the additional field "moves"

With --watch, it prints the pods again when something has changed, until Ctrl-C.

You can also ask a kubelet: --socket /var/lib/kubelet/pod-resources/kubelet.sock. Before
Kubernetes 1.37 it does not report pools.`,
		Example: `  paddock pods
  paddock pods -n prod --watch
  paddock pods -o json | jq -r '.podResources[] | .namespace + "/" + .name'
  paddock pods get default/database`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q: to show one pod, use %s get NAMESPACE/NAME", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.ask(cmd, func(ctx context.Context, client *podres.Client, extras *podres.Extras) (proto.Message, []*podres.PodResources, error) {
				response, err := client.List(ctx, extras)
				if err == nil && c.namespace != "" {
					response.PodResources = slices.DeleteFunc(response.PodResources, func(p *podres.PodResources) bool { return p.GetNamespace() != c.namespace })
				}
				return response, response.GetPodResources(), err
			})
		},
	}
	c.register(cmd, "only the pods of a `NAMESPACE`")
	cmd.Flags().BoolVarP(&c.all, "all-namespaces", "A", false, "the pods of all namespaces, which is the default")
	console.Exclude(cmd, "namespace", "all-namespaces")
	add(cmd, &podsGetCommand{})
	return cmd
}

// podsGetCommand is one invocation of paddock pods get.
type podsGetCommand struct{ podsCommand }

func (c *podsGetCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get NAMESPACE/NAME | get NAME -n NAMESPACE",
		Short: "Show what one pod has",
		Long: `Get asks the agent of this node about one pod; see paddock pods.

Exit codes: 0 done, 1 error, 2 there is no such pod.`,
		Example: `  paddock pods get default/database
  paddock pods get default/database -o json | jq -r '.podResources.cpuIds'`,
		Args: console.Arguments(1, 1, "one pod: NAMESPACE/NAME"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return podsOfNode(cmd.Context(), c.socket), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, err := podName(args[0], c.namespace)
			if err != nil {
				return err
			}
			return c.ask(cmd, func(ctx context.Context, client *podres.Client, extras *podres.Extras) (proto.Message, []*podres.PodResources, error) {
				response, err := client.Get(ctx, namespace, name, extras)
				if err == nil && (c.output.Value == "text" || c.output.Value == "wide") {
					var all podres.Extras // An answer about one pod has no classes. Without them, the column is missing.
					if _, missing := client.List(ctx, &all); missing == nil {
						extras.Caches, extras.CachesError = all.Caches, all.CachesError
					}
				}
				return response, []*podres.PodResources{response.GetPodResources()}, err
			})
		},
	}
	c.register(cmd, "the `NAMESPACE` of a pod that is named without one")
	return cmd
}

// podName returns the namespace and the name of a pod that a user names.
func podName(text, namespace string) (string, string, error) {
	before, name, ok := strings.Cut(text, "/")
	switch {
	case !ok && namespace != "" && text != "":
		return namespace, text, nil
	case !ok || before == "" || name == "" || strings.Contains(name, "/"):
		return "", "", fmt.Errorf("%q: expected NAMESPACE/NAME, such as default/database", text)
	case namespace != "" && namespace != before:
		return "", "", fmt.Errorf("%q and --namespace %s name two namespaces: leave one out", text, namespace)
	}
	return before, name, nil
}

// podsOfNode returns the names of the pods of this node, for completion. It returns none if the
// agent does not answer.
func podsOfNode(ctx context.Context, socket string) []string {
	ctx, cancel := context.WithTimeout(ctx, watchPeriod) // A person waits at a prompt.
	defer cancel()
	client, err := podres.Dial(ctx, socket)
	if err != nil {
		return nil
	}
	defer client.Close()
	response, err := client.List(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, p := range response.GetPodResources() {
		names = append(names, p.GetNamespace()+"/"+p.GetName())
	}
	return names
}

func (c *podsCommand) register(cmd *cobra.Command, namespaceUsage string) {
	cmd.Flags().StringVar(&c.socket, "socket", podres.DefaultSocket, "where the agent listens: the `PATH` of a unix socket")
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", namespaceUsage)
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "print the pods again when something has changed, until Ctrl-C")
	c.output.Register(cmd, "text", "wide", "json", "yaml")
}

// question is one call of a client. It returns the response and the pods in it. It fills the Extras
// with the data for which the messages have no field.
type question func(context.Context, *podres.Client, *podres.Extras) (proto.Message, []*podres.PodResources, error)

// ask asks and prints, once or until a signal.
func (c *podsCommand) ask(cmd *cobra.Command, q question) error {
	s := console.StreamsOf(cmd)
	data, err := c.answer(cmd.Context(), s, q)
	if err != nil || !c.watch {
		_, writing := s.Stdout.Write(data)
		return errors.Join(err, writing)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	away := false
	for before := []byte(nil); ; {
		if err == nil && !bytes.Equal(data, before) {
			if err := again(s, before != nil); err != nil {
				return err
			}
			if _, err := s.Stdout.Write(data); err != nil {
				return err
			}
			before = data
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		data, err = c.answer(ctx, s, q)
		if exit := (*console.ExitError)(nil); errors.As(err, &exit) {
			return err
		}
		if err != nil && !away && ctx.Err() == nil {
			s.NoteNow(err.Error() + "; pods asks it again")
		}
		away = err != nil
	}
}

// again separates two answers: it clears a terminal, and writes an empty line to any other output.
func again(s console.Streams, printed bool) error {
	var err error
	switch {
	case s.IsTerminal():
		_, err = console.FileOf(s.Stdout).WriteString("\x1b[H\x1b[2J")
	case printed:
		_, err = io.WriteString(s.Stdout, "\n")
	}
	return err
}

// answer asks once. The text is ready to be printed.
func (c *podsCommand) answer(ctx context.Context, s console.Streams, q question) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	client, err := podres.Dial(ctx, c.socket)
	if errors.Is(err, podres.ErrNoListener) {
		return nil, fmt.Errorf(`%w; is "paddock agent" running on this node, and is this its socket (--socket)?`, err)
	}
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var extras podres.Extras
	response, pods, err := q(ctx, client, &extras)
	if errors.Is(err, podres.ErrNoPod) {
		return nil, &console.ExitError{Code: 2, Err: err}
	}
	if err != nil {
		return nil, err
	}
	// These are the CPUs that pods could have. If they are not known, no CPU is marked as offline.
	var usable cpuset.Set
	if allocatable, err := client.Allocatable(ctx); err == nil {
		usable = idSet(allocatable.GetCpuIds())
	}
	switch c.output.Value {
	case "json":
		return podres.JSON(response, extras.Moves)
	case "yaml":
		data, err := podres.JSON(response, extras.Moves)
		if err != nil {
			return nil, err
		}
		return yaml.JSONToYAML(data)
	}
	if extras.CachesError != nil {
		s.Notes([]string{fmt.Sprintf("socket %s: the classes of the caches are not shown: %v", c.socket, extras.CachesError)})
	}
	if len(pods) == 0 {
		s.Notes([]string{fmt.Sprintf("socket %s: the node has no pods", c.socket)})
		return nil, nil
	}
	return []byte(podsTable(pods, extras, usable, c.output.Value == "wide").Text(s.Style())), nil
}
