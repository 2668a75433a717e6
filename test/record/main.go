package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func main() {
	var c command
	flag.StringVar(&c.machines, "machines", "", "`directory` with the machine NAME.json of \"@NAME\"; without it the directory machines beside each file")
	flag.IntVar(&c.runs, "runs", 3, "how often each scenario runs, to find answers that are random")
	flag.BoolVar(&c.trim, "trim", false, "leave out memory accounts and state files")
	flag.BoolVar(&c.check, "check", false, "compare with the recorded results instead of writing new ones")
	flag.Usage = func() {
		_, _ = io.WriteString(flag.CommandLine.Output(), "usage: record [flags] FILE...\n\nRuns scenarios through the managers of the kubelet and writes their answers.\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	c.out = bufio.NewWriter(os.Stdout)
	if err := errors.Join(c.files(flag.Args()), c.out.Flush()); err != nil {
		fmt.Fprintf(os.Stderr, "record: %v\n", err)
		os.Exit(1)
	}
}

// command is one call of the program.
type command struct {
	machines    string
	runs        int
	trim, check bool
	out         *bufio.Writer

	scenarios, differ int
}

var errDiffer = errors.New("answers differ from the recorded ones")

func (c *command) files(names []string) error {
	klog.SetLogger(logr.Discard())
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
	machine, err := readMachine(machines, s.Machine)
	if err != nil {
		return fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	c.scenarios++
	answers := func() (any, error) { return play(&s, machine) }
	if s.File != "" {
		answers = func() (any, error) { return judge(&s, machine) }
	}
	if c.check {
		return c.compare(&s, l.Result, answers)
	}
	if s.File == "" {
		answers = func() (any, error) {
			r, err := record(&s, machine, c.runs)
			if c.trim {
				r.trim()
			}
			return r, err
		}
	}
	answer, err := answers()
	if err != nil {
		return fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return c.write(&s, l, answer)
}

func (c *command) write(s *scenario, l line, answer any) error {
	result, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	if s.File == "" {
		l.Result = result
		return json.NewEncoder(c.out).Encode(l)
	}
	// A verdict is beside the scenario's fields.
	var whole, verdict map[string]any
	if err := errors.Join(json.Unmarshal(l.Scenario, &whole), json.Unmarshal(result, &verdict)); err != nil {
		return err
	}
	whole["accepted"], whole["error"] = verdict["accepted"], verdict["error"]
	return json.NewEncoder(c.out).Encode(whole)
}
