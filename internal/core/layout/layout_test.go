package layout_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestDivisions runs the files in testdata:
//
//	divide budget=N   → the pieces of a pool, one a container
//	budget            → what containers need together
//
// The input has a line for each container: its container type, and the amount that it claims
// exclusively, "shares", or "indifferent" for a container that shares and has no use for the
// resource. After a change, run go test -rewrite, and read the diff.
func TestDivisions(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			claims := parseClaims(t, d)
			switch d.Cmd {
			case "budget":
				return fmt.Sprintln(layout.Budget(claims))
			case "divide":
				var budget int64
				d.ScanArgs(t, "budget", &budget)
				return describe(claims, layout.Divide(budget, claims))
			}
			d.Fatalf(t, "no command %q", d.Cmd)
			return ""
		})
	})
}

func parseClaims(t *testing.T, d *datadriven.TestData) []layout.Claim {
	t.Helper()
	containerTypes := map[string]request.ContainerType{"init": request.Init, "sidecar": request.Sidecar, "app": request.App}
	var claims []layout.Claim
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		containerType, ok := containerTypes[words[0]]
		if !ok || len(words) != 2 {
			d.Fatalf(t, "%q: want a lane and an amount", line)
		}
		c := layout.Claim{Type: containerType}
		switch words[1] {
		case "shares":
		case "indifferent":
			c.Indifferent = true
		default:
			n, err := strconv.ParseInt(words[1], 10, 64)
			if err != nil {
				d.Fatalf(t, "%q: %v", line, err)
			}
			c.Exclusive, c.Amount = true, n
		}
		claims = append(claims, c)
	}
	return claims
}

func describe(claims []layout.Claim, l layout.Layout) string {
	var b strings.Builder
	for i, p := range l.Pieces {
		part := map[layout.Part]string{layout.Slice: "slice", layout.WholePool: "whole pool", layout.Rest: "rest"}[p.Part]
		fmt.Fprintf(&b, "%-7s  %-10s  %d\n", claims[i].Type, part, p.Amount)
	}
	if l.Overdrawn {
		return "overdrawn\n"
	}
	fmt.Fprintf(&b, "rest %d\n", l.Rest)
	switch l.Empty {
	case layout.EmptyForInit:
		b.WriteString("empty for an init container\n")
	case layout.EmptyForShared:
		b.WriteString("empty for those that share\n")
	case layout.NotEmpty:
	}
	return b.String()
}

func drawClaims(t *rapid.T) []layout.Claim {
	claim := rapid.Custom(func(t *rapid.T) layout.Claim {
		c := layout.Claim{Exclusive: rapid.Bool().Draw(t, "exclusive")}
		if c.Exclusive {
			c.Amount = rapid.Int64Range(0, 6).Draw(t, "amount")
		} else {
			c.Indifferent = rapid.Bool().Draw(t, "indifferent")
		}
		return c
	})
	claims := rapid.SliceOfN(claim, 0, 7).Draw(t, "claims")
	inits := rapid.IntRange(0, len(claims)).Draw(t, "inits")
	for i := range claims {
		switch {
		case i >= inits:
			claims[i].Type = request.App
		case rapid.Bool().Draw(t, "sidecar"):
			claims[i].Type = request.Sidecar
		default:
			claims[i].Type = request.Init
		}
	}
	return claims
}

// tokens is the dumb twin: the pool is a row of tokens, and each container takes its own in turn.
type tokens struct {
	owner []int // 0: no container permanently
}

func (p *tokens) free() int64 {
	var n int64
	for _, o := range p.owner {
		if o == 0 {
			n++
		}
	}
	return n
}

func (p *tokens) take(n int64) {
	for i, o := range p.owner {
		if o == 0 && n > 0 {
			p.owner[i] = 1
			n--
		}
	}
}

// live divides by simulating the pod's life from beginning to end.
func live(budget int64, claims []layout.Claim) layout.Layout {
	p := &tokens{owner: make([]int, budget)}
	l := layout.Layout{Budget: budget, Pieces: make([]layout.Piece, len(claims))}
	sharedInit, shared := false, false
	for i, c := range claims {
		switch {
		case c.Exclusive && c.Amount > p.free():
			l.Overdrawn = true
			return l
		case c.Exclusive:
			l.Pieces[i] = layout.Piece{Part: layout.Slice, Amount: c.Amount}
			if c.Type != request.Init {
				p.take(c.Amount)
			}
		case c.Type == request.Init:
			l.Pieces[i] = layout.Piece{Part: layout.WholePool, Amount: p.free()}
			sharedInit = sharedInit || p.free() == 0 && !c.Indifferent
		default:
			l.Pieces[i].Part = layout.Rest
			shared = shared || !c.Indifferent
		}
	}
	l.Rest = p.free()
	for i := range l.Pieces {
		if l.Pieces[i].Part == layout.Rest {
			l.Pieces[i].Amount = l.Rest
		}
	}
	switch {
	case sharedInit:
		l.Empty = layout.EmptyForInit
	case shared && l.Rest == 0:
		l.Empty = layout.EmptyForShared
	}
	return l
}

func TestDivideIsLivingThroughThePod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claims := drawClaims(t)
		budget := rapid.Int64Range(0, 14).Draw(t, "budget")
		got, want := layout.Divide(budget, claims), live(budget, claims)
		if got.Overdrawn != want.Overdrawn {
			t.Fatalf("budget %d, %+v: overdrawn %v, want %v", budget, claims, got.Overdrawn, want.Overdrawn)
		}
		if !got.Overdrawn && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("budget %d, %+v:\ngot  %+v\nwant %+v", budget, claims, got, want)
		}
	})
}

// The budget is the smallest one that is never overdrawn.
func TestBudgetIsTheLeastThatSuffices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claims := drawClaims(t)
		var least int64
		for live(least, claims).Overdrawn {
			least++
		}
		if got := layout.Budget(claims); got != least {
			t.Fatalf("%+v: budget %d, want %d", claims, got, least)
		}
	})
}
