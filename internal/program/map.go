package program

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/internal/ui/web"
)

// mapped is the output of map as a document.
type mapped struct {
	nodemap.Map
	// Certainty is nil where Paddock decides.
	Certainty *view.Certainty `json:"certainty,omitempty"`
}

// mapCommand is one invocation of paddock map.
type mapCommand struct {
	node   nodeFlags
	as     asFlag
	strict bool
	// decider admits the pods of the arguments as running pods.
	decider decider
	// certainty is how sure the map of a kubelet's state is.
	certainty *view.Certainty
	agent     agentFlag
	output    console.Form
}

func (c *mapCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "map [PODS...]",
		Short: "Draw a machine and show which pod has which part of it",
		Long: `Map draws the machine: sockets, NUMA nodes, uncore caches and cores with their threads as
cells, memory and huge pages as bars, and devices, each with the colour and the tag of its pod.
"A2@1" is a device near NUMA node 1, assigned to container 2 of pod A. "A2≠1" is remote: the container has
CPUs or memory on another NUMA node. The map shows a saved state, or what the PODS would get; see paddock plan.

  term  for reading here
  svg   a picture for documents and for print; it follows the light or dark theme of its viewer
  html  the same with a table of all names, in one file that loads nothing
  json  what is drawn, in numbers; yaml is the same

Exit codes: 0 done, 1 error, 2 some of the PODS are rejected; the map shows the others.`,
		Example: `  paddock map --machine examples/machines/epyc-2s-nps4.json \
      --kubelet-config examples/kubelet/pod-scope.yaml examples/pods/10-inference.yaml
  paddock map --machine node7.json --state /var/lib/paddock/state.json -o svg > node7.svg
  paddock map --agent`,
		RunE: c.run,
	}
	c.node.register(cmd, "show the pods of a `FILE` that paddock plan --save or the agent wrote, or of a kubelet's directory or its state files with commas, with --as and --pods")
	c.as.register(cmd, "the kubelet that wrote --state")
	console.StrictFlag(cmd, &c.strict)
	kubeNodeFlag(cmd, &c.decider.kubeNode)
	c.agent.register(cmd, "draw the node of the agent that listens on `HOST:PORT`")
	c.output.Register(cmd, "term", "svg", "html", "json", "yaml")
	return cmd
}

func (c *mapCommand) run(cmd *cobra.Command, paths []string) error {
	s := console.StreamsOf(cmd)
	if cmd.Flags().Changed("agent") {
		return c.askAgent(cmd, s, paths)
	}
	c.node.as, c.node.kubeNode = &c.as, c.decider.kubeNode
	n, state, err := c.node.read(s)
	if err != nil {
		return err
	}
	c.decider.as, c.decider.kubelet = c.as, quirk.New(c.as.version)
	compared := c.decider.of(c.node.stock, n)
	if len(paths) == 0 && c.node.stock == nil {
		if err := console.NoEffect(cmd, "without PODS", "node"); err != nil {
			return err
		}
	}
	var decided []decision
	if len(paths) > 0 {
		s.Notes(compared)
		gates := podspec.GatesOf(state.Policy())
		read, err := c.decider.pods(s, inputs.PodFiles{Paths: paths, Gates: gates, Machine: state.Machine(), Strict: c.strict, Ended: inputs.OnlyPod})
		if err != nil {
			return err
		}
		c.decider.started, c.decider.claims = true, read.Claims
		if decided, state, err = c.decider.admitAll(cmd.Context(), state, read.Pods, gates); err != nil {
			return err
		}
	}
	var rejected []string
	for _, made := range decided {
		if plan := made.plan; plan.Rejection != nil {
			rejected = append(rejected, "rejected "+plan.Pod.ID()+": "+plan.Rejection.Error())
		}
	}
	s.Notes(rejected)
	machine := c.node.title(n)
	c.certainty = c.node.stock.certainty(&c.as)
	if err := c.draw(s, nodemap.Of(machine, n.Policy.Text, state, nodemap.NextSlots(nil, nil, state))); err != nil {
		return err
	}
	if len(rejected) > 0 {
		return &console.ExitError{Code: 2}
	}
	return nil
}

// draw renders the whole picture before it writes the first byte.
func (c *mapCommand) draw(s console.Streams, m nodemap.Map) error {
	var picture bytes.Buffer
	var err error
	switch c.output.Value {
	case "json", "yaml":
		return s.Document(c.output.Value, console.Map, mapped{m, c.certainty}, nil)
	case "svg":
		err = m.SVG(&picture, true)
	case "html":
		err = m.HTML(&picture)
	default:
		picture.WriteString(m.Term(s.Style()))
	}
	if err != nil {
		return err
	}
	_, err = s.Stdout.Write(picture.Bytes())
	return err
}

// askAgent prints the map of a running node, which its agent draws.
func (c *mapCommand) askAgent(cmd *cobra.Command, s console.Streams, paths []string) error {
	if err := c.agent.check(cmd); err != nil {
		return err
	}
	if len(paths) > 0 {
		return fmt.Errorf("%q: with --agent the map shows the pods of the node; the agent's address is written with an equals sign, --agent=HOST:PORT", paths[0])
	}
	form := c.output.Value
	if form == "yaml" {
		form = "json"
	}
	data, err := c.agent.ask(cmd.Context(), s, "/api/map", url.Values{
		"form": {form}, "width": {strconv.Itoa(min(cmp.Or(s.Width(), console.PageWidth), web.MaxWidth))}, "color": {strconv.FormatBool(s.Style().Color)},
	})
	if err != nil {
		return err
	}
	if form == "json" {
		return s.Document(c.output.Value, console.Map, json.RawMessage(data), nil)
	}
	_, err = s.Stdout.Write(data)
	return err
}
