package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// defragmentCommand is one invocation of paddock defragment.
type defragmentCommand struct {
	node    nodeFlags
	strict  bool
	decider decider
	agent   agentFlag
	moves   int
	memory  string
	all     bool
	carry   bool
	output  console.Form
}

func (c *defragmentCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "defragment [PODS...]",
		Short: "Show which moves of running pods make room for a larger pod",
		Long: `Defragment shows which running pods would have to move so that the largest pod that fits on one NUMA node is
larger: a Guaranteed pod of one container with exclusive CPUs. Without --carry-out, it changes nothing.

For each move, it shows the memory that moves to other NUMA nodes, and the largest pod that fits after the move. The moves
are in an order in which every place is free when a pod moves there. All rules have been checked on the state after each
move. The planner chooses every place, and a pod stays at least as aligned as it is. A pod moves only if its annotation
paddock-project.github.io/moves is "anywhere". With --all, other pods move too, and the output names them.

With --agent and --carry-out, the agent then makes these moves, one at a time. Its configuration must allow this
(moves.onRequest), and so must its policy (cpuManagerPolicy: dynamic, with memory to move). If the pods of the node have
changed since the list was made, the agent moves nothing.

The best result is the largest pod, then the least memory, then the fewest moves. The search covers all sets of two pods,
and all sets of three pods on one NUMA node. It builds larger sets pod by pod, so it can miss a better one. It can also miss
one with pods on several NUMA nodes, and under policy best-effort. The same input always gives the same moves.

With -o term, svg or html, it draws the node as paddock map does, with an arrow for each move. With -o term, it also draws
the node after the moves.

On a node whose kubelet decides (--state with the kubelet's directory, or an agent that observes), no pod can move. There it
shows which pods of one NUMA node to delete, at most three, so that the largest pod that fits is larger, and the steps in
an order that is safe under any scheduler: the node is cordoned until the larger pod runs. Beside it, the deleted pods
fit again, in every order, also by their requests (OutOfcpu). It never names a pod that would come back at once: a static
pod, one of a DaemonSet, or one that tolerates the taint of a cordoned node. It never deletes a pod by itself.

PODS are admitted first, as by paddock map. With --agent, it asks about the node of a running agent.

Exit codes: 0 there are such moves, 1 error, 2 nothing makes room for a larger pod, or the answer is unsure.`,
		Example: `  paddock defragment --machine node7.json --state node7.state --kubelet-config kubelet.yaml
  paddock defragment --agent --all -o json`,
		RunE: c.run,
	}
	c.node.register(cmd, "the pods on the node: a `FILE` that paddock plan --save or the agent wrote")
	console.StrictFlag(cmd, &c.strict)
	c.decider.as.register(cmd, "the kubelet that wrote --state, and decides")
	kubeNodeFlag(cmd, &c.decider.kubeNode)
	c.agent.register(cmd, "ask about the node of the agent that listens on `HOST:PORT`")
	cmd.Flags().IntVar(&c.moves, "moves", 8, "move at most `N` pods")
	cmd.Flags().StringVar(&c.memory, "memory", "", "move at most a `QUANTITY` of memory between NUMA nodes, such as 16Gi; default: no limit")
	cmd.Flags().BoolVar(&c.all, "all", false, "also move pods that do not consent")
	cmd.Flags().BoolVar(&c.carry, "carry-out", false, "with --agent: make the moves")
	c.output.Register(cmd, append([]string{"text", "json", "yaml"}, drawings...)...)
	return cmd
}

// wish returns the limits that the flags set.
func (c *defragmentCommand) wish() (explain.Wish, error) {
	w := explain.Wish{Moves: c.moves, Bytes: 1 << 62, All: c.all}
	if c.moves < 1 || c.moves > explain.MaxDefragMoves {
		return w, fmt.Errorf("--moves %d: expected a number from 1 to %d", c.moves, explain.MaxDefragMoves)
	}
	if c.memory != "" {
		q, err := podspec.ParseQuantity(c.memory)
		if err != nil || q.Sign() < 0 {
			return w, fmt.Errorf("--memory %q: expected a quantity of bytes such as 16Gi, or 0", c.memory)
		}
		if q.CmpInt64(w.Bytes) < 0 { // Value wraps around beyond 64 bits.
			w.Bytes = q.Value()
		}
	}
	return w, nil
}

