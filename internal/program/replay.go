package program

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/replay"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// maxLine limits one scenario line, in bytes. The largest line of the golden files has 0.3 MiB.
const maxLine = 64 << 20

// defaultDivergences lists the intended differences between Paddock and the reference.
const defaultDivergences = "testdata/divergences.txt"

// replayCommand is one invocation of paddock replay.
type replayCommand struct {
	machines    string
	divergences string
	check       bool
	as          asFlag
	console.Streams
	out    *bufio.Writer
	player replay.Player
	found  map[string]*machine.Machine

	meant              *replay.Divergences
	lines              int // that are not empty
	scenarios, equal   int
	others             map[string]int // scenarios of the file by the kubelet that wrote their state files, if another one decides
	events, apart      int
	unlisted, problems int
}

func (r *replayCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Run recorded scenarios, and print or compare the decisions",
		Long: `Replay reads scenarios, one JSON object per line (plain or gzip, "-" for standard input), and
prints what Paddock decides, one JSON result per line, in the same order. docs/rules/format.md
describes the format.

With --check, it compares each line that has a recorded result with this result. It prints one
line for each difference, and then the numbers of equal scenarios. After a difference in the
state, it continues, and marks differences "(follows)" until the states are equal again.

With --as, a kubelet with its known faults decides. The differences of the recorded kubelets are listed beside them,
such as testdata/kubelets/1.36/differences.txt.

Exit codes: 0 done, 1 error, such as a listed difference that no longer occurs, 2 a difference is not listed in
--divergences and does not follow from an earlier one.`,
		Example: `  paddock replay --check testdata/golden/*.jsonl.gz
  paddock replay --check --as kubelet-1.36 --machines testdata/golden/machines \
      --divergences testdata/kubelets/1.36/differences.txt testdata/kubelets/1.36/ordinary.jsonl.gz
  paddock replay --machines testdata/golden/machines my-scenarios.jsonl`,
		Args: console.Arguments(1, 0, "files of scenarios, or \"-\" for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Streams = console.StreamsOf(cmd)
			r.out = bufio.NewWriter(r.Stdout)
			err := r.run(args)
			return errors.Join(err, r.out.Flush())
		},
	}
	cmd.Flags().StringVar(&r.machines, "machines", "", "`DIR` with the machine NAME.json of \"@NAME\"; without it the directory machines beside each file")
	cmd.Flags().StringVar(&r.divergences, "divergences", defaultDivergences, "`FILE` that lists the intended differences")
	r.as.register(cmd, "decide as this kubelet does, with its known faults")
	cmd.Flags().BoolVar(&r.check, "check", false, "compare with the recorded results instead of printing ours")
	console.Need(cmd, "--check", func() bool { return r.check }, "divergences")
	return cmd
}

func (r *replayCommand) run(files []string) error {
	r.found = map[string]*machine.Machine{}
	r.player.Now, r.player.Kubelet, r.player.Find = time.Now, r.as.version, treatment.FromScenario
	if r.as.auto {
		return errors.New("--as auto: a scenario has no Node whose kubelet could be meant; name the kubelet, such as --as " + newestKubelet())
	}
	if err := r.readDivergences(); err != nil {
		return err
	}
	for _, name := range files {
		if err := r.file(name); err != nil {
			return err
		}
	}
	if r.lines == 0 {
		return fmt.Errorf("%s: there are no scenarios in it", strings.Join(files, ", "))
	}
	if r.check {
		fmt.Fprintf(r.out, "%d of %d scenarios equal; %d of %d events began with different states\n",
			r.equal, r.scenarios, r.apart, r.events)
	}
	switch {
	case r.problems > 0:
		return &console.ExitError{Code: 1}
	case r.unlisted > 0:
		return &console.ExitError{Code: 2}
	}
	return nil
}

