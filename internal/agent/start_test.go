package agent

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

// TestRestart checks that pods keep their assignments after a restart, in whatever order they come.
func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "a 2", "b 3", "web")
		assigned, running := holds(a.engine.State()), runs(a)
		b.kill(a)
		b.disk = b.disk.Crash(crashfs.KeepNothing)
		a = b.start()
		same(t, "held after the loss of power", holds(a.engine.State()), assigned)
		b.follow(a, "web", "b 3", "a 2")
		same(t, "running", runs(a), running)
	})
}

// TestRestartAfterAChange checks that a start logs what is no longer valid, and fails if strict is
// set.
func TestRestartAfterAChange(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*bench)
		assigned string // the CPUs of the pods after the change
		log      []string
		finds    bool // whether the change affects pods, so that strict rejects it
	}{
		{"nothing", func(*bench) {}, "a=4-7 b=1", nil, false},
		{
			"reserved CPUs", func(b *bench) { b.policy(strings.ReplaceAll(usualPolicy, `"0"`, `"0,1"`)) }, "a=4-7 b=1",
			[]string{"CPUs 1 are reserved for the system now", `"kept":true`},
			true,
		},
		{
			"CPU policy", func(b *bench) {
				b.policy(strings.ReplaceAll(usualPolicy, "cpuManagerPolicy: static", "cpuManagerPolicy: none"))
			}, "a=4-7 b=1",
			[]string{"the CPU policy is none now"},
			true,
		},
		{
			"scope", func(b *bench) { b.policy(usualPolicy + "topologyManagerScope: pod\n") }, "a=4-7 b=1",
			[]string{"the node has changed since the state was written", "scope"},
			false,
		},
		{
			"a CPU of several is offline", func(b *bench) { b.machine(0, 1, 2, 3, 4, 5, 7) }, "a=4-7 b=1",
			[]string{"CPUs 6 are offline or gone", `"kept":true`},
			true,
		},
		{
			"the only CPU is offline", func(b *bench) { b.machine(0, 2, 3, 4, 5, 6, 7) }, "a=4-7 b=1",
			[]string{"CPUs 1 are offline or gone", "bring them online", `"kept":true`},
			true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				a := b.start()
				b.follow(a, "a 4", "b 1")
				b.kill(a)
				c.change(b)
				startStrictly(t, b, c.finds)
				a = b.start()
				same(t, "held", holds(a.engine.State()), c.assigned)
				contains(t, "log", b.log.take(), c.log...)
			})
		})
	}
}

// startStrictly tries a start with strict set. If there are findings, the start must fail and
// change nothing.
func startStrictly(t *testing.T, b *bench, finds bool) {
	t.Helper()
	b.config.Strict = true
	defer func() { b.config.Strict = false }()
	before, _ := b.disk.Peek(b.config.State)
	b.log.take()
	a, err := b.try(b.disk)
	after, _ := b.disk.Peek(b.config.State)
	switch {
	case finds && (!errors.Is(err, ErrStrict) || string(before) != string(after)):
		t.Errorf("strict: error %v, state unchanged %t", err, string(before) == string(after))
	case !finds && err != nil:
		t.Error(err)
	case !finds:
		_ = a.Close()
	}
}

// TestDiskThatCannotBeRead checks that a state that cannot be read is not taken for a node without
// pods.
func TestDiskThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(crashfs.Op) error
		want string
	}{
		{"read-only", crashfs.From(0, syscall.EROFS, crashfs.Changing...), "make the file system of /var/lib/paddock writable"},
		{"failing", crashfs.From(0, syscall.EIO, "open", "read"), "the disk fails: see the kernel log"},
		{"not permitted", crashfs.From(0, syscall.EACCES, "open"), "let the user of this process read and write /var/lib/paddock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				a := b.start()
				b.follow(a, "a 2")
				b.kill(a)
				b.disk.Inject(c.fail)
				_, err := b.try(b.disk)
				if told := (*store.Error)(nil); !errors.As(err, &told) {
					t.Fatalf("error %v, want a *store.Error", err)
				}
				contains(t, "error", err.Error(), "/var/lib/paddock/state.json", c.want)
				b.disk.Kill()
				b.disk.Inject(nil)
				same(t, "held when it works again", holds(b.start().engine.State()), "a=1-2")
			})
		})
	}
}

// TestLocked checks that two agents never use the same state.
func TestLocked(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.start()
		if _, err := b.try(b.disk); !errors.Is(err, store.ErrLocked) {
			t.Errorf("error %v, want ErrLocked", err)
		}
	})
}

// TestFlippedBits flips each bit of a state of three pods. The agent starts with the previous
// generation, or reports the damage and does not start. Without a previous generation it never
// starts. For that case, one bit of each byte is enough.
func TestFlippedBits(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "a 2", "b 1")
		before := holds(a.engine.State())
		b.follow(a, "a 2", "b 1", "c 3")
		whole, err := b.disk.Peek(b.config.State)
		if err != nil {
			t.Fatal(err)
		}
		previous, err := b.disk.Peek(b.config.State + ".previous")
		if err != nil {
			t.Fatal(err)
		}
		var restored, rejected int
		for bit := range 8 * len(whole) {
			damaged := append([]byte(nil), whole...)
			damaged[bit/8] ^= 1 << (bit % 8)
			switch assigned, err := startOn(b, a.env, damaged, previous); {
			case err != nil:
				checkRejection(t, bit, err)
				rejected++
			case assigned != before:
				t.Fatalf("bit %d: pods hold %q, want the generation before, %q", bit, assigned, before)
			default:
				restored++
			}
			if bit%8 != 0 {
				continue
			}
			assigned, err := startOn(b, a.env, damaged, nil)
			if err == nil {
				t.Fatalf("bit %d: started with %q and there is no generation before", bit, assigned)
			}
			checkRejection(t, bit, err)
		}
		t.Logf("%d bits of %d bytes: %d times the generation before, %d times refused", 8*len(whole), len(whole), restored, rejected)
		if restored < 7*len(whole) {
			t.Errorf("the generation before was used %d times", restored)
		}
	})
}

