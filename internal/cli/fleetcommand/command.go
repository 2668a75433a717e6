// Package fleetcommand is the command fleet with its subcommands. It reads nodes and pods, asks
// package capacity, and prints the answer through package view. It decides nothing.
//
// # The page of a cluster that changes
//
// Live is a fleetpage.Source on top of a fleetwatch.Watch. It takes the present moment at most once
// a second, and makes the view of a node again only if the node has changed. The pods of the
// cluster define which requests are typical, and therefore which CPUs count as stranded. They are
// counted again every ten minutes.
//
// To show which of the pods without a node every node rejects, Live places them on a copy, as
// "paddock fleet" does. This runs in the background, for at most a tenth of the time.
package fleetcommand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/kubectl"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/shapes"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// fleetCommand is one invocation of paddock fleet.
type fleetCommand struct {
	nodes, pods         []string
	columns, gpu        string
	whole, keep, strict bool
	placements          bool
	scoring, order      string
	// podless is set if there is an answer without pods.
	podless bool
	fill    int64
	seed    uint64
	most    int
	time    time.Duration
	output  console.Form
	cluster kubectl.Access
	program Program
}

// New returns the command. The subcommands that watch a cluster are included only in a program
// without Rules.
func New(p Program) *cobra.Command {
	c := &fleetCommand{program: p}
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show whether pods fit on a fleet of nodes, and why some would be rejected everywhere",
		Long: `Fleet places pods on many nodes, one after the other, in the order given. Every node decides as
"paddock plan" does for this node alone. A pod goes to the node where it strands the fewest CPUs, or
to the one that --scoring prefers. Fleet changes no node.
With --order largest-first, the pods that take the largest share of a node come first.

NODES is a file with a list of {name, count, machine, make, kubeletConfig, devices, as, state, labels, taints, price};
files in it are relative to it. With make, in place of machine, the machine is made of facts as by "paddock topology --make",
and its gpus are devices. NODES can be a CSV file with the columns name, count, kubeletConfig, price, sockets, cores,
threads, numa, uncore, memory and gpus. Columns that are not known are skipped with a note. With state, the directory of a kubelet or one that the script of "paddock collect"
made, the entry is that node with its pods, and what is not given comes from there. NODES can also be such a
directory, or the output of
  kubectl get nodes,paddocknodes,paddockmachines,pods -A -o json
or "live": fleet then reads these objects from the cluster that kubectl is configured for. In both cases,
the nodes have the pods that are bound to them, and without --pods, fleet places the pods that are not
bound. Without pods to place, fleet shows the nodes as they are. PODS are manifests as for "paddock plan", or a CSV file of shapes with the columns
cpu or cpu_milli; memory, memory_mib or memory_gib; gpu; count; max_per_node, the most pods of the row on a node; name. ` + p.constraints() + `

` + p.drawing() + `

With --fill, fleet draws pods from PODS at random, weighted by their counts, until no shape fits anywhere or
N pods are placed. A drawn pod that no node takes shows that the fleet is full for its shape.

Exit codes: 0 all pods are placed, or --fill is given; 1 error or interrupted; 2 some are rejected by every node.`,
		Example: `  paddock fleet --nodes nodes.yaml --pods pods/
  paddock fleet --nodes nodes.yaml --pods trace.csv --whole-cpus --fill 0 --seed 7
  kubectl get nodes,paddocknodes,paddockmachines,pods -A -o json | paddock fleet --nodes -
  paddock fleet size --nodes nodes.yaml --pods pods/
  paddock fleet try --nodes nps1.yaml --nodes nps4.yaml --pods trace.csv`,
		Args: console.NoArguments,
		RunE: c.fit,
	}
	c.register(cmd)
	flags := cmd.Flags()
	c.registerFill(cmd)
	flags.BoolVar(&c.placements, "placements", false, "list the node of every pod")
	c.output.Register(cmd, p.forms("table", "json", "yaml", "csv", "html")...)
	with := func() *fleetCommand { return &fleetCommand{program: p} }
	cmd.AddCommand(with().sizeCommand(), with().tryCommand(), with().largestCommand())
	if p.Rules == nil {
		cmd.AddCommand(with().serveCommand(), with().rejectionsCommand())
	}
	for _, c := range append(cmd.Commands(), cmd) {
		c.Long, c.Example = p.named(c.Long), p.named(c.Example)
	}
	return cmd
}

