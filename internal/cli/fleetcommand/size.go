package fleetcommand

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/ui/view"
)

func (c *fleetCommand) sizeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Find how many nodes of a kind take all pods",
		Long: `Size finds, for each kind of node in NODES, how many nodes of this kind alone take all pods, while one
node fewer does not, with the same placement. The lower bound is proven: fewer nodes do not take the pods, whatever
the placement is. "optimal" means that the number is the bound.

Without --scoring and --order, size tries several scorings and orders, all of which begin with large pods, and the
answer is the best one. It looks for fewer nodes until it is optimal, nothing is left to try, or --time is over.
"paddock fleet" with that many nodes, and the same scoring and order, places all pods. Counts in NODES do not matter. In a
cluster, each group of nodes with the same instance type, machine and policy is a kind, and the pods on
its nodes are placed with the others.

If all kinds have a price in NODES, it also looks for a cheap mix of them. This is a heuristic: it begins
with the mix of parts of nodes that is cheapest, and with each kind alone. It
adds nodes until all pods fit. Then it removes nodes, the expensive ones first, until the pods no longer
fit with one node fewer of any kind. The lower bound is proven as well: no mix costs less.

Pods that no node of a kind takes, however empty, are left out: the number of nodes is that for all others, and the
answer has the reasons. A mix leaves out the pods that no kind takes.

Ctrl-C ends the search with what is known: a number of nodes is then "at most" if fewer can be enough.

Exit codes: 0 done, 1 error or interrupted, 2 no number of nodes up to --most takes all pods, for some kind.`,
		Example: `  paddock fleet size --nodes nodes.yaml --pods pods/`,
		Args:    console.NoArguments,
		RunE:    c.size,
	}
	c.register(cmd)
	for _, name := range []string{"scoring", "order"} {
		cmd.Flags().Lookup(name).Usage += " (default the best of several)"
		cmd.Flags().Lookup(name).DefValue = ""
	}
	c.order = string(capacity.LargestFirst)
	cmd.Flags().DurationVar(&c.time, "time", 5*time.Minute, "how long to look for fewer nodes, for all kinds together")
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
	if c.time <= 0 {
		return fmt.Errorf("--time: %s: expected a time above 0, such as 1m", c.time)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	until, end := context.WithTimeout(cmd.Context(), c.time)
	defer end()
	answers, code, err := c.sizes(ctx, q, &search{streams: s, ways: c.ways(cmd, q), until: until})
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

// ways returns the ways to place the pods that are tried: those of the flags, or the usual ones.
func (c *fleetCommand) ways(cmd *cobra.Command, q *fleetQuestion) []capacity.Way {
	scoring, order := cmd.Flags().Changed("scoring"), cmd.Flags().Changed("order")
	if scoring && order {
		return []capacity.Way{{Scoring: q.options.Scoring, Order: q.options.Order}}
	}
	var ways []capacity.Way
	for _, w := range capacity.Ways() {
		if scoring {
			w.Scoring = q.options.Scoring
		}
		if order {
			w.Order = q.options.Order
		}
		if !slices.Contains(ways, w) {
			ways = append(ways, w)
		}
	}
	return ways
}

// search is what the searches of one command share.
type search struct {
	streams console.Streams
	ways    []capacity.Way
	// until ends when the time of all searches is over.
	until context.Context //nolint:containedctx // It is a clock.
}

// part starts the search for one of several answers. It returns its options, and a function that
// ends it. The parts before share what they leave of their time with those after them.
func (s *search) part(q *fleetQuestion, name string, left int) (capacity.Options, func()) {
	deadline, _ := s.until.Deadline()
	limit, end := context.WithTimeout(s.until, time.Until(deadline)/time.Duration(left))
	o, known := q.options, ""
	o.Enough = func() bool { return limit.Err() != nil }
	o.Progress = func(tried, total int64) {
		if show := s.streams.Progress("pods tried for " + name + known); show != nil {
			show(tried, total)
		}
	}
	o.Found = func(nodes, bound int) {
		known = fmt.Sprintf("; %s enough, and at least %s needed", view.Nodes(nodes), view.Number(bound))
	}
	o.Cheaper = func(price, bound float64) {
		known = fmt.Sprintf("; the price %s is enough, and at least %s needed", view.Money(price), view.Money(bound))
	}
	return o, end
}

// sizes asks about each kind and about a mix of them. The code is that of the answers. If ctx ends,
// it returns what is known, with an error.
func (c *fleetCommand) sizes(ctx context.Context, q *fleetQuestion, s *search) (answers []view.Fleet, code int, err error) {
	parts := len(q.nodes.Kinds)
	if q.mixes() {
		parts++
	}
	for i, kind := range q.nodes.Kinds {
		o, end := s.part(q, kind.Name, parts-i)
		r, way, err := capacity.Fewest(ctx, kind, q.items, c.most, s.ways, o)
		end()
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
		answer := view.FleetOf("size", way.Scoring.String(), r, q.nodes.Policies)
		answer.NotCounted, answer.Unplaced = q.nodes.NotCounted, q.nodes.Unplaced
		answer.AtMost = (interrupted || r.Unfinished) && !r.Optimal
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
	mix, err := c.mix(ctx, q, s)
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
func (c *fleetCommand) mix(ctx context.Context, q *fleetQuestion, s *search) ([]view.Fleet, error) {
	if !q.mixes() {
		return nil, nil
	}
	prices := make([]float64, len(q.nodes.Kinds))
	for i, k := range q.nodes.Kinds {
		prices[i] = q.nodes.Prices[k.Name]
	}
	o, end := s.part(q, "a mix", 1)
	defer end()
	o.Scoring, o.Order = s.ways[0].Scoring, s.ways[0].Order
	m, err := capacity.SizeMix(ctx, q.nodes.Kinds, prices, q.items, c.most, o)
	switch {
	case m == nil && (errors.Is(err, capacity.ErrNever) || errors.Is(err, capacity.ErrTooFew)):
		return nil, nil // The answers about the single kinds have the reasons.
	case m == nil, err != nil && !errors.Is(err, capacity.ErrNever) && ctx.Err() == nil:
		return nil, err
	}
	answer := view.FleetOf("mix", o.Scoring.String(), m.Result, q.nodes.Policies)
	answer.Price, answer.Mix = &m.Price, &view.FleetMix{LowerBound: m.LowerBound, Gap: m.Price/m.LowerBound - 1, Tried: m.Tried}
	if answer.AtMost = ctx.Err() != nil || m.Result.Unfinished; ctx.Err() == nil {
		err = nil
	}
	return []view.Fleet{answer}, err
}
