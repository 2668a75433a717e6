package fleetcommand

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/ui/view"
)

func (c *fleetCommand) sizeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Find how many nodes of a kind take all pods",
		Long: `Size finds, for each kind of node in NODES, how many nodes of this kind alone take all pods, while one
node fewer does not, with the same placement. Pods are placed largest first, by the share of a node that they
take, unless --order is given. The lower bound is what the sums of the requests allow.
Without --scoring, the answer is that of least-stranded or most-allocated, whichever needs fewer nodes:
"paddock fleet" with that many nodes, and the same scoring and order, places all pods. Counts in NODES do not matter. In a
cluster, each group of nodes with the same instance type, machine and policy is a kind, and the pods on
its nodes are placed with the others.

If all kinds have a price in NODES, it also looks for a cheap mix of them. This is a heuristic: it begins
with the mix of parts of nodes that is cheapest by the sums of the requests, and with each kind alone. It
adds nodes until all pods fit. Then it removes nodes, the expensive ones first, until the pods no longer
fit with one node fewer of any kind. The lower bound is the price of the parts: no mix costs less.

Pods that no node of a kind takes, however empty, are left out: the number of nodes is that for all others, and the
answer has the reasons. A mix leaves out the pods that no kind takes.

Ctrl-C ends the search with what is known: a number of nodes is then "at most" if fewer can be enough.

Exit codes: 0 done, 1 error or interrupted, 2 no number of nodes up to --most takes all pods, for some kind.`,
		Example: `  paddock fleet size --nodes nodes.yaml --pods pods/`,
		Args:    console.NoArguments,
		RunE:    c.size,
	}
	c.register(cmd)
	cmd.Flags().Lookup("scoring").Usage = "how a node is chosen: least-stranded, least-allocated, most-allocated (default the best of the first and the last)"
	cmd.Flags().Lookup("scoring").DefValue = ""
	c.order = string(capacity.LargestFirst)
	cmd.Flags().Lookup("order").DefValue = c.order
	cmd.Flags().IntVar(&c.most, "most", 10_000, "the most nodes to try")
	c.output.Register(cmd, c.program.forms("table", "json", "yaml", "csv")...)
	return cmd
}

func (c *fleetCommand) size(cmd *cobra.Command, _ []string) error {
	s := console.StreamsOf(cmd)
	q, err := c.one(cmd.Context(), s, true)
	if err != nil {
		return err
	}
	if len(q.nodes.Stock) > 0 {
		return fmt.Errorf("--nodes: %s is a node with its pods, and size needs kinds of empty nodes: give machine and kubeletConfig in place of state", q.nodes.Stock[0])
	}
	if c.most < 1 {
		return fmt.Errorf("--most: %d: expected a number of nodes above 0", c.most)
	}
	q.options.Progress = s.Progress("pods tried")
	scorings := []fleet.Scoring{fleet.LeastStranded, fleet.MostAllocated}
	if cmd.Flags().Changed("scoring") {
		scorings = []fleet.Scoring{q.options.Scoring}
	}
	q.options.Scoring = scorings[len(scorings)-1] // for the mix
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	answers, code, err := c.sizes(ctx, q, scorings)
	interrupted := ctx.Err() != nil && err != nil
	switch {
	case err != nil && !interrupted:
		return err
	case interrupted && len(answers) == 0:
		return errors.New("interrupted before it was known for any kind how many nodes are enough")
	case interrupted: // What is known so far is an answer, too.
		s.EndProgress()
		code = 1
		open := unfinished(q, answers)
		for i := range answers {
			answers[i].Interrupted = open
		}
		err = errors.New("interrupted: " + open)
	}
	if wrong := c.printSizes(s, answers); wrong != nil {
		return wrong
	}
	if code != 0 {
		return &console.ExitError{Code: code, Err: err}
	}
	return nil
}