// register defines the flags that all questions share.
func (c *fleetCommand) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	c.registerNodes(cmd)
	flags.StringArrayVar(&c.pods, "pods", nil, "the pods: a `FILE` or directory of manifests, a CSV file of shapes, or \"-\" for manifests on standard input; can be repeated")
	flags.StringVar(&c.columns, "columns", "", "names of CSV columns: a YAML `FILE` such as {vcpus: cpu, owner: \"-\"}")
	flags.StringVar(&c.gpu, "gpu", shapes.DefaultGPU, "the `RESOURCE` of CSV column gpu")
	flags.BoolVar(&c.whole, "whole-cpus", false, "round the CPUs of CSV shapes up, so that all qualify for exclusive CPUs")
	flags.BoolVar(&c.keep, "keep-going", false, "report kinds of nodes and CSV rows that cannot be read, and go on without them")
	var words []string
	for _, s := range fleet.Scorings() {
		words = append(words, s.String())
	}
	flags.StringVar(&c.scoring, "scoring", words[0], "how a node is chosen: "+strings.Join(words, ", "))
	words = nil
	for _, o := range capacity.Orders() {
		words = append(words, string(o))
	}
	flags.StringVar(&c.order, "order", words[0], "the order in which pods are placed: "+strings.Join(words, ", "))
	console.StrictFlag(cmd, &c.strict)
	console.Need(cmd, "a CSV file in --pods", func() bool { return slices.ContainsFunc(c.pods, isCSV) }, "columns", "gpu", "whole-cpus")
}

// registerFill defines the flags that draw pods at random.
func (c *fleetCommand) registerFill(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&c.fill, "fill", 0, "draw pods until `N` are placed; 0: until no shape fits anywhere")
	cmd.Flags().Uint64Var(&c.seed, "seed", 1, "the random seed of --fill")
	console.Need(cmd, "--fill", func() bool { return cmd.Flags().Changed("fill") }, "seed")
}

// registerNodes defines the flags that name the source of the nodes.
func (c *fleetCommand) registerNodes(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&c.nodes, "nodes", nil, "the nodes: a `FILE`, \"-\" for standard input, or \"live\" for the cluster of kubectl")
	console.Require(cmd, "nodes", "a file with the nodes, \"-\" for standard input, or live for the cluster of kubectl")
	c.cluster.RegisterContext(cmd.Flags())
	console.Need(cmd, "--nodes live", func() bool { return slices.Contains(c.nodes, discover.LiveName) }, "kubeconfig", "context")
}

func (c *fleetCommand) fit(cmd *cobra.Command, _ []string) error {
	s := console.StreamsOf(cmd)
	c.podless = !cmd.Flags().Changed("fill")
	q, err := c.one(cmd.Context(), s, false)
	if err != nil {
		return err
	}
	switch {
	case len(c.pods) == 0 && !q.nodes.Running: // Without pods, no node is chosen.
		err = console.NoEffect(cmd, "without --pods", "scoring", "order", "placements")
	case len(c.pods) > 0 && !slices.ContainsFunc(q.items, func(i capacity.Item) bool { return i.Count > 0 }):
		err = fmt.Errorf("%s: there are no pods to place", strings.Join(c.pods, ", "))
	}
	if err != nil {
		return err
	}
	q.options.Placements = c.placements || c.output.Value == "html"
	r, answer, err := c.place(cmd, s, q)
	if err != nil {
		return err
	}
	if err := c.print(s, q, answer, r); err != nil || answer.Question == "fill" {
		return err
	}
	return rejected(r)
}

