package cluster

import (
	"fmt"
	"os"
	"strings"
)

// page is a file of commands with their answers, and prose between them:
//
//	< node
//
//	# A line of prose. An empty line separates prose and commands from answers.
//	$ kubectl label node node1 paddock-node=true
//	node/node1 labeled
//
//	~ kubectl get pod first -o jsonpath={.status.phase}
//	Running
//
// The line that begins with < describes what the page starts from. NAME means a snapshot, which is
// a cluster at the end of the page testdata/snapshots/NAME.txt. "boot 6.1" means a new node with a
// kernel of that series, and "boot 6.1 cri-o" the same with CRI-O instead of containerd. A command that begins with $ runs once. A command that begins with ~ runs
// until it gives the answer. A command continues on the next line after a backslash. The answer is
// what the command writes to both of its outputs, followed by "exit N" if the exit code is not 0.
// In an answer, … matches any text in a line, and a line that is only … matches any number of
// lines.
type page struct {
	from   string
	blocks []block
}

// block is a command with its answer, or prose.
type block struct {
	// prose has the lines before the command.
	prose   []string
	command string
	// again is set if the command runs until it gives the answer.
	again  bool
	answer []string
	line   int
}

func readPage(name string) (*page, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parsePage(name, string(text))
}

func parsePage(name, text string) (*page, error) {
	var p page
	var b block
	inAnswer, continues := false, false
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		from, begins := strings.CutPrefix(line, "< ")
		switch {
		case i == 0 && begins:
			p.from = from
		case continues:
			b.command += "\n" + line
			continues = strings.HasSuffix(line, "\\")
		case strings.HasPrefix(line, "$ "), strings.HasPrefix(line, "~ "):
			if b.command != "" {
				p.blocks, b = append(p.blocks, b), block{}
			}
			b.command, b.again, b.line = line[2:], line[0] == '~', i+1
			inAnswer, continues = true, strings.HasSuffix(line, "\\")
		case line == "":
			if b.command != "" {
				p.blocks, b = append(p.blocks, b), block{}
			} else {
				b.prose = append(b.prose, line)
			}
			inAnswer = false
		case inAnswer:
			b.answer = append(b.answer, line)
		case strings.HasPrefix(line, "#"):
			b.prose = append(b.prose, line)
		default:
			return nil, fmt.Errorf("%s:%d: expected a command ($ or ~), prose (#), or the answer behind a command: %q", name, i+1, line)
		}
	}
	if b.command != "" || len(b.prose) > 0 {
		p.blocks = append(p.blocks, b)
	}
	if p.from == "" {
		return nil, fmt.Errorf("%s:1: expected a line with what it begins from, as \"< node\"", name)
	}
	return &p, nil
}

// String returns the text of a page.
func (p *page) String() string {
	var out strings.Builder
	fmt.Fprintln(&out, "< "+p.from)
	for i, b := range p.blocks {
		for _, line := range b.prose {
			fmt.Fprintln(&out, line)
		}
		if b.command == "" {
			continue
		}
		sign := "$ "
		if b.again {
			sign = "~ "
		}
		fmt.Fprintln(&out, sign+b.command)
		for _, line := range b.answer {
			fmt.Fprintln(&out, line)
		}
		if i < len(p.blocks)-1 {
			fmt.Fprintln(&out)
		}
	}
	return out.String()
}

// matches reports whether the lines match the answer.
func matches(answer, lines []string) bool {
	if len(answer) == 0 {
		return len(lines) == 0
	}
	if answer[0] == "…" {
		for skip := 0; skip <= len(lines); skip++ {
			if matches(answer[1:], lines[skip:]) {
				return true
			}
		}
		return false
	}
	return len(lines) > 0 && matchesLine(answer[0], lines[0]) && matches(answer[1:], lines[1:])
}

func matchesLine(answer, line string) bool {
	first, rest, wild := strings.Cut(answer, "…")
	if !wild {
		return answer == line
	}
	line, found := strings.CutPrefix(line, first)
	if !found {
		return false
	}
	parts := strings.Split(rest, "…")
	for _, part := range parts[:len(parts)-1] {
		_, after, found := strings.Cut(line, part)
		if !found {
			return false
		}
		line = after
	}
	return strings.HasSuffix(line, parts[len(parts)-1])
}
