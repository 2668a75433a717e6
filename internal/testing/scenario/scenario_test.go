package scenario_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

func TestAScriptComesBackWithItsAnswers(t *testing.T) {
	const script = `# A remark alone.

# A remark on a command.
machine cores=2 memory=2Gi
----
1 socket, 1 NUMA node, 2 cores, 2 CPUs
node 0  CPUs 0-1  memory 2Gi

config cpu=static
----
topology none
cpu static, reserved 0
memory None
pod-level pools on
warning: featureGates[PodLevelResourceManagers]: pods get no pool of their own under topologyManagerPolicy none

pod a
app c cpu=1 memory=1Gi
----
Guaranteed
  app  c  exclusive: 1 CPU memory=1Gi

admit a
----
admitted, no CFS quota for the pod
  app  c  CPUs 1 alone  no CFS quota
node shared pool 0
`
	got, err := scenario.Play("script", script, nil)
	if err != nil || got != script {
		t.Errorf("error %v, answers:\n%s", err, got)
	}
	bare := strings.Join(bareCommands(t, script), "\n\n")
	if again, err := scenario.Play("bare", bare, nil); err != nil || !strings.Contains(again, "node shared pool 0\n") {
		t.Errorf("without answers: error %v, answers:\n%s", err, again)
	}
}

func bareCommands(t *testing.T, script string) []string {
	t.Helper()
	blocks, err := scenario.Parse("script", script)
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, b := range blocks {
		if b.Command.Name != "" {
			commands = append(commands, b.Command.String())
		}
	}
	return commands
}

func TestAnAnswerNeedsACommand(t *testing.T) {
	_, err := scenario.Parse("script", "# fine\n\n----\nanswer\n")
	if !errors.Is(err, scenario.ErrSyntax) || !strings.Contains(err.Error(), "script:3") {
		t.Errorf("error %v, want ErrSyntax with the line", err)
	}
}

// wrongCommands are invalid commands. Their answers must give the reason.
var wrongCommands = []struct{ command, want string }{
	{"walk", `no command "walk"`},
	{"machine cpus=4", `no key "cpus"`},
	{"machine cores=4 cores=5", "given twice"},
	{"machine cores=100000", "CPUs"},
	{"machine cores=-1", "want a number"},
	{"machine numbering=odd", "numbering=odd"},
	{"machine memory=much", "memory=much"},
	{"machine distances=10", "two numbers"},
	{"machine file=x", "no recorded machines"},
	{"machine cores=1\nnode 0", "either keys"},
	{"machine\nnode 0 cores=0-1+2-4", "different lengths"},
	{"machine\nnode 0 cores=3-1", "not a range"},
	{"machine\nnodes", "want node ID"},
	{"machine\nnode 0 cores=1,1", "listed twice"},
	{"config topology", "want key=value"},
	{"config reserved-memory=x:1Gi memory=Static", "reserved-memory"},
	{"config gates=A=perhaps", "want true or false"},
	{"config cpu=lively", "lively"},
	{"devices nvidia.com/gpu", "want a line for each resource"},
	{"devices\nnvidia.com/gpu gpu0@0 gpu0@0", `device "gpu0" is listed twice`},
	{"devices\nnvidia.com/gpu gpu0@1", "the machine has no {1}"},
	{"devices\nnvidia.com/gpu gpu0@", "want NUMA nodes behind @"},
	{"devices\nnvidia.com/gpu @0", "a device has no id"},
	{"devices\nnvidia.com/gpu gpu0@64", "64"},
	{"devices\nnvidia.com/gpu gpu0@0:broken", "broken"},
	{"devices\ngpu gpu0@0", "no domain"},
	{"given a", "want a line for each resource or driver"},
	{"given\na.io/g g@0 g@0", `device "g" is listed twice`},
	{"given\na.io/g @0", "a device has no id"},
	{"given\na.io/g g@", "want NUMA nodes behind @"},
	{"given\na.io/g g@0:unhealthy", "others know its health"},
	{"pod b\napp c\ngiven c", "want a container and RESOURCE=ID"},
	{"pod b\napp c\ngiven d a.io/g=g", `no container "d"`},
	{"pod b\napp c\ngiven c a.io/g=h", `no device "h" of a.io/g`},
	{"pod b\napp c\ngiven c a.io/g=g name=x", `no key "name"`},
	{"pod", "want a name"},
	{"pod b\nmain c", "want init, sidecar or app"},
	{"pod b\napp c cpu", "want an amount"},
	{"pod b\napp c cpu=x", "cpu=x"},
	{"pod b\napp c cpu=..", "want an amount"},
	{"admit b", `no pod "b"`},
	{"admit", "want the name"},
	{"plan a b", "want the name"},
	{"admit a\nmore", "no further lines"},
	{"created a/x", `no container "x"`},
	{"created b/c", `"b" is not on the node`},
	{"remove", "want the name"},
	{"restart topology", "want key=value"},
}

func TestWrongCommandsAnswerWithAnError(t *testing.T) {
	setup := []string{"machine cores=4 memory=8Gi", "config cpu=static memory=Static", "pod a\napp c cpu=1 memory=1Gi", "admit a"}
	for _, c := range wrongCommands {
		n := scenario.New(nil)
		for _, command := range setup {
			n.Run(parse(t, command))
		}
		before := n.State()
		got := n.Run(parse(t, c.command))
		if !strings.Contains(got, c.want) || !strings.HasPrefix(got, "error: ") && !strings.HasPrefix(got, "rejected: ") {
			t.Errorf("%q answers %q, want an error with %q", c.command, got, c.want)
		}
		if n.State() != before {
			t.Errorf("%q changed the node", c.command)
		}
	}
}