// place places the pods, or fills the fleet with them.
func (c *fleetCommand) place(cmd *cobra.Command, s console.Streams, q *fleetQuestion) (r *capacity.Result, answer *view.Fleet, err error) {
	filling, err := c.filling(cmd)
	if err != nil {
		return nil, nil, err
	}
	ctx, stop, a := interruptible(cmd.Context(), s, &q.options)
	defer stop()
	question, seed := "fit", (*uint64)(nil)
	switch {
	case filling:
		question, seed = "fill", &c.seed
		r, err = capacity.Fill(ctx, q.nodes.Kinds, q.items, c.fill, c.seed, q.options)
	case len(q.items) == 0:
		question = "now"
		r, err = capacity.Now(ctx, q.nodes.Kinds, q.options)
	default:
		r, err = capacity.Fit(ctx, q.nodes.Kinds, q.items, q.options)
	}
	switch {
	case errors.Is(err, capacity.ErrEndless):
		return nil, nil, fmt.Errorf("--fill: %w", err)
	case err != nil && a.ended():
		return nil, nil, a.outcome(err)
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", c.nodes[0], err)
	}
	found := view.FleetOf(question, c.scoring, r, q.nodes.Policies)
	found.NotCounted, found.Unplaced, found.Seed = q.nodes.NotCounted, q.nodes.Unplaced, seed
	return r, &found, a.outcome(found.Explain(ctx, r))
}

// filling reports whether pods are drawn.
func (c *fleetCommand) filling(cmd *cobra.Command) (bool, error) {
	filling := cmd.Flags().Changed("fill")
	switch {
	case c.fill < 0:
		return false, fmt.Errorf("--fill: %d: expected a number of pods, or 0 to go on until no shape fits", c.fill)
	case filling && cmd.Flags().Changed("order"):
		return false, errors.New("--order: --fill draws the pods at random: leave one of the two out")
	}
	return filling, nil
}

func rejected(r *capacity.Result) error {
	if r.Rejected > 0 {
		return &console.ExitError{Code: 2}
	}
	return nil
}

func (c *fleetCommand) print(s console.Streams, q *fleetQuestion, answer *view.Fleet, r *capacity.Result) error {
	switch c.output.Value {
	case "csv":
		return answer.CSV(s.Stdout)
	case "svg", "png":
		return c.picture(s, c.program.Pictures.Fleet(c.title(), answer, r.Fleet.Views()))
	case "html":
		var page bytes.Buffer
		if err := c.page(s, q, answer, r).WriteHTML(&page); err != nil {
			return err
		}
		_, err := s.Stdout.Write(page.Bytes())
		return err
	}
	return s.Document(c.output.Value, console.Fleet, answer, func() string { return answer.Text(s.Style()) })
}

// picture writes a picture in the form of -o.
func (c *fleetCommand) picture(s console.Streams, p Picture) error {
	if c.output.Value == "svg" {
		return p.SVG(s.Stdout)
	}
	return s.Binary(c.output.Value, p.PNG)
}

// drawn reports whether the answer is a picture.
func (c *fleetCommand) drawn() bool { return c.output.Value == "svg" || c.output.Value == "png" }

// pictureTitle returns the title of a picture of what is for the pods.
func (c *fleetCommand) pictureTitle(what string) string {
	pods := make([]string, len(c.pods))
	for i, name := range c.pods {
		pods[i] = filepath.Base(name)
	}
	if len(pods) == 0 {
		return what + " for the pods of the cluster"
	}
	return what + " for " + strings.Join(pods, ", ")
}

// title returns the title of a page or of a picture.
func (c *fleetCommand) title() string {
	return "Fleet " + strings.TrimSuffix(filepath.Base(c.nodes[0]), filepath.Ext(c.nodes[0]))
}

