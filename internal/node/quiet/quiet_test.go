package quiet_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

func set(text string) cpuset.Set {
	s, err := cpuset.Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

// TestMasks covers masks that are shorter than the machine (cri-o#6145), and what is no mask.
func TestMasks(t *testing.T) {
	for text, want := range map[string]string{
		"f": "0-3", "ff": "0-7", "00000000,0000000f": "0-3", "1,00000000": "32", "1,80000000,00000001": "0,63-64", "0": "", "": "", "10000000,0": "60",
	} {
		if got, err := quiet.ParseMask(text); err != nil || got.String() != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"g", "0x1", "1,,1", "100000000", "-1", " 1", strings.Repeat("0,", 1<<16) + "0"} {
		if got, err := quiet.ParseMask(text); err == nil {
			t.Errorf("%.20q: %v", text, got)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add("00000000,0000000f")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := quiet.ParseMask(text)
		if err != nil {
			return
		}
		again, err := quiet.ParseMask(quiet.FormatMask(got))
		if err != nil || !again.Equal(got) {
			t.Errorf("%q: %v, and %v when it is written, %v", text, got, again, err)
		}
	})
}

// machine is one with 8 CPUs in 4 cores.
func machine() quiet.Machine {
	m := quiet.Machine{Online: set("0-7"), Siblings: map[int]cpuset.Set{}, Frequencies: map[string]cpuset.Set{"policy2": set("2-5")}}
	for cpu := range 8 {
		m.Siblings[cpu] = cpuset.Of(cpu&^1, cpu|1)
	}
	return m
}

// wanted returns the value of a file for containers whose pods may ask.
func wanted(file, base string, list ...quiet.Container) (string, []quiet.Problem) {
	m, p := machine(), quiet.DefaultPolicy()
	p.Interrupts, p.Allow = quiet.Asked, quiet.Allow{Namespaces: []string{"prod"}, RuntimeClasses: []string{"fast"}}
	all, problems := quiet.Want(&m, list, nil, &p, map[string]string{file: base})
	return all[file].Value, problems
}

// TestWishes covers the annotations of CRI-O.
func TestWishes(t *testing.T) {
	const irq = "proc/irq/9/smp_affinity_list"
	governor := quiet.FrequencyFile("policy2", quiet.Governor)
	for _, c := range []struct {
		annotation, value, file, base, want, problem string
	}{
		{quiet.AskInterrupts, "disable", irq, "0-7", "0-1,4-7", ""},
		{quiet.AskInterrupts, "true", irq, "0-7", "0-1,4-7", ""},
		{quiet.AskInterrupts, "enable", irq, "0-7", "0-7", ""},
		{quiet.AskInterrupts, "housekeeping", irq, "0-7", "0-7", ""}, // CPUs 2 and 3 are one core.
		{quiet.AskInterrupts, "off", irq, "0-7", "0-7", `"off": expected disable, housekeeping or enable`},
		{quiet.AskInterrupts + "/main", "disable", irq, "2-3", "0-1,4-7", ""},
		{quiet.AskInterrupts + "/other", "disable", irq, "2-3", "2-3", ""},
		{quiet.AskCStates, "disable", quiet.LatencyFile(2), "0", "n/a", ""},
		{quiet.AskCStates, "enable", quiet.LatencyFile(2), "20", "0", ""},
		{quiet.AskCStates, "max_latency:10", quiet.LatencyFile(3), "0", "10", ""},
		{quiet.AskCStates, "max_latency:0", quiet.LatencyFile(3), "0", "0", "expected disable, enable or max_latency:MICROSECONDS"},
		{quiet.AskGovernor, "performance", governor, "schedutil", "performance", ""},
		{quiet.AskGovernor, "a b", governor, "schedutil", "schedutil", "expected the name of a governor"},
		{quiet.AskFrequency, "2400-3200", quiet.FrequencyFile("policy2", quiet.MaxFrequency), "3600000", "3200000", "scaling_min_freq: there is no such file"},
		{quiet.AskFrequency, "3200-2400", quiet.FrequencyFile("policy2", quiet.MaxFrequency), "3600000", "3600000", "expected MIN-MAX in MHz"},
		{quiet.AskBalancing, "no", irq, "0-7", "0-7", "expected disable or enable"},
		{"cpu-quota.crio.io", "disable", irq, "0-7", "0-7", ""}, // Paddock's own business.
	} {
		container := quiet.Container{Namespace: "prod", Pod: "a", Name: "main", Assigned: set("2-3"), Annotations: map[string]string{c.annotation: c.value}}
		got, problems := wanted(c.file, c.base, container)
		text := fmt.Sprint(problems)
		unexpected := c.problem == "" && len(problems) > 0 && !strings.Contains(text, "there is no such file") // The base has one file.
		if got != c.want || unexpected || !strings.Contains(text, c.problem) {
			t.Errorf("%s: %s: %q %s, want %q %s", c.annotation, c.value, got, text, c.want, c.problem)
		}
	}
}

// TestWhoMayAsk covers namespaces, runtime classes and containers without exclusive CPUs.
func TestWhoMayAsk(t *testing.T) {
	const irq = "proc/irq/9/smp_affinity_list"
	ask := map[string]string{quiet.AskInterrupts: "disable"}
	for _, c := range []struct{ namespace, class, cpus, want, problem string }{
		{"prod", "", "2-3", "0-1,4-7", ""},
		{"dev", "fast", "2-3", "0-1,4-7", ""},
		{"dev", "", "2-3", "0-7", "its pod may not ask for it"},
		{"prod", "", "", "0-7", "has no exclusive ones"},
	} {
		got, problems := wanted(irq, "0-7", quiet.Container{Namespace: c.namespace, RuntimeClass: c.class, Pod: "a", Name: "main", Assigned: set(c.cpus), Annotations: ask})
		if got != c.want || (len(problems) == 0) != (c.problem == "") || !strings.Contains(fmt.Sprint(problems), c.problem) {
			t.Errorf("%+v: %q, %v", c, got, problems)
		}
	}
}

// TestBanList checks that the list of irqbalance has the CPUs that it bans by itself.
func TestBanList(t *testing.T) {
	m, p := machine(), quiet.DefaultPolicy()
	m.Boot = set("6-7")
	list := []quiet.Container{{Namespace: "prod", Pod: "a", Name: "main", Assigned: set("2-3")}}
	for base, want := range map[string]string{"": "2-3,6-7", "0": "0,2-3"} {
		all, _ := quiet.Want(&m, list, nil, &p, map[string]string{quiet.BalancerFile: base})
		if got := all[quiet.BalancerFile].Value; got != want {
			t.Errorf("%q: %q, want %q", base, got, want)
		}
	}
	every := append(slices.Clone(list), quiet.Container{Namespace: "prod", Pod: "b", Name: "main", Assigned: set("0-1,4-5")})
	if all, problems := quiet.Want(&m, every, nil, &p, map[string]string{quiet.BalancerFile: ""}); all[quiet.BalancerFile].Value != "" || len(problems) != 1 {
		t.Errorf("all CPUs are exclusive or isolated: %+v, %+v", all, problems)
	}
	if all, _ := quiet.Want(&m, nil, nil, &p, map[string]string{quiet.BalancerFile: "0"}); all[quiet.BalancerFile].Value != "0" {
		t.Error("without containers, the list is not the one before")
	}
}

// TestIsolatedAtBoot checks that an interrupt that must go elsewhere does not go to isolated CPUs,
// which a program without a container may use, while another CPU is online.
func TestIsolatedAtBoot(t *testing.T) {
	const irq = "proc/irq/9/smp_affinity_list"
	m, p := machine(), quiet.DefaultPolicy()
	m.Boot = set("2-7")
	list := []quiet.Container{{Namespace: "prod", Pod: "a", Name: "main", Assigned: set("2-3")}}
	for assigned, want := range map[string]string{"2-3": "0-1", "0-3": "4-7"} {
		list[0].Assigned = set(assigned)
		all, _ := quiet.Want(&m, list, nil, &p, map[string]string{irq: "3"})
		if got := all[irq].Value; got != want {
			t.Errorf("CPUs %s are exclusive: %q, want %q", assigned, got, want)
		}
	}
}

// obedient is a kernel that accepts every write.
func obedient(now map[string]string, p *quiet.Plan) map[string]quiet.Result {
	results := map[string]quiet.Result{}
	for _, w := range p.Writes {
		now[w.File] = w.Value
		results[w.File] = quiet.Result{Now: w.Value, Text: w.Text}
	}
	return results
}

// TestProperties checks, for random machines and histories: what is planned twice is done once, no
// interrupt reaches a quiet CPU while another one is online, no partition shares CPUs, the order of
// the writes, and that a release gives everything its base.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, p := machine(), quiet.DefaultPolicy()
		p.Partition = quiet.Exclusive
		s := quiet.Situation{Machine: m, Policy: p, Records: quiet.Records{}, Troubles: quiet.Troubles{}, At: time.Unix(1e9, 0), Now: map[string]string{
			"proc/irq/9/smp_affinity_list": rapid.SampledFrom([]string{"0-7", "2", "3-5"}).Draw(t, "irq"), quiet.NewInterruptsFile: "0-7", quiet.WorkqueuesFile: "0-7",
		}}
		before := maps.Clone(s.Now)
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			s.Containers = nil
			free := []int{1, 2, 3, 4, 5, 6, 7}
			for n := range rapid.IntRange(0, 3).Draw(t, "containers") {
				at := rapid.IntRange(0, len(free)-1).Draw(t, "cpu")
				cpus := cpuset.Of(free[at])
				free = slices.Delete(free, at, at+1)
				group := fmt.Sprintf("/kubepods/pod%d/c%d", n, n)
				s.Containers = append(s.Containers, quiet.Container{Namespace: "prod", Pod: fmt.Sprint(n), Name: "main", Assigned: cpus, Runs: cpus, Cgroup: group})
				for _, file := range []string{quiet.ExclusiveFile("/kubepods"), quiet.ExclusiveFile(fmt.Sprintf("/kubepods/pod%d", n)), quiet.ExclusiveFile(group), quiet.PartitionFile(group)} {
					if _, has := s.Now[file]; !has {
						s.Now[file] = map[bool]string{true: "member"}[quiet.KindOf(file) == quiet.Partition]
						before[file] = s.Now[file]
					}
				}
			}
			plan := quiet.New(&s)
			checkOrder(t, plan.Writes)
			s.Records, s.Troubles = plan.After(obedient(s.Now, plan))
			if again := quiet.New(&s); len(again.Writes) > 0 || !maps.Equal(again.Records, s.Records) {
				t.Fatalf("planned twice: %+v", again.Writes)
			}
			for _, c := range s.Containers {
				if set(s.Now["proc/irq/9/smp_affinity_list"]).Intersects(c.Assigned) || s.Now[quiet.PartitionFile(c.Cgroup)] != "isolated" || !set(s.Now[quiet.ExclusiveFile("/kubepods")]).Contains(c.Runs) {
					t.Fatalf("container on %s: %v", c.Assigned, s.Now)
				}
			}
		}
		plan := quiet.Release(&s)
		records, _ := plan.After(obedient(s.Now, plan))
		if len(records) > 0 || !maps.Equal(s.Now, before) {
			t.Fatalf("after the release %v, before %v", s.Now, before)
		}
	})
}

