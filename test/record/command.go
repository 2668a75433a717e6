package record

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

// Main is the program of a minor version.
func Main(minor Minor) {
	klog.SetLogger(logr.Discard())
	var err error
	switch args := os.Args[1:]; {
	case slices.Equal(args, []string{WorkerFlag}):
		err = work(minor, os.Stdin, os.Stdout)
	case slices.Equal(args, []string{LiveFlag}):
		err = live(minor, os.Stdin, os.Stdout)
	default:
		err = Run(args, os.Stdout)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "record: %v\n", err)
		os.Exit(1)
	}
}

// Run is the program without its process: it starts the process's own executable as a worker.
func Run(args []string, out io.Writer) error {
	c := command{out: bufio.NewWriter(out)}
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	flags.StringVar(&c.machines, "machines", "", "`directory` with the machine NAME.json of \"@NAME\"; without it the directory machines beside each file")
	flags.IntVar(&c.runs, "runs", 3, "how often each scenario runs, to find answers that are random")
	flags.BoolVar(&c.trim, "trim", false, "leave out memory accounts and state files")
	flags.BoolVar(&c.check, "check", false, "compare with the recorded results instead of writing new ones")
	flags.DurationVar(&c.patience, "patience", time.Minute, "an event that takes longer is recorded as one that does not end")
	random := flags.Int("random", 0, "instead of reading files, print this many random bare scenarios, which begin at -seed")
	seed := flags.Uint64("seed", 1, "of the first random scenario")
	var contents Contents
	flags.BoolVar(&contents.Pools, "pools", false, "give half of the pods of random scenarios pod-level resources")
	flags.BoolVar(&contents.Devices, "devices", false, "give the node of random scenarios devices, and most of the pods")
	gates := flags.Bool("gates", false, "instead of reading files, print the feature gates of this version with their defaults")
	flags.StringVar(&c.handedOver, "handed-over", "", "instead of recording, print of each recorded scenario the part from its last restart on, as a bare scenario: the node as the kubelet of this `version` left it")
	flags.BoolVar(&c.understood, "understood", false, "leave out scenarios that name a feature gate which this version does not have")
	flags.Usage = func() {
		_, _ = io.WriteString(flags.Output(), "usage: record [flags] FILE...\n\nRuns scenarios through the managers of the kubelet and writes their answers.\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *gates {
		return errors.Join(c.gates(), c.out.Flush())
	}
	if *random > 0 {
		return errors.Join(c.random(*seed, *random, contents), c.out.Flush())
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return flag.ErrHelp
	}
	defer c.worker.stop()
	return errors.Join(c.files(flags.Args()), c.out.Flush())
}

// command is one call of the program.
type command struct {
	machines    string
	runs        int
	trim, check bool
	patience    time.Duration
	understood  bool
	handedOver  string
	out         *bufio.Writer
	worker      worker

	scenarios, differ, endless int
}

// gates prints a JSON object for each gate, on a line of its own, in the order of the names.
func (c *command) gates() error {
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		spec := all[name]
		stage := string(spec.PreRelease)
		if stage == "" {
			stage = "GA"
		}
		text, err := json.Marshal(struct {
			Name    string `json:"name"`
			Default bool   `json:"default"`
			Stage   string `json:"stage"`
			Locked  bool   `json:"locked,omitempty"`
		}{string(name), spec.Default, stage, spec.LockToDefault})
		if err != nil {
			return err
		}
		if _, err := c.out.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) random(seed uint64, n int, contents Contents) error {
	for i := range uint64(n) {
		text, err := Random(seed+i, contents)
		if err != nil {
			return err
		}
		if _, err := c.out.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return nil
}

var errDiffer = errors.New("answers differ from the recorded ones")

func (c *command) files(names []string) error {
	for _, name := range names {
		if err := c.file(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if c.check && c.differ > 0 {
		return errDiffer
	}
	return nil
}

func (c *command) file(name string) error {
	lines, err := open(name)
	if err != nil {
		return err
	}
	defer lines.Close()
	machines := c.machines
	if machines == "" {
		machines = filepath.Join(filepath.Dir(name), "machines")
	}
	scenarios, differ := c.scenarios, c.differ
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, 64<<20)
	for number := 1; scanner.Scan(); number++ {
		if strings.TrimSpace(scanner.Text()) == "" {
			continue
		}
		if err := c.line(machines, scanner.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if c.check {
		fmt.Fprintf(c.out, "%s: %d of %d lines reproduced\n", name, c.scenarios-scenarios-(c.differ-differ), c.scenarios-scenarios)
	}
	return scanner.Err()
}

// open opens a file, compressed or not.
func open(name string) (io.ReadCloser, error) {
	file, err := os.Open(name)
	if err != nil || !strings.HasSuffix(name, ".gz") {
		return file, err
	}
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{unzipped, file}, nil
}

func (c *command) line(machines string, text []byte) error {
	l, s, err := decodeLine(text)
	if err != nil {
		return err
	}
	if c.understood && !s.understood() {
		return nil
	}
	if c.handedOver != "" {
		bare, err := handedOver(c.handedOver, l)
		if err == nil && bare != nil {
			_, err = c.out.Write(append(bare, '\n'))
		}
		return err
	}
	c.scenarios++
	if c.check {
		return c.compare(&s, l.Result, func() (json.RawMessage, error) { return c.answer(machines, l.Scenario, &s, 1) })
	}
	answer, err := c.answer(machines, l.Scenario, &s, c.runs)
	if err != nil {
		return fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return c.write(&s, l, answer)
}

func (c *command) write(s *scenario, l line, result json.RawMessage) error {
	if s.File == "" {
		l.Result = result
		return json.NewEncoder(c.out).Encode(l)
	}
	// A verdict is stored beside the scenario's fields.
	var whole, verdict map[string]any
	if err := errors.Join(json.Unmarshal(l.Scenario, &whole), json.Unmarshal(result, &verdict)); err != nil {
		return err
	}
	whole["accepted"], whole["error"] = verdict["accepted"], verdict["error"]
	return json.NewEncoder(c.out).Encode(whole)
}
