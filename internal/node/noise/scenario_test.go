package noise_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/noise"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestScenarios plays the files in testdata. A file is a measurement:
//
//	container [NAME] cpus=LIST [pod=NAMESPACE/NAME] [uid=UID] [cgroup=PATH]
//	settings            lines such as nohz_full=2-3, irq=36:0-7, workqueue=0-3, governor=2:powersave
//	at TIME             begins what was read at that time; the first is before, the last is after
//	interrupts          lines in the form of /proc/interrupts
//	softirqs            lines in the form of /proc/softirqs
//	tasks               a look; lines: ID NAME cpu=N [time=T] [runs=N] [allowed=LIST] [cgroup=PATH] [kernel] [start=N] [involuntary=N]
//	counters NAME       throttled=N time=T migrated=N of the cgroup of a container
//	woken ID CPU CAUSE  what tracefs showed about a task
//	sent ROW CPU CAUSE  what tracefs showed about an interrupt
//	report              what paddock noise -v prints
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(_ *testing.T, script golden.Script) {
		p := &player{settings: &noise.Settings{IRQs: map[string]noise.Affinity{}, Latency: map[int]string{}, Governor: map[int]string{}}, causes: &noise.Causes{}, activity: &noise.Activity{}}
		script.Play(func(c scenario.Command) []string {
			answer, err := p.run(c)
			if err != nil {
				return []string{"error: " + err.Error()}
			}
			return strings.Split(strings.ReplaceAll(strings.TrimSuffix(answer, "\n"), "\n\n", "\n"), "\n") // An empty line ends an answer.
		})
	})
}

type player struct {
	containers []noise.Container
	settings   *noise.Settings
	snapshots  []*noise.Snapshot
	activity   *noise.Activity
	causes     *noise.Causes
}

// words returns the words of the form key=value, and the others.
func words(args []string) (values map[string]string, others []string) {
	values = map[string]string{}
	for _, arg := range args {
		if key, value, is := strings.Cut(arg, "="); is {
			values[key] = value
		} else {
			others = append(others, arg)
		}
	}
	return values, others
}

func (p *player) run(c scenario.Command) (string, error) {
	values, others := words(c.Args)
	var err error
	switch c.Name {
	case "container":
		cpus, parsing := cpuset.Parse(values["cpus"])
		p.containers = append(p.containers, noise.Container{Pod: values["pod"], UID: values["uid"], Name: strings.Join(others, " "), CPUs: cpus, Cgroup: values["cgroup"]})
		p.activity.Watched = p.activity.Watched.Union(cpus)
		p.settings.Partition, p.settings.Cache = append(p.settings.Partition, values["partition"]), append(p.settings.Cache, values["cache"])
		err = parsing
	case "settings":
		err = p.set(c.Input)
	case "at":
		at, parsing := time.ParseDuration(others[0])
		p.snapshots = append(p.snapshots, &noise.Snapshot{At: at, CPUs: p.activity.Watched.IDs(), Containers: make([]noise.Counters, len(p.containers))})
		err = parsing
	case "interrupts", "softirqs":
		err = p.rows(c)
	case "tasks":
		err = p.look(c.Input)
	case "counters":
		err = p.counters(others[0], values)
	case "woken", "sent":
		cpu, parsing := strconv.Atoi(others[1])
		cause, id := strings.Join(others[2:], " "), others[0]
		if n, is := strconv.Atoi(id); is == nil && c.Name == "woken" {
			p.causes.Task(n, cpu, cause)
		} else {
			p.causes.Row(id, cpu, cause)
		}
		err = parsing
	case "report":
		m := &noise.Measurement{From: "this scenario", Containers: p.containers, Before: p.snapshots[0], After: p.now(), Activity: p.activity, Settings: p.settings, Causes: p.causes}
		return view.NoiseText(noise.Compare(m), terminal.Style{Width: 140}, true), nil
	default:
		err = fmt.Errorf("%q is no command", c.Name)
	}
	return "", err
}

func (p *player) now() *noise.Snapshot { return p.snapshots[len(p.snapshots)-1] }

func (p *player) rows(c scenario.Command) error {
	now := p.now()
	rows := &now.Softirqs
	if c.Name == "interrupts" {
		rows = &now.Interrupts
	}
	return kernelfiles.Table(strings.NewReader(strings.Join(c.Input, "\n")), now.CPUs, func(id, about []byte, counts []uint64) {
		*rows = append(*rows, noise.Row{ID: string(id), Name: string(about), Counts: append([]uint64{}, counts...)})
	})
}

func (p *player) look(lines []string) error {
	var seen []noise.Seen
	for _, line := range lines {
		values, others := words(strings.Fields(line))
		number := func(key string) uint64 {
			n, _ := strconv.ParseUint(values[key], 10, 64) // 0 if it is not given.
			return n
		}
		id, err := strconv.Atoi(others[0])
		if err != nil {
			return err
		}
		s := noise.Seen{TaskID: noise.TaskID{ID: id, Start: number("start")}, Name: others[1], Kernel: len(others) > 2, CPU: int(number("cpu")), Runs: number("runs"), Involuntary: number("involuntary"), Cgroup: values["cgroup"]}
		_, s.HasRuns = values["runs"]
		_, s.HasSwitches = values["involuntary"]
		s.Time, _ = time.ParseDuration(values["time"]) // 0 if it is not given.
		if s.Allowed, err = cpuset.Parse(values["allowed"]); err != nil {
			return err
		}
		seen = append(seen, s)
	}
	p.activity.Add(seen)
	return nil
}

func (p *player) counters(name string, values map[string]string) error {
	for i := range p.containers {
		if p.containers[i].Name != name {
			continue
		}
		n := &p.now().Containers[i]
		n.Throttled, _ = strconv.ParseUint(values["throttled"], 10, 64)
		n.ThrottledTime, _ = time.ParseDuration(values["time"])
		n.Migrated, _ = strconv.ParseUint(values["migrated"], 10, 64)
		_, n.Quota = values["throttled"]
		_, n.HasMigrated = values["migrated"]
		return nil
	}
	return fmt.Errorf("no container %q", name)
}

// set sets settings.
func (p *player) set(lines []string) error {
	s := p.settings
	lists := map[string]*noise.CPUs{
		"default": &s.DefaultAffinity, "nohz_full": &s.NoHZFull, "isolated": &s.Isolated, "partitions": &s.Partitions, "workqueue": &s.Workqueue, "rcu_nocbs": &s.NoCallbacks,
	}
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		of, rest, _ := strings.Cut(value, ":")
		cpu, _ := strconv.Atoi(of) // Not all have one.
		var err error
		switch {
		case lists[key] != nil:
			lists[key].Known = true
			lists[key].Set, err = cpuset.Parse(value)
		case key == "irq":
			a := noise.Affinity{May: noise.CPUs{Known: true}}
			a.May.Set, err = cpuset.Parse(rest)
			s.IRQs[of] = a
		case key == "rps":
			q := noise.Queue{Device: of, Queue: "rx-0"}
			q.CPUs, err = cpuset.Parse(rest)
			s.RPS = append(s.RPS, q)
		case key == "governor":
			s.Governor[cpu] = rest
		case key == "latency":
			s.Latency[cpu] = rest
		case key == "numa_balancing":
			s.NUMABalancing = value
		case key == "timer_migration":
			s.TimerMigration = value
		default:
			err = fmt.Errorf("%q is no setting", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
