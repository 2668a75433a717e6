package console

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

func TestFlow(t *testing.T) {
	const text = `Words that are broken
by hand, and go on.

  one    the description of one, which
         goes on
  a two  another

  kubectl get nodes -o json
end`
	for width, expected := range map[int]string{
		0: `Words that are broken by hand, and go on.

  one    the description of one, which goes on
  a two  another

  kubectl get nodes -o json
end
`,
		24: `Words that are broken by
hand, and go on.

  one    the description
         of one, which
         goes on
  a two  another

  kubectl get nodes -o json
end
`,
	} {
		if got := flow(text, width); got != expected {
			t.Errorf("width %d:\n%s", width, got)
		}
	}
}

// TestFlowKeepsWords checks that only spaces and line breaks change.
func TestFlowKeepsWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab  \n-"))).Draw(t, "text")
		width := rapid.IntRange(20, 60).Draw(t, "width")
		plain := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got := flow(text, width); plain(got) != plain(text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// TestHelp checks what the help of a command has.
func TestHelp(t *testing.T) {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "p", Long: strings.Repeat("word ", 40)}
	root.PersistentFlags().Bool("all", false, strings.Repeat("usage ", 20))
	child := &cobra.Command{Use: "child FILE", Short: strings.Repeat("short ", 20), Example: "  p child x", Run: run}
	child.Flags().Bool("own", false, "of the child")
	root.AddCommand(child)
	for name, c := range map[string]struct {
		of       *cobra.Command
		expected []string
	}{
		"root":  {root, []string{"Usage:\n  p", "COMMAND\n", "Available Commands:\n  child", "Flags:\n", "p COMMAND --help shows"}},
		"child": {child, []string{"short short", "Usage:\n  p child FILE [flags]\n", "Examples:\n  p child x\n", "--own", "Global Flags:\n", "--all"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := helpText(c.of, 80)
			for _, part := range c.expected {
				if !strings.Contains(text, part) {
					t.Errorf("it has no %q:\n%s", part, text)
				}
			}
			for line := range strings.Lines(text) {
				if w := terminal.Width(strings.TrimSuffix(line, "\n")); w > 80 {
					t.Errorf("%d columns: %s", w, line)
				}
			}
		})
	}
}