// startOn opens a state file and its previous generation, like New.
func startOn(b *bench, e *environment, data, previous []byte) (string, error) {
	disk := crashfs.New()
	disk.Put(b.config.State, data)
	if previous != nil {
		disk.Put(b.config.State+".previous", previous)
	}
	started, lock, err := e.startEngine(b.t.Context(), b.config, World{FS: disk, Now: time.Now}, observers{}, plans{}, discard)
	if err != nil {
		return "", err
	}
	return holds(started.State()), lock.Close()
}

func checkRejection(t *testing.T, bit int, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrForeign) {
		t.Fatalf("bit %d: error %v, want ErrDamaged or ErrForeign", bit, err)
	}
	if told := (*store.Error)(nil); !errors.As(err, &told) || told.Advice == "" {
		t.Fatalf("bit %d: no advice in %v", bit, err)
	}
}

// TestAbsurdFile checks that a file that no agent wrote counts as damaged even if its checksum is
// correct. The previous generation is used instead.
func TestAbsurdFile(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "a 2")
		before := holds(a.engine.State())
		previous, err := b.disk.Peek(b.config.State)
		if err != nil {
			t.Fatal(err)
		}
		for name, absurd := range map[string][]byte{
			"too large":     append(slices.Clone(previous), make([]byte, statefile.MaxSize)...),
			"last revision": sealed(regexp.MustCompile(`"generation":\d+`).ReplaceAll(previous, []byte(`"generation":18446744073709551615`))),
		} {
			if assigned, err := startOn(b, a.env, absurd, previous); err != nil || assigned != before {
				t.Errorf("%s: pods have %q, want %q: %v", name, assigned, before, err)
			}
			if _, err := startOn(b, a.env, absurd, nil); !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%s, and no generation before: %v", name, err)
			}
		}
	})
}

// sealed returns data with a correct checksum.
func sealed(data []byte) []byte {
	body, _, _ := bytes.Cut(data, []byte(`"checksum"`))
	return fmt.Appendf(slices.Clip(body), "\"checksum\":\"sha256:%x\"}\n", sha256.Sum256(body))
}

// TestForeignFile checks that a foreign file is left alone, even if there is a previous generation.
func TestForeignFile(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		previous, err := b.disk.Peek(b.config.State)
		if err != nil {
			t.Fatal(err)
		}
		_, err = startOn(b, a.env, []byte(`{"policyName":"static","defaultCpuSet":"0-7","checksum":1}`), previous)
		if !errors.Is(err, statefile.ErrForeign) {
			t.Errorf("error %v, want ErrForeign", err)
		}
	})
}

var _ engine.Observer = observers{}

// TestReservedNumberWhileCPUsAreOffline checks that a policy that reserves a number of CPUs keeps
// those that it chose when all CPUs were online. From the remaining CPUs it would choose others,
// which pods may have.
func TestReservedNumberWhileCPUsAreOffline(t *testing.T) {
	for _, c := range []struct {
		name            string
		before, now     string // reserved
		offline         string
		counted, static bool
		want            string
	}{
		{name: "chosen on fewer CPUs", before: "0,8", now: "0-1", offline: "8", counted: true, static: true, want: "0,8"},
		{name: "all online", before: "0,8", now: "0-1", counted: true, static: true, want: "0-1"},
		{name: "named", before: "0,8", now: "0-1", offline: "8", static: true, want: "0-1"},
		{name: "more than before", before: "0", now: "0-1", offline: "8", counted: true, static: true, want: "0-1"},
		{name: "fewer than before, as on a core of which one thread is offline", before: "0,8", now: "0", offline: "8", counted: true, static: true, want: "0,8"},
		{name: "of another machine", before: "0,20", now: "0-1", offline: "8", counted: true, static: true, want: "0-1"},
		{name: "no static policy", before: "0,8", offline: "8", counted: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := func(text string) cpuset.Set {
				s, err := cpuset.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			sys := &plugged{}
			online := set("0-15").Difference(set(c.offline)).String()
			sys.set(online, online)
			found, err := discover.Live(sys)
			if err != nil {
				t.Fatal(err)
			}
			e := &environment{&inputs.Node{Found: found, Policy: inputs.Policy{Counted: c.counted, Policy: node.Policy{StaticCPU: c.static, ReservedCPUs: set(c.now)}}}}
			changed := e.keepReservation(node.Policy{StaticCPU: true, ReservedCPUs: set(c.before)})
			if got := e.Policy.ReservedCPUs.String(); got != c.want || changed != (c.want != c.now) {
				t.Errorf("reserved %s (changed %v), want %s", got, changed, c.want)
			}
		})
	}
}