// sizes asks about each kind and about a mix of them. The code is that of the answers. If ctx ends,
// it returns what is known, with an error.
func (c *fleetCommand) sizes(ctx context.Context, q *fleetQuestion, scorings []fleet.Scoring) (answers []view.Fleet, code int, err error) {
	for _, kind := range q.nodes.Kinds {
		r, scoring, err := capacity.Fewest(ctx, kind, q.items, c.most, scorings, q.options)
		interrupted := err != nil && ctx.Err() != nil
		switch {
		case interrupted && (r == nil || r.Rejected > r.LeftOut):
			return answers, code, err
		case interrupted:
		case errors.Is(err, capacity.ErrTooFew), errors.Is(err, capacity.ErrNever):
			code = 2
		case err != nil:
			return nil, 0, err
		}
		answer := view.FleetOf("size", scoring.String(), r, q.nodes.Policies)
		answer.NotCounted, answer.Unplaced, answer.AtMost = q.nodes.NotCounted, q.nodes.Unplaced, interrupted
		if price, has := q.nodes.Prices[kind.Name]; has && r.Nodes > 0 && !answer.TooFew {
			price *= float64(r.Nodes)
			answer.Price = &price
		}
		if interrupted {
			return append(answers, answer), code, err
		}
		if err := answer.Explain(ctx, r); err != nil {
			return answers, code, err
		}
		answers = append(answers, answer)
	}
	mix, err := c.mix(ctx, q)
	return append(answers, mix...), code, err
}

// unfinished describes what the answers of an interrupted search leave open.
func unfinished(q *fleetQuestion, answers []view.Fleet) string {
	var open []string
	last := answers[len(answers)-1]
	if last.AtMost && last.Question == "size" {
		open = append(open, "fewer nodes of kind "+last.Name()+" may be enough")
	}
	switch n := len(answers); {
	case n < len(q.nodes.Kinds):
		var names []string
		for _, k := range q.nodes.Kinds[n:] {
			names = append(names, k.Name)
		}
		open = append(open, "no answer yet for "+strings.Join(names, ", "))
	case last.Question == "mix":
		open = append(open, "a cheaper mix may be enough")
	case q.mixes():
		open = append(open, "no mix is known yet")
	}
	return strings.Join(open, "; ")
}

// mixes reports whether a mix of the kinds is asked for.
func (q *fleetQuestion) mixes() bool {
	return len(q.nodes.Kinds) > 1 && len(q.nodes.Prices) == len(q.nodes.Kinds)
}

func (c *fleetCommand) printSizes(s console.Streams, answers []view.Fleet) error {
	if c.drawn() {
		return c.picture(s, c.program.Pictures.Sizes(c.pictureTitle("Nodes"), answers))
	}
	return c.answer(s, console.FleetSizes, answers, func() string { return view.SizesText(answers, s.Style()) }, func() [][]string { return view.SizesRows(answers) })
}

// mix looks for a mix of the kinds if there are several and all have a price. It returns nothing if
// no mix fits all pods.
func (c *fleetCommand) mix(ctx context.Context, q *fleetQuestion) ([]view.Fleet, error) {
	if !q.mixes() {
		return nil, nil
	}
	prices := make([]float64, len(q.nodes.Kinds))
	for i, k := range q.nodes.Kinds {
		prices[i] = q.nodes.Prices[k.Name]
	}
	m, err := capacity.SizeMix(ctx, q.nodes.Kinds, prices, q.items, c.most, q.options)
	switch {
	case m == nil && (errors.Is(err, capacity.ErrNever) || errors.Is(err, capacity.ErrTooFew)):
		return nil, nil // The answers about the single kinds have the reasons.
	case m == nil, err != nil && !errors.Is(err, capacity.ErrNever) && ctx.Err() == nil:
		return nil, err
	}
	answer := view.FleetOf("mix", q.options.Scoring.String(), m.Result, q.nodes.Policies)
	answer.Price, answer.Mix = &m.Price, &view.FleetMix{LowerBound: m.LowerBound, Gap: m.Price/m.LowerBound - 1, Tried: m.Tried}
	if answer.AtMost = ctx.Err() != nil; !answer.AtMost {
		err = nil
	}
	return []view.Fleet{answer}, err
}