func (c *defragmentCommand) run(cmd *cobra.Command, paths []string) error {
	s := console.StreamsOf(cmd)
	wish, err := c.wish()
	if err != nil {
		return err
	}
	switch {
	case c.carry && (!cmd.Flags().Changed("agent") || c.all):
		return errors.New("--carry-out: expected --agent and no --all: an agent moves only pods of its node that consent")
	case cmd.Flags().Changed("agent"):
		return c.askAgent(cmd, s, paths, wish)
	}
	if kubelets, err := treatment.OfKubelet(s.Reader(), c.node.state); err == nil && kubelets {
		return c.advise(cmd, s, paths, wish)
	}
	if err := console.NoEffect(cmd, "without a kubelet's --state: no kubelet moves a pod", "as"); err != nil {
		return err
	}
	n, state, err := c.node.read(s)
	if err != nil {
		return err
	}
	if len(paths) > 0 {
		state, err = c.admit(cmd, s, state, paths)
	} else {
		err = console.NoEffect(cmd, "without PODS", "node")
	}
	if err != nil {
		return err
	}
	found, states, err := explain.Defragment(cmd.Context(), state, wish)
	if err != nil {
		return err
	}
	if slices.Contains(drawings, c.output.Value) {
		return c.draw(s, n, state, states)
	}
	return c.print(s, view.Defragmentation{Machine: n.Found.Name, Policy: n.Policy.Text, Defragmentation: found})
}

// advise answers for a node whose kubelet decides. A kubelet moves no pod, so the answer is which
// pods to delete.
func (c *defragmentCommand) advise(cmd *cobra.Command, s console.Streams, paths []string, wish explain.Wish) error {
	switch {
	case slices.Contains(drawings, c.output.Value):
		return fmt.Errorf("-o %s: with a kubelet's --state, expected text, json or yaml: a kubelet moves no pod, so there is nothing to draw", c.output.Value)
	case cmd.Flags().Changed("memory") || c.all:
		return errors.New("--memory and --all are about moves, and a kubelet moves no running pod: leave them out with a kubelet's --state")
	case len(paths) > 0:
		return fmt.Errorf("%q: with a kubelet's --state the pods are those of the node; paddock explain shows which pods to delete for a certain pod", paths[0])
	}
	c.node.as, c.node.kubeNode = &c.decider.as, c.decider.kubeNode
	n, state, err := c.node.read(s)
	if err != nil {
		return err
	}
	k := c.node.stock
	if state, err = k.shown.ForPlans(state); err != nil {
		return err
	}
	s.Notes(c.decider.of(k, n))
	d, err := treatment.Advise(cmd.Context(), state, c.decider.beside.requests.Pods(), c.decider.beside.node, wish)
	if err != nil {
		return err
	}
	d.Machine, d.Policy = n.Found.Name, c.node.as.version.Name()+" decides: "+n.Policy.Text
	d.Certainty = k.certainty(&c.decider.as)
	return c.print(s, d)
}

// drawings are the output forms that draw a map.
var drawings = []string{"term", "svg", "html"}

