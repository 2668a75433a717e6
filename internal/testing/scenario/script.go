package scenario

import (
	"errors"
	"fmt"
	"strings"
)

// ErrSyntax is wrapped by every error of Parse.
var ErrSyntax = errors.New("not a scenario")

const separator = "----"

// Command is one command of a script.
type Command struct {
	Name string
	// Args are words, some of the form key=value.
	Args []string
	// Input are the lines that belong to the command.
	Input []string
}

// String returns the command in the form that Parse reads, without a trailing newline.
func (c Command) String() string {
	first := strings.Join(append([]string{c.Name}, c.Args...), " ")
	return strings.Join(append([]string{first}, c.Input...), "\n")
}

// Block is a part of a script. It has remarks, a command with its answer, or both.
type Block struct {
	Line    int // the line on which the block starts, counted from 1
	Remarks []string
	Command Command
	Answer  []string
}

// Parse splits a script into blocks. Errors begin with name.
func Parse(name, text string) ([]Block, error) {
	var blocks []Block
	var current []string
	start := 1
	flush := func() error {
		if len(current) == 0 {
			return nil
		}
		b, err := parseBlock(current)
		if err != nil {
			return fmt.Errorf("%s:%d: %w: %w", name, start, ErrSyntax, err)
		}
		b.Line = start
		blocks = append(blocks, b)
		current = nil
		return nil
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, " \t\r\n")
		if line != "" {
			if len(current) == 0 {
				start = number
			}
			current = append(current, line)
			continue
		}
		if err := flush(); err != nil {
			return nil, err
		}
	}
	return blocks, flush()
}

func parseBlock(lines []string) (Block, error) {
	var b Block
	for len(lines) > 0 && strings.HasPrefix(lines[0], "#") {
		b.Remarks = append(b.Remarks, lines[0])
		lines = lines[1:]
	}
	if len(lines) == 0 {
		return b, nil
	}
	words := strings.Fields(lines[0])
	if lines[0] == separator || len(words) == 0 {
		return b, errors.New("an answer without a command")
	}
	b.Command.Name, b.Command.Args = words[0], words[1:]
	for i, line := range lines[1:] {
		if line == separator {
			b.Answer = lines[i+2:]
			break
		}
		b.Command.Input = append(b.Command.Input, line)
	}
	return b, nil
}

// String returns the block as it is in a file.
func (b Block) String() string {
	lines := append([]string{}, b.Remarks...)
	if b.Command.Name != "" {
		lines = append(lines, b.Command.String(), separator)
		lines = append(lines, b.Answer...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// Play runs a script on a new node and returns the script with the resulting answers. A script is
// correct if it is returned unchanged.
func Play(name, text string, machines Machines) (string, error) {
	blocks, err := Parse(name, text)
	if err != nil {
		return "", err
	}
	n := New(machines)
	parts := make([]string, len(blocks))
	for i, b := range blocks {
		if b.Command.Name != "" {
			b.Answer = []string{n.Run(b.Command)}
		}
		parts[i] = b.String()
	}
	return strings.Join(parts, "\n"), nil
}
