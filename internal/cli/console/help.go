package console

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// printHelp prints the help of a command. Its lines are as wide as the output, but at most
// PageWidth columns: longer lines are hard to read.
func printHelp(cmd *cobra.Command, _ []string) {
	s := StreamsOf(cmd)
	width := s.Width()
	if width > 0 {
		width = min(width, PageWidth)
	}
	_, _ = io.WriteString(s.Stdout, helpText(cmd, width)) // Cobra gives no way to return an error.
}

// helpText returns the help of a command. A width of 0 means no limit.
func helpText(cmd *cobra.Command, width int) string {
	var out strings.Builder
	section := func(title, text string) {
		if text = strings.TrimRight(text, " \n"); text == "" {
			return
		}
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		if title != "" {
			out.WriteString(title + ":\n")
		}
		out.WriteString(text + "\n")
	}
	section("", flow(cmd.Long, width))
	if cmd.Long == "" {
		section("", flow(cmd.Short, width))
	}
	usage := ""
	if cmd.Runnable() && !isGroup(cmd) {
		usage = "  " + cmd.UseLine() + "\n"
	}
	if cmd.HasAvailableSubCommands() {
		usage += "  " + cmd.CommandPath() + " COMMAND\n"
	}
	section("Usage", usage)
	section("Examples", cmd.Example)
	section("Available Commands", commandList(cmd, width))
	section("Flags", cmd.LocalFlags().FlagUsagesWrapped(width))
	section("Global Flags", cmd.InheritedFlags().FlagUsagesWrapped(width))
	if cmd.HasAvailableSubCommands() {
		section("", fmt.Sprintf("%s COMMAND --help shows more about a command.", cmd.CommandPath()))
	}
	return out.String()
}

// commandList returns a line for each subcommand.
func commandList(cmd *cobra.Command, width int) string {
	var out strings.Builder
	style := terminal.Style{Width: width}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() && c.Name() != "help" {
			continue
		}
		name := fmt.Sprintf("  %-*s  ", c.NamePadding(), c.Name())
		out.WriteString(style.Paragraph(name, strings.Repeat(" ", len(name)), terminal.Plain.Of(c.Short)))
	}
	return out.String()
}

// entry matches a line of a table in a help text: its name, and after at least two spaces its
// description.
var entry = regexp.MustCompile(`^( +\S+(?: \S+)*  +)(\S+(?: \S+)*)$`)

// flow breaks the lines of a help text again, so that they fit into the width. Lines that begin
// with a space are kept, because they are commands. If such a line is an entry of a table, its
// description is broken, together with the lines below it that begin in the same column.
func flow(text string, width int) string {
	var out strings.Builder
	style := terminal.Style{Width: width}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for len(lines) > 0 {
		first, rest := "", ""
		line := lines[0]
		lines = lines[1:]
		switch found := entry.FindStringSubmatch(line); {
		case found != nil:
			first, line = found[1], found[2]
			rest = strings.Repeat(" ", terminal.Width(first))
		case line == "" || line[0] == ' ':
			out.WriteString(line + "\n")
			continue
		}
		for len(lines) > 0 && continues(lines[0], len(rest)) {
			line += " " + strings.TrimLeft(lines[0], " ")
			lines = lines[1:]
		}
		out.WriteString(style.Paragraph(first, rest, terminal.Plain.Of(line)))
	}
	return out.String()
}

// continues reports whether a line begins in a column, and therefore continues the line above it.
func continues(line string, column int) bool {
	text := strings.TrimLeft(line, " ")
	return text != "" && len(line)-len(text) == column && entry.FindString(line) == ""
}
