package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/podres"
)

// askTime is how long a command waits for an agent's answer.
const askTime = 10 * time.Second

// podsCommand is one call of paddock pods or paddock pods get.
type podsCommand struct {
	socket string
	output outputFlag
	stdout io.Writer
	stderr io.Writer
}

func newPodsCommand() *cobra.Command {
	var p podsCommand
	cmd := &cobra.Command{
		Use:   "pods",
		Short: "Show what the pods of this node have, as its agent reports",
		Long: `Pods asks the agent of this node, by the PodResources API, which CPUs, memory and devices its pods and their containers have. Standard init containers are not shown.

  table  for reading; the line of a pod is its pool, ISOLATION is with whom a container
         shares its CPUs: none (container), its pod (pod) or the node (host); OFFLINE are
         CPUs that a pod has and cannot use now: they are offline, or reserved since
  wide   every CPU, and which devices
  json   the response as protobuf JSON, in which 64-bit numbers are strings

A kubelet answers too: --socket /var/lib/kubelet/pod-resources/kubelet.sock. Before
Kubernetes 1.37 it does not report pools.`,
		Example: `  paddock pods
  paddock pods -o json | jq -r '.podResources[] | .namespace + "/" + .name'
  paddock pods get default/database`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q: to show one pod, use %s get NAMESPACE/NAME", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.run(cmd, func(ctx context.Context, client *podres.Client) (proto.Message, []*podres.PodResources, error) {
				response, err := client.List(ctx)
				return response, response.GetPodResources(), err
			})
		},
	}
	p.register(cmd)
	cmd.AddCommand(newPodsGetCommand())
	return cmd
}

func newPodsGetCommand() *cobra.Command {
	var p podsCommand
	cmd := &cobra.Command{
		Use:   "get NAMESPACE/NAME",
		Short: "Show what one pod has",
		Long: `Get asks the agent of this node about one pod; see paddock pods.

Exit codes: 0 done, 1 error, 2 there is no such pod.`,
		Example: `  paddock pods get default/database
  paddock pods get default/database -o json | jq -r '.podResources.cpuIds'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, ok := strings.Cut(args[0], "/")
			if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
				return fmt.Errorf("%q: want NAMESPACE/NAME, such as default/database", args[0])
			}
			return p.run(cmd, func(ctx context.Context, client *podres.Client) (proto.Message, []*podres.PodResources, error) {
				response, err := client.Get(ctx, namespace, name)
				return response, []*podres.PodResources{response.GetPodResources()}, err
			})
		},
	}
	p.register(cmd)
	return cmd
}

func (p *podsCommand) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.socket, "socket", podres.DefaultSocket, "where the agent listens: the `PATH` of a unix socket")
	p.output.register(cmd, "table", "wide", "json")
}

// ask is one call of a client: the response, and the pods in it.
type ask func(context.Context, *podres.Client) (proto.Message, []*podres.PodResources, error)

// run asks and prints.
func (p *podsCommand) run(cmd *cobra.Command, ask ask) error {
	p.stdout, p.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	ctx, cancel := context.WithTimeout(cmd.Context(), askTime)
	defer cancel()
	client, err := podres.Dial(ctx, p.socket)
	if errors.Is(err, podres.ErrNobodyListens) {
		return fmt.Errorf(`%w; is "paddock agent" running on this node, and is this its socket (--socket)?`, err)
	}
	if err != nil {
		return err
	}
	defer client.Close()
	response, pods, err := ask(ctx, client)
	if errors.Is(err, podres.ErrNoPod) {
		return &exitError{code: 2, err: err}
	}
	if err != nil {
		return err
	}
	return p.print(response, pods, usable(ctx, client))
}

// usable are the CPUs that pods could have; empty where that cannot be asked, as nothing is marked then.
func usable(ctx context.Context, client *podres.Client) cpuset.Set {
	response, err := client.Allocatable(ctx)
	if err != nil {
		return cpuset.Set{}
	}
	return idSet(response.GetCpuIds())
}

func (p *podsCommand) print(response proto.Message, pods []*podres.PodResources, usable cpuset.Set) error {
	var data []byte
	var err error
	switch {
	case p.output.value == "json":
		data, err = podres.JSON(response)
	case len(pods) == 0:
		fmt.Fprintf(p.stderr, "paddock: note: socket %s: no pods are there\n", p.socket)
	default:
		data = []byte(podsTable(pods, usable, p.output.value == "wide").Text(styleFor(p.stdout)))
	}
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(data)
	return err
}
