package notice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/notice"
)

// TestQuiet checks at which minutes a pod is left alone, by the times that it asks for. The limit
// is 60 minutes.
func TestQuiet(t *testing.T) {
	type ask struct {
		at, until int // in minutes; until 0 asks for nothing
		left      int // the minute until which it is left alone; 0 if it is not
	}
	for name, asks := range map[string][]ask{
		"nothing":                           {{0, 0, 0}, {10, 0, 0}},
		"a while":                           {{0, 30, 30}, {29, 30, 30}, {30, 30, 0}, {31, 30, 0}},
		"longer than the limit":             {{0, 600, 60}, {59, 600, 60}, {60, 600, 0}, {599, 600, 0}},
		"again and again":                   {{0, 30, 30}, {20, 50, 50}, {40, 90, 60}, {60, 120, 0}},
		"again after it has passed":         {{0, 30, 30}, {40, 90, 90}, {100, 150, 150}},
		"the limit counts from a move on":   {{600, 650, 650}},
		"again after a day":                 {{0, 9000, 60}, {1499, 9000, 0}, {1500, 9000, 1560}},
		"taken back":                        {{0, 30, 30}, {10, 0, 0}, {20, 90, 80}},
		"passed without a move in between":  {{0, 30, 30}, {120, 170, 170}},
		"a little longer before each move":  {{0, 2, 2}, {5, 7, 7}, {10, 15, 15}, {20, 25, 25}, {30, 35, 35}, {40, 45, 45}, {50, 55, 55}, {58, 65, 60}, {61, 66, 0}},
		"passed already when it is noticed": {{30, 10, 0}},
	} {
		q, begin := notice.NewQuiet(time.Hour, nil), time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
		at := func(minutes int) time.Time { return begin.Add(time.Duration(minutes) * time.Minute) }
		for _, a := range asks {
			until := time.Time{}
			if a.until > 0 {
				until = at(a.until)
			}
			err := q.MayMove("u", until, at(a.at))
			if want := at(a.left).Format(time.RFC3339); (err == nil) != (a.left == 0) || err != nil && !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: at minute %d, until %d: %v; want minute %d", name, a.at, a.until, err, a.left)
			}
			if err := q.MayMove("another", time.Time{}, at(a.at)); err != nil {
				t.Errorf("%s: another pod: %v", name, err)
			}
		}
	}
}

// Three things are counted: each time that moves begin to wait, each time that the limit ends the
// wait, and the pods that wait.
func TestQuietIsCounted(t *testing.T) {
	waits, capped := 0, 0
	q := notice.NewQuiet(time.Hour, func(limit bool) {
		if limit {
			capped++
		} else {
			waits++
		}
	})
	begin := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct{ at, until, waits, capped, waiting int }{
		{0, 30, 1, 0, 1}, {10, 30, 1, 0, 1}, {20, 600, 1, 0, 1}, {60, 600, 1, 1, 0}, {61, 600, 1, 1, 0}, {600, 0, 1, 1, 0}, {610, 620, 2, 1, 1}, {620, 620, 2, 1, 0},
	} {
		now := begin.Add(time.Duration(step.at) * time.Minute)
		_ = q.MayMove("u", begin.Add(time.Duration(step.until)*time.Minute), now)
		if n := q.Waiting(now); waits != step.waits || capped != step.capped || n != step.waiting {
			t.Errorf("at minute %d: %d waits, %d capped, %d pods; want %+v", step.at, waits, capped, n, step)
		}
	}
}