// answer prints the answer in the requested form. rows returns the answer as CSV.
func (c *fleetCommand) answer(s console.Streams, kind console.Kind, v any, text func() string, rows func() [][]string) error {
	if c.output.Value == "csv" {
		return view.WriteCSV(s.Stdout, rows())
	}
	return s.Document(c.output.Value, kind, v, text)
}

func (c *fleetCommand) tryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "try",
		Short: "Compare Topology Manager policies, options and scorings on a fleet",
		Long: `Try asks the same question about the nodes as they are, which is the row "now", and under other settings: every
Topology Manager policy that aligns, in both scopes; then, under the best of these, every option of the CPU and Topology Managers, switched one at
a time; and the other scorings. It also compares several files of nodes, such as one for each NPS or
SNC mode of the same hardware. The best setting leaves the fewest pods that no node would ever take, and then
aligns the most CPUs: a policy that places pods anywhere is not best for that. Settings with equal results are one row; no setting is best that aligns no pod. Nodes are taken without their pods: those
of a cluster are placed first, those of a state are left out. Ctrl-C ends the
comparison with the settings that were tried. Another order of the pods gives other numbers: with --order
largest-first, the order of a file does not decide which setting is best.

Exit codes: 0 done, 1 error or interrupted.`,
		Example: `  paddock fleet try --nodes nps1.yaml --nodes nps4.yaml --pods trace.csv --whole-cpus --fill 0`,
		Args:    console.NoArguments,
		RunE:    c.try,
	}
	c.register(cmd)
	c.registerFill(cmd)
	c.output.Register(cmd, c.program.forms("table", "json", "yaml", "csv")...)
	return cmd
}

func (c *fleetCommand) try(cmd *cobra.Command, _ []string) error {
	s := console.StreamsOf(cmd)
	filling, err := c.filling(cmd)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var answers []view.Trial
	var interrupted error
	tried, settings := 0, capacity.NumTrials(nil, nil)*len(c.nodes)
	for _, name := range c.nodes {
		q, err := c.question(ctx, s, name, true)
		if err != nil {
			return err
		}
		if err := q.nodes.Vacate(); err != nil {
			return err
		}
		settings += capacity.NumTrials(q.nodes.Kinds, q.items) - capacity.NumTrials(nil, nil) // There are more on machines with isolated CPUs, and for pods that ask for a part of the caches.
		trials, err := capacity.Try(ctx, q.nodes.Kinds, q.items, q.options.Scoring, func(ctx context.Context, kinds []capacity.Kind, scoring fleet.Scoring) (*capacity.Result, error) {
			tried++
			o := q.options
			o.Scoring, o.Progress = scoring, s.Progress(fmt.Sprintf("pods tried under setting %d of %d", tried, settings))
			if filling {
				return capacity.Fill(ctx, kinds, q.items, c.fill, c.seed, o)
			}
			return capacity.Fit(ctx, kinds, q.items, o)
		})
		answers = append(answers, view.TrialsOf(name, trials)...)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil && len(answers) == 0 {
			return errors.New("interrupted before the first setting was tried")
		}
		if err != nil { // What is known so far is an answer, too.
			s.EndProgress()
			after := fmt.Sprintf("after %d of %d settings", len(answers), settings)
			for i := range answers {
				answers[i].Interrupted = after
			}
			interrupted = fmt.Errorf("interrupted %s: the best of these is marked", after)
			break
		}
	}
	if err := c.printTrials(s, answers); err != nil {
		return err
	}
	return interrupted
}

func (c *fleetCommand) printTrials(s console.Streams, answers []view.Trial) error {
	view.MarkBest(answers)
	if c.drawn() {
		return c.picture(s, c.program.Pictures.Trials(c.pictureTitle("Topology Manager settings"), answers))
	}
	return c.answer(s, console.FleetTrials, answers, func() string { return view.TrialsText(answers, s.Style()) }, func() [][]string { return view.TrialsRows(answers) })
}