func TestCommandsNeedWhatComesBefore(t *testing.T) {
	for _, command := range []string{"config", "devices\nnvidia.com/gpu gpu0", "given\nnvidia.com/gpu gpu0", "pod a\napp c", "admit a", "state", "check", "restart"} {
		if got := scenario.New(nil).Run(parse(t, command)); !strings.HasPrefix(got, "error: give ") {
			t.Errorf("%q on a bare node answers %q", command, got)
		}
	}
}

func TestRecordedMachinesAreFoundByName(t *testing.T) {
	find := func(name string) (*machine.Machine, error) {
		if name != "one" {
			return nil, os.ErrNotExist
		}
		return machine.New(machine.Description{Nodes: []machine.NodeDescription{{Cores: []machine.CoreDescription{{Threads: []int{0}}}}}})
	}
	n := scenario.New(find)
	if got := n.Run(parse(t, "machine file=one")); !strings.Contains(got, "1 CPU") {
		t.Errorf("answer %q", got)
	}
	if got := n.Run(parse(t, "machine file=two")); !strings.HasPrefix(got, "error: ") {
		t.Errorf("answer %q", got)
	}
}

func parse(t *testing.T, text string) scenario.Command {
	t.Helper()
	blocks, err := scenario.Parse("command", text)
	if err != nil || len(blocks) != 1 {
		t.Fatalf("%q: %d blocks, %v", text, len(blocks), err)
	}
	return blocks[0].Command
}

// FuzzPlay checks that no script makes the node panic, and that playing it again gives the same
// answers.
func FuzzPlay(f *testing.F) {
	f.Add("machine sockets=2 cores=2 threads=2 memory=4Gi hugepages-2Mi=16\n\nconfig topology=restricted scope=pod cpu=static memory=Static\n\n" +
		"pod a cpu=2 memory=1Gi\ninit i\nsidecar s cpu=1 memory=1Mi\napp c\n\nadmit a\n\ncreated a/c\n\nremove-container a/s\n\nrestart scope=container\n\nremove a\n\nstate\n")
	f.Add("machine\nnode 3 cores=0-1+4-5,9 memory=1Gi distances=10\n\nconfig cpu=static options=full-pcpus-only reserved-cpus=0\n\npod p unvalidated cpu=1..\napp c cpu=3\n\nplan p\n")
	f.Add("machine sockets=2 cores=2 memory=4Gi\n\ndevices\na.io/g g0@0 0:1.0@0-1:unhealthy\na.io/n n\n\nconfig topology=restricted cpu=static\n\n" +
		"pod a\ninit i a.io/g=1 a.io/n=1\napp c cpu=1 memory=1Mi a.io/g=1 a.io/x=2\n\nadmit a\n\ndevices\na.io/g\n\nrestart\n\nstate\n\nremove a\n")
	f.Add("machine sockets=2 cores=2 memory=4Gi\n\ngiven\na.io/g g0@0 g1@1 g2\nb.io n@0-1\n\nconfig topology=restricted scope=pod cpu=static memory=Static\n\n" +
		"pod a\ninit i cpu=1 memory=1Mi\napp c cpu=1 memory=1Mi a.io/g=1\ngiven c a.io/g=g1,g2\ngiven i b.io=n claim=x\n\nadmit a\n\nrestart\n\nstate\n\nremove a\n")
	f.Add("machine sockets= cores=") // of two errors, the first one is always reported
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			t.Skip("long")
		}
		first, err := scenario.Play("fuzz", text, nil)
		if err != nil && (first != "" || !errors.Is(err, scenario.ErrSyntax)) {
			t.Fatalf("error %v, answer %q", err, first)
		}
		if again, err2 := scenario.Play("fuzz", text, nil); again != first || (err == nil) != (err2 == nil) {
			t.Fatalf("two answers:\n%s\n%s", first, again)
		}
	})
}

// If a command has several errors, always the same one is reported.
func TestTheFirstOfSeveralErrorsIsTold(t *testing.T) {
	for _, command := range []string{
		"machine sockets= cores= numa= threads=", "config gates=A=x,B=y,C=z", "config options=a,b,c topology-options=d,e,f",
		"pod b unvalidated\napp c cpu=1 memory=1500m hugepages-2Mi=1500m hugepages-1Gi=1500m",
	} {
		answers := map[string]bool{}
		for range 20 {
			n := scenario.New(nil)
			n.Run(parse(t, "machine cores=4 memory=8Gi"))
			n.Run(parse(t, "config cpu=static memory=Static"))
			answers[n.Run(parse(t, command))] = true
		}
		if len(answers) != 1 {
			t.Errorf("%q answers %v", command, answers)
		}
	}
}

// The example in CONTRIBUTING.md is the starting point for contributors, so it must play.
func TestTheExampleForContributorsPlays(t *testing.T) {
	guide, err := os.ReadFile("../../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "## How to add a scenario\n")
	section, _, _ = strings.Cut(section, "Save it")
	var script strings.Builder
	for line := range strings.Lines(section) {
		if text, indented := strings.CutPrefix(line, "    "); indented || line == "\n" {
			script.WriteString(text)
		}
	}
	got, err := scenario.Play("CONTRIBUTING.md", script.String(), nil)
	if err != nil || strings.Contains(got, "\nerror: ") || strings.Contains(got, "\ninvalid: ") {
		t.Errorf("error %v, answers:\n%s", err, got)
	}
	if strings.Count(got, "\nadmitted") != 1 || strings.Count(got, "\nrejected: TopologyAffinityError") != 1 {
		t.Errorf("want one pod admitted and the other refused:\n%s", got)
	}
}
