package program

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// reportCommand is one invocation of paddock report.
type reportCommand struct {
	node   nodeFlags
	as     asFlag
	agent  agentFlag
	like   string
	strict bool
	output console.Form
}

func (c *reportCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Show how a node's CPUs and memory are used, and how large a pod still fits",
		Long: `Report shows for each NUMA node what is exclusive, pooled, idle in pools, reserved and free,
what is free but lost to alignment, which pods have more than their containers can use, and
the largest pod of one container that each topology policy would admit now:

  MOST CPUS             with the least memory that suffices
  MOST MEMORY, NO CPUS  of a container that shares its CPUs
  IN PROPORTION         CPUs with as much memory for each as the machine has
  LOST                  the difference to policy none, which aligns nothing

Stranded CPUs are free, but typical requests leave them over: requests like those of the pods on the node or,
if none has exclusive CPUs, for 1, 2, 4, 8, 16 and 32 CPUs. STRANDED is the mean over these requests.

With --like, it shows instead how far that pod can grow, for each number of its devices:

` + view.LikeHelp + `

The container with the most CPUs grows, and a pod-level budget with it. For a fleet, see paddock fleet largest.

Every amount that can matter has been planned, unless there were too many: the amount is then followed by "or more",
and fits. A kubelet reads its configuration only when it starts, so the other policies are left out if it does not start
again on its files.

Exit codes: 0 done, 1 error, 2 the files of a kubelet do not show enough, so that the report is unsure.`,
		Example: `  paddock report --machine node7.json --state node7.state --kubelet-config kubelet.yaml
  paddock report --machine node7.json --state node7.state --like train.yaml
  paddock report --agent`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	c.node.register(cmd, "the pods on the node: a `FILE` that paddock plan --save or the agent wrote, or a kubelet's directory or its state files with commas, with --as and --pods")
	c.as.register(cmd, "the kubelet that wrote --state, and decides")
	c.agent.register(cmd, "report on the node of the agent that listens on `HOST:PORT`")
	cmd.Flags().StringVar(&c.like, "like", "", "show how large a pod like this one can be: a `FILE` with its manifest, or \"-\" for standard input")
	console.StrictFlag(cmd, &c.strict)
	console.Exclude(cmd, "agent", "like")
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (c *reportCommand) run(cmd *cobra.Command, _ []string) error {
	s := console.StreamsOf(cmd)
	if cmd.Flags().Changed("agent") {
		return c.askAgent(cmd, s)
	}
	c.node.as = &c.as
	n, state, err := c.node.read(s)
	if err != nil {
		return err
	}
	usage, err := explain.Usage(cmd.Context(), state)
	if err != nil {
		return err
	}
	r := view.ReportOf(n.Found.Name, n.Policy.Text, state, usage)
	r.Certainty = c.node.stock.certainty(&c.as)
	if r.Certainty != nil {
		r.Kubelet = c.as.String()
	}
	if c.like != "" {
		if err := c.addLike(cmd, s, n, state, &r); err != nil {
			return fmt.Errorf("--like: %w", err)
		}
	}
	return c.print(s, r)
}

// print prints the report. It returns an error if the report is unsure.
func (c *reportCommand) print(s console.Streams, r view.Report) error {
	if err := s.Document(c.output.Value, console.Report, r, func() string { return r.Text(s.Style()) }); err != nil {
		return err
	}
	if r.Certainty.IsUnsure() {
		return &console.ExitError{Code: 2}
	}
	return nil
}

// addLike adds the largest size of a pod like that of --like.
func (c *reportCommand) addLike(cmd *cobra.Command, s console.Streams, n *inputs.Node, state *node.State, r *view.Report) error {
	gates := podspec.GatesOf(state.Policy())
	read, err := s.Pods(inputs.PodFiles{Paths: []string{c.like}, Gates: gates, Machine: n.Found.Machine, Strict: c.strict, Ended: inputs.OnlyPod})
	if err != nil {
		return err
	}
	pod, err := onePod(read.Pods, gates)
	if err != nil {
		return fmt.Errorf("%s: %w", c.like, err)
	}
	doubts, state, err := c.doubts(s, state, &pod)
	if err != nil {
		return err
	}
	like, err := explain.LikeOn(cmd.Context(), []explain.Place{{State: state, Nodes: 1}}, pod)
	listed := state.Devices().Inventory().Resources()
	for _, name := range like.Undescribed {
		switch k := c.node.stock; {
		case len(listed) > 0 || k != nil && k.shown.KnowsDevices():
			return fmt.Errorf("%s: the node lists no %s, so it takes no pod of any size with it: %s", c.like, name,
				spelling.InsteadOfResource(name, listed, "add it to the devices of --devices, if the node has it"))
		case k == nil: // The doubts about a kubelet's files have these resources.
			doubts = append(doubts, unlistedDoubt(name))
		}
	}
	r.LikePod, r.Like = pod.ID(), &like
	switch {
	case r.Certainty != nil:
		for _, note := range like.Notes {
			doubts = append(doubts, view.Doubt{Reason: note, Give: treatment.GiveNUMANodes})
		}
		r.Certainty = view.CertaintyOf(slices.Concat(r.Certainty.Doubts, doubts), r.Certainty.Pods)
	case len(doubts) > 0:
		r.Certainty = view.CertaintyOf(doubts, nil)
	}
	return err
}

// doubts returns the reasons why a kubelet may decide differently about the pod, with the state for
// plans.
func (c *reportCommand) doubts(s console.Streams, state *node.State, pod *request.Pod) ([]view.Doubt, *node.State, error) {
	if c.node.stock == nil {
		return nil, state, nil
	}
	shown := c.node.stock.shown
	doubts := shown.Doubts(pod)
	for _, d := range doubts {
		if !slices.Contains(shown.OfNode(), d) {
			s.Notes([]string{"unsure: " + d.String()})
		}
	}
	state, err := shown.ForPlans(state)
	return doubts, state, err
}

// onePod returns the request of a pod, or of the first of several pods that are alike.
func onePod(pods []*v1.Pod, gates podspec.Gates) (first request.Pod, err error) {
	for i, p := range pods {
		pod, err := podspec.Request(p, gates)
		switch {
		case err != nil:
			return pod, err
		case i == 0:
			first = pod
		case pod.Ask.Key() != first.Ask.Key():
			return pod, fmt.Errorf("it has %d pods that differ, expected one", len(pods))
		}
	}
	return first, nil
}

// askAgent prints the report of a running node.
func (c *reportCommand) askAgent(cmd *cobra.Command, s console.Streams) error {
	if err := c.agent.check(cmd); err != nil {
		return err
	}
	data, err := c.agent.ask(cmd.Context(), s, "/api/report", nil)
	if err != nil {
		return err
	}
	var r view.Report
	if err := json.Unmarshal(data, &r); err != nil || len(r.Usage.Nodes) == 0 {
		return fmt.Errorf("agent at %s: the answer is not a report: is this the listen address of a Paddock agent?", c.agent.address)
	}
	return c.print(s, r)
}