// readDivergences reads the list. Only the default file may be missing, because users replay their
// own scenarios anywhere.
func (r *replayCommand) readDivergences() error {
	if r.divergences == defaultDivergences && r.as.kubelet() { // It is about Paddock.
		r.meant = &replay.Divergences{}
		return nil
	}
	file, err := os.Open(r.divergences)
	if errors.Is(err, os.ErrNotExist) && r.divergences == defaultDivergences {
		r.meant = &replay.Divergences{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("--divergences: %w", err)
	}
	defer file.Close()
	r.meant, err = replay.ReadDivergences(r.divergences, file)
	return err
}

func (r *replayCommand) file(name string) error {
	input := bufio.NewReader(r.Stdin)
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		input = bufio.NewReader(file)
	}
	lines := io.Reader(input)
	if magic, err := input.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		if lines, err = gzip.NewReader(input); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	r.player.Machine = func(machineName string) (*machine.Machine, error) { return r.machine(name, machineName) }
	before, beforeEqual := r.scenarios, r.equal
	r.others = map[string]int{}
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, maxLine)
	number := 0
	for scanner.Scan() {
		number++
		if line := scanner.Bytes(); len(strings.TrimSpace(string(line))) > 0 {
			r.lines++
			if err := r.line(line); err != nil {
				r.problem("%s:%d: %v", name, number, err)
			}
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: the line has more than %s, the most that is read: expected one scenario on each line", name, number+1, request.RoundedBytes(maxLine))
	case err != nil:
		return fmt.Errorf("%s:%d: %w", name, number+1, err)
	}
	r.noteOthers(name)
	if r.check {
		fmt.Fprintf(r.out, "%s: %d of %d scenarios equal\n", name, r.equal-beforeEqual, r.scenarios-before)
	}
	return nil
}

// noteOthers adds a note for each kubelet that wrote the files of scenarios if --as names another
// one.
func (r *replayCommand) noteOthers(name string) {
	for _, version := range slices.Sorted(maps.Keys(r.others)) {
		r.Notes([]string{fmt.Sprintf("%s: kubelet %s wrote the state files of %s, and --as %s reads them and decides",
			name, version, view.Count(r.others[version], "scenario"), r.as.String())})
	}
}

func (r *replayCommand) problem(format string, args ...any) {
	r.problems++
	fmt.Fprintf(r.Stderr, "paddock: %s\n", console.OneLine(fmt.Sprintf(format, args...)))
}

func (r *replayCommand) line(line []byte) error {
	c, err := replay.Decode(line)
	if err != nil {
		return err
	}
	if found := c.Scenario.Found; found != nil && r.as.kubelet() && found.Version != r.as.version.String() {
		r.others[found.Version]++
	}
	if r.check {
		return r.compare(&c)
	}
	result, err := r.player.Run(&c.Scenario)
	if err != nil {
		return err
	}
	return json.NewEncoder(r.out).Encode(&result)
}

func (r *replayCommand) compare(c *replay.Case) error {
	if c.Want == nil {
		return fmt.Errorf("scenario %s has no recorded result to compare with", c.Scenario.Name)
	}
	got, err := r.player.Follow(&c.Scenario, c.Want)
	if err != nil {
		return err
	}
	compare := replay.Compare
	if r.as.kubelet() {
		compare = replay.CompareKubelet
	}
	compared := compare(&c.Scenario, &got, c.Want)
	r.scenarios++
	r.events += compared.Events
	r.apart += compared.Apart
	if len(compared.Differences) == 0 {
		r.equal++
	}
	for _, d := range compared.Differences {
		mark := ""
		switch {
		case r.meant.Listed(d):
			mark = " (meant)"
		case d.Follows:
			mark = " (follows)"
		default:
			r.unlisted++
		}
		fmt.Fprintf(r.out, "%s%s\n", d, mark)
	}
	for _, unused := range r.meant.Unused(c.Scenario.Name) {
		r.problem("%s: %s", r.divergences, unused)
	}
	return nil
}

// machine reads the machine of "@name" once and keeps it.
func (r *replayCommand) machine(file, name string) (*machine.Machine, error) {
	dir := r.machines
	if dir == "" {
		dir = filepath.Join(filepath.Dir(file), "machines")
	}
	if name != filepath.Base(name) {
		return nil, fmt.Errorf("machine @%s: expected the name of a file in %s without .json", name, dir)
	}
	path := filepath.Join(dir, name+".json")
	if m := r.found[path]; m != nil {
		return m, nil
	}
	found, err := inputs.Reader{Names: inputs.Names{Machine: "machine @" + name}}.Machine(path)
	if err != nil {
		return nil, err
	}
	r.found[path] = found.Machine
	return found.Machine, nil
}