// draw draws the node before the moves, with an arrow for each move. In a terminal it also draws
// the node after the moves.
func (c *defragmentCommand) draw(s console.Streams, n *inputs.Node, state *node.State, states []*node.State) error {
	machine := c.node.title(n)
	slots := nodemap.NextSlots(nil, nil, state)
	var arrows []nodemap.Arrow
	before := state
	for _, after := range states {
		for _, g := range after.Grants() {
			if was, there := before.Grant(g.Pod.UID); there && was.Resized != g.Resized {
				arrows = append(arrows, nodemap.ArrowOf(was, g))
			}
		}
		before = after
	}
	drawn := &mapCommand{output: c.output}
	if err := drawn.draw(s, nodemap.Of(machine, n.Policy.Text, state, slots).WithArrows(arrows)); err != nil {
		return err
	}
	if len(arrows) == 0 {
		return &console.ExitError{Code: 2}
	}
	if c.output.Value != "term" {
		return nil
	}
	return drawn.draw(s, nodemap.Of(machine+", after the moves", n.Policy.Text, before, slots))
}

// admit admits the pods in the files. It returns an error if one is rejected.
func (c *defragmentCommand) admit(cmd *cobra.Command, s console.Streams, state *node.State, paths []string) (*node.State, error) {
	gates := podspec.GatesOf(state.Policy())
	read, err := c.decider.pods(s, inputs.PodFiles{Paths: paths, Gates: gates, Machine: state.Machine(), Strict: c.strict, Ended: inputs.OnlyPod})
	if err != nil {
		return nil, err
	}
	c.decider.started, c.decider.claims = true, read.Claims
	decided, state, err := c.decider.admitAll(cmd.Context(), state, read.Pods, gates)
	for _, made := range decided {
		if p := made.plan; err == nil && p.Rejection != nil {
			err = fmt.Errorf("%s is rejected and does not run: %w; leave it out", p.Pod.ID(), p.Rejection)
		}
	}
	return state, err
}

func (c *defragmentCommand) print(s console.Streams, d view.Defragmentation) error {
	if err := s.Document(c.output.Value, console.Defragmentation, d, func() string { return d.Text(s.Style()) }); err != nil {
		return err
	}
	if !d.Gains() || d.Certainty.IsUnsure() {
		return &console.ExitError{Code: 2}
	}
	return nil
}

// askAgent asks about the node of a running agent.
func (c *defragmentCommand) askAgent(cmd *cobra.Command, s console.Streams, paths []string, wish explain.Wish) error {
	if err := c.agent.check(cmd); err != nil {
		return err
	}
	if slices.Contains(drawings, c.output.Value) {
		return fmt.Errorf("-o %s: with --agent, expected text, json or yaml; a map with arrows is made of files: --machine, --kubelet-config and --state", c.output.Value)
	}
	if len(paths) > 0 {
		return fmt.Errorf("%q: with --agent the pods are those of the node; the agent's address is written with an equals sign, --agent=HOST:PORT", paths[0])
	}
	data, err := c.agent.ask(cmd.Context(), s, "/api/defragment", url.Values{
		"moves": {strconv.Itoa(wish.Moves)}, "bytes": {strconv.FormatInt(wish.Bytes, 10)}, "all": {strconv.FormatBool(wish.All)},
	})
	if err != nil {
		return err
	}
	var d view.Defragmentation
	if err := json.Unmarshal(data, &d); err != nil || d.Machine == "" {
		return fmt.Errorf("agent at %s: the answer is not a list of moves: is this the listen address of a Paddock agent, and does the agent have this version?", c.agent.address)
	}
	if d.Advice != nil && c.carry {
		return errors.New("--carry-out: the kubelet of this node decides, and moves no running pod: leave out --carry-out to see which pods to delete")
	}
	err = c.print(s, d)
	if err != nil || !c.carry {
		return err
	}
	asked := agent.MovesRequest{CarryOut: true, Moves: []agent.MoveRequest{}, Defragment: &agent.DefragmentRequest{Moves: wish.Moves, Bytes: wish.Bytes}}
	for _, m := range d.Moves {
		asked.Defragment.Answer = append(asked.Defragment.Answer, m.PodMove)
	}
	if err := c.agent.post(cmd.Context(), "/api/v1/moves", asked); err != nil {
		return fmt.Errorf("nothing is moved: %w", err)
	}
	s.Notes([]string{"the agent makes these moves now, one at a time; paddock pods shows the progress"})
	return nil
}