// checkOrder checks that nothing is given back before everything is quiet, and that a partition
// begins after its CPUs are its own and ends before they are not.
func checkOrder(t *rapid.T, writes []quiet.Write) {
	order := func(w quiet.Write) int {
		switch quiet.KindOf(w.File) {
		case quiet.Partition:
			return map[string]int{"member": 1, "isolated": 3}[w.Value]
		case quiet.ExclusiveCPUs:
			return 2
		default:
			return -1
		}
	}
	last := 0
	for _, w := range writes {
		if at := order(w); at >= 0 {
			if at < last {
				t.Fatalf("the order of %+v", writes)
			}
			last = at
		}
	}
}

// TestFailures checks what is recorded of writes that fail.
func TestFailures(t *testing.T) {
	const irq = "proc/irq/9/smp_affinity_list"
	s := quiet.Situation{
		Machine: machine(), Policy: quiet.DefaultPolicy(), Now: map[string]string{irq: "0-7"}, At: time.Unix(1e9, 0),
		Containers: []quiet.Container{{Namespace: "prod", Pod: "a", Name: "main", Assigned: set("2")}},
	}
	plan := quiet.New(&s)
	if r := plan.Records[irq]; len(plan.Writes) != 1 || !r.Pending || r.Before != "0-7" || r.Next != "0-1,3-7" {
		t.Fatalf("%+v, %+v", plan.Writes, plan.Records)
	}
	for name, c := range map[string]struct {
		result   quiet.Result
		recorded bool
		tries    int // of the rounds of the next minute, 2 s apart
	}{
		"rejected": {quiet.Result{Now: "0-7", Err: errors.New("no")}, false, 4},
		"managed":  {quiet.Result{Now: "0-7", Err: errors.New("no"), Managed: true}, false, 0},
		"gone":     {quiet.Result{Gone: true}, false, 30},
		"narrower": {quiet.Result{Now: "0"}, true, 0}, // An interrupt controller that uses one CPU.
		"done":     {quiet.Result{Now: "0-1,3-7"}, true, 0},
	} {
		records, troubles := plan.After(map[string]quiet.Result{irq: c.result})
		if _, recorded := records[irq]; recorded != c.recorded {
			t.Errorf("%s: %+v", name, records)
		}
		tries, next := 0, s
		next.Records, next.Troubles, next.Now = records, troubles, map[string]string{irq: "0-7"}
		if c.recorded {
			next.Now[irq] = c.result.Now
		}
		for range 30 {
			next.At = next.At.Add(2 * time.Second)
			again := quiet.New(&next)
			tries += len(again.Writes)
			results := map[string]quiet.Result{}
			if len(again.Writes) > 0 {
				results[irq] = c.result
			}
			next.Records, next.Troubles = again.After(results)
		}
		if tries < c.tries || c.tries < 30 && tries > c.tries+2 {
			t.Errorf("%s: %d tries in a minute, want about %d", name, tries, c.tries)
		}
	}
}
