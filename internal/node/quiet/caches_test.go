package quiet_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/cache"
	coremachine "github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

const (
	groupA = "paddock-a.main"
	groupB = "paddock-b.main"
)

// divided returns a situation with two classes. now has the files of resctrl.
func divided(now map[string]string) *quiet.Situation {
	c := &quiet.Caches{
		Division: resctrl.Division{
			Rules: coremachine.Caches{Classes: 8, Ways: 12, LeastWays: 1}, Rest: []cache.Share{{Cache: 0, Ways: 0xff0}},
			Groups: map[string]cache.Class{groupA: {{Cache: 0, Ways: 3}}, groupB: {{Cache: 0, Ways: 0xc}}},
		},
		For: map[string][]string{groupA: {"prod/a/main"}, groupB: {"prod/b/main"}},
	}
	return &quiet.Situation{Caches: c, Policy: quiet.DefaultPolicy(), Now: now, At: time.Unix(1e9, 0), Unread: map[string]error{}, Troubles: quiet.Troubles{}}
}

// TestTheDefaultClassCannotBeRead checks that all groups then stay: what they must have is not
// known.
func TestTheDefaultClassCannotBeRead(t *testing.T) {
	s := divided(map[string]string{quiet.ClassFile(groupA): "L3:0=3", quiet.ClassFile(groupB): "", quiet.ClassFile("paddock-c.main"): "L3:0=100"})
	s.Records = quiet.Records{
		quiet.DefaultClassFile: {Before: "L3:0=fff", Wrote: "L3:0=ffc", Next: "L3:0=ffc"}, quiet.ClassFile(groupA): {Wrote: "L3:0=3", Next: "L3:0=3"},
	}
	s.Unread[quiet.DefaultClassFile] = errors.New("input/output error")
	p := quiet.New(s)
	if len(p.Writes) > 0 || !maps.Equal(p.Records, s.Records) {
		t.Errorf("writes %+v, records %+v", p.Writes, p.Records)
	}
	if len(p.Problems) != 1 || !strings.HasSuffix(p.Problems[0].Text, "is left as it is: input/output error") {
		t.Errorf("problems %+v", p.Problems)
	}
}

// TestTheDefaultClassRests checks that no group is made that shares its ways with the default class
// while that one is left alone, and that others are made.
func TestTheDefaultClassRests(t *testing.T) {
	now := map[string]string{quiet.DefaultClassFile: "L3:0=ff3", quiet.ClassFile(groupA): "", quiet.ClassFile(groupB): ""}
	s := divided(now)
	s.Records = quiet.Records{quiet.DefaultClassFile: {Before: "L3:0=fff", Wrote: "L3:0=ff3"}}
	s.Troubles[quiet.DefaultClassFile] = quiet.Trouble{Wanted: "L3:0=ff0", Found: "L3:0=ff3", Error: "invalid argument", Since: s.At, Until: s.At.Add(time.Second)}
	p := quiet.New(s)
	if len(p.Writes) != 1 || p.Writes[0].File != quiet.ClassFile(groupB) || p.Writes[0].Value != "L3:0=c" {
		t.Errorf("writes %+v", p.Writes)
	}
	if _, saved := p.Records[quiet.ClassFile(groupA)]; saved || len(p.Problems) != 1 || !strings.HasPrefix(p.Problems[0].Text, "cache class paddock-a.main of prod/a/main waits until the default class gives up") {
		t.Errorf("records %+v, problems %+v", p.Records, p.Problems)
	}
	s.At = s.At.Add(time.Minute)
	if p := quiet.New(s); len(p.Writes) != 3 || p.Writes[0].File != quiet.DefaultClassFile || p.Writes[0].Value != "L3:0=ff0" {
		t.Errorf("writes %+v after a minute", p.Writes)
	}
}
