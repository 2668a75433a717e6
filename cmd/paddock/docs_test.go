package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is the README or a page in docs. Its blocks of commands are of two kinds:
//
//	```console  "$ COMMAND" and its output. The test runs the commands of a page as they are and in order,
//	            in a directory with the examples. The exit code must be 0, or the N of a trailing
//	            "# exit code N". The quoted text must be in the output, apart from line breaks and
//	            columns. "…" represents text that is left out.
//	```sh       commands that need a node, a cluster or a running agent. The test does not run them.
//	            Every paddock command in them must exist, with the given flags.
type page struct {
	name   string
	text   string
	blocks []block
}

// reference lists the pages without commands that can run here.
var reference = []string{"docs/adopt.md", "docs/agent.md", "docs/commands.md", "docs/how-fast.md", "docs/kubelet-does-not-start.md", "docs/kueue.md", "docs/metrics.md", "docs/observe-a-kubelet.md", "docs/predict.md", "docs/quiet-cpus.md", "docs/release.md", "docs/runtimes.md", "docs/scheduler.md", "docs/slow-nodes.md"}

type block struct {
	kind  string
	first int // the number of its first line
	lines []string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)\n```$")

func readPages(t *testing.T) []page {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(names) < 4 {
		t.Fatalf("docs has the pages %q: %v", names, err)
	}
	var pages []page
	for _, name := range append(names, "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, parsePage(filepath.ToSlash(strings.TrimPrefix(name, "../../")), string(text)))
	}
	return pages
}

func parsePage(name, text string) page {
	p := page{name: name, text: text}
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		p.blocks = append(p.blocks, block{
			kind:  text[at[2]:at[3]],
			first: strings.Count(text[:at[4]], "\n") + 1,
			lines: strings.Split(text[at[4]:at[5]], "\n"),
		})
	}
	return p
}

// command is one "$ " line with its continuations, and its output as the page quotes it.
type command struct {
	line   int
	text   string
	exit   int
	quoted []string
}

func (b block) commands() ([]command, error) {
	var all []command
	continued := false
	for i, line := range b.lines {
		text, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case isCommand:
			all = append(all, command{line: b.first + i, text: text})
		case len(all) == 0:
			return nil, fmt.Errorf("line %d: a console block begins with a command: %q", b.first+i, line)
		case continued:
			all[len(all)-1].text += "\n" + line
		default:
			all[len(all)-1].quoted = append(all[len(all)-1].quoted, line)
		}
		continued = (isCommand || continued) && (strings.HasSuffix(line, `\`) || strings.HasSuffix(line, "|"))
	}
	for i := range all {
		if _, code, ok := strings.Cut(all[i].text, "# exit code "); ok {
			if _, err := fmt.Sscan(code, &all[i].exit); err != nil {
				return nil, fmt.Errorf("line %d: exit code %q: %w", all[i].line, code, err)
			}
		}
	}
	return all, nil
}

// unquoted returns the first piece of quoted that is not in output, after the pieces before it.
func unquoted(quoted []string, output string) string {
	rest := " " + strings.Join(strings.Fields(output), " ") + " "
	for piece := range strings.SplitSeq(strings.Join(quoted, "\n"), "…") {
		words := strings.Join(strings.Fields(piece), " ")
		_, after, ok := strings.Cut(rest, " "+words+" ")
		if words != "" && !ok {
			return words
		}
		if words != "" {
			rest = " " + after
		}
	}
	return ""
}

// TestDocsCommands runs the commands that the pages show.
func TestDocsCommands(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range readPages(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Symlink(examples, filepath.Join(dir, "examples")); err != nil {
				t.Fatal(err)
			}
			ran := 0
			for _, b := range p.blocks {
				if b.kind != "console" {
					continue
				}
				commands, err := b.commands()
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range commands {
					c.run(t, p.name, dir)
				}
				ran += len(commands)
			}
			if (ran == 0) != slices.Contains(reference, p.name) {
				t.Errorf("%d commands of it were run; is it in the list reference?", ran)
			}
		})
	}
}

// TestSiteHasEveryPage checks that each page is in a list of the site, which is not built without
// that.
func TestSiteHasEveryPage(t *testing.T) {
	lists, err := os.ReadFile("../../site/pages.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range readPages(t) {
		if strings.HasPrefix(p.name, "docs/") && !strings.Contains(string(lists), "'"+p.name+"'") {
			t.Errorf("%s is in no list of site/pages.mjs", p.name)
		}
	}
}

// TestCommonReasons checks that each sentence in the table of reasons is in a recorded answer.
func TestCommonReasons(t *testing.T) {
	text, err := os.ReadFile("../../docs/read-a-rejection.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "## Common reasons")
	table, _, _ := strings.Cut(after, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1)
	if !found || len(rows) < 4 {
		t.Fatalf("docs/read-a-rejection.md has %d common reasons", len(rows))
	}
	var answers strings.Builder
	for _, pattern := range []string{"../../internal/testing/core/node/testdata/*.txt", "../../examples/nights/*/answer.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			recorded, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			answers.WriteString(strings.Join(strings.Fields(string(recorded)), " ") + "\n")
		}
	}
	for _, row := range rows {
		parts := strings.Split(row[1], "…")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		if !regexp.MustCompile(strings.Join(parts, ".*")).MatchString(answers.String()) {
			t.Errorf("docs/read-a-rejection.md: no recorded answer has %q: edit the table by hand", row[1])
		}
	}
}

func (c command) run(t *testing.T, name, dir string) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "sh", "-c", c.text)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "COLUMNS=") // as without a terminal
	output, err := shell.CombinedOutput()
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != c.exit {
		t.Errorf("%s:%d: exit code %d, the page says %d\n%s\n%s", name, c.line, got, c.exit, c.text, output)
	}
	if missing := unquoted(c.quoted, string(output)); missing != "" {
		t.Errorf("%s:%d: the page quotes\n  %s\nwhich is not in the output, or not in this order:\n%s", name, c.line, missing, output)
	}
}

// paddockCall matches a call in a shell line, up to the end of the call.
var paddockCall = regexp.MustCompile(`(?m)(?:^\s*|[|(]\s*|^ssh \S+ )(?:bin/)?paddock ([^\n|;&>#)]*)`)

// indented matches an indented call, which the other tests would not find.
var indented = regexp.MustCompile(`(?m)^ {4,}(?:bin/)?paddock .*$`)

// TestDocsCommandsExist checks that commands that need a node exist, with their flags.
func TestDocsCommandsExist(t *testing.T) {
	for _, p := range readPages(t) {
		for _, b := range p.blocks {
			if b.kind != "sh" {
				continue
			}
			for _, call := range paddockCall.FindAllStringSubmatch(strings.ReplaceAll(strings.Join(b.lines, "\n"), "\\\n", " "), -1) {
				if err := understood(strings.Fields(call[1])); err != nil {
					t.Errorf("%s:%d: paddock %s: %v", p.name, b.first, call[1], err)
				}
			}
		}
		if call := indented.FindString(fence.ReplaceAllString(p.text, "")); call != "" {
			t.Errorf("%s: commands stand in fenced blocks, where they are tested: %s", p.name, call)
		}
	}
}

func understood(args []string) error {
	cmd, rest, err := newRootCommand().Find(args)
	if err != nil {
		return err
	}
	if !cmd.HasParent() {
		return errors.New("no command is named")
	}
	return cmd.ParseFlags(rest)
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

// TestDocsLinks checks the links within the repository, and that the README links to every page.
func TestDocsLinks(t *testing.T) {
	var fromReadme []string
	pages := readPages(t)
	for _, p := range pages {
		for _, m := range link.FindAllStringSubmatch(p.text, -1) {
			if _, err := os.Stat(filepath.Join("../..", filepath.Dir(p.name), m[1])); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
			if p.name == "README.md" {
				fromReadme = append(fromReadme, m[1])
			}
		}
	}
	for _, p := range pages {
		if p.name != "README.md" && !slices.Contains(fromReadme, p.name) {
			t.Errorf("README.md does not link %s", p.name)
		}
	}
}

// TestDocsReader checks that the parser of the pages and the checks can fail.
func TestDocsReader(t *testing.T) {
	p := parsePage("x.md", "text\n```console\n$ a \\\n    b # exit code 2\nout 1\n…\nout 3\n$ c\n```\n```sh\npaddock topology\n```\n")
	commands, err := p.blocks[0].commands()
	if err != nil || len(p.blocks) != 2 || len(commands) != 2 {
		t.Fatalf("got %+v, %v", p, err)
	}
	first := commands[0]
	if first.line != 3 || first.exit != 2 || first.text != "a \\\n    b # exit code 2" || len(first.quoted) != 3 {
		t.Errorf("got %+v", first)
	}
	for output, want := range map[string]string{
		"out  1\nout 2\nout 3\n": "",
		"out 1\nout 2\n":         "out 3",
		"out 3\nout 1\n":         "out 3",
		"out 11\nout 3\n":        "out 1",
	} {
		if got := unquoted(first.quoted, output); got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
	}
	if _, err := (block{lines: []string{"out"}}).commands(); err == nil {
		t.Error("output without a command is taken")
	}
	for line, want := range map[string]string{
		"ssh node7 paddock topology -o json > node7.json": "topology -o json ",
		"kubectl get pods |\n    paddock plan -":          "plan -",
		"systemctl start paddock kubelet":                 "",
	} {
		got := append(paddockCall.FindStringSubmatch(line), "", "")
		if got[1] != want {
			t.Errorf("%q: got the call %q, want %q", line, got[1], want)
		}
	}
	for _, args := range [][]string{{"nosuch"}, {}, {"plan", "--nosuch", "x"}} {
		if understood(args) == nil {
			t.Errorf("%q is understood", args)
		}
	}
	if err := understood([]string{"plan", "--machine", "x", "pods/"}); err != nil {
		t.Error(err)
	}
}
