package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// failures collects the messages of failed tests, to be printed again at the end. The log of a test
// is mixed with those of the machines that run in parallel, and far up in the output.
type failures struct {
	mu   sync.Mutex
	said []string
}

// fail records a message and ends the test.
func fail(t *testing.T, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	world.failures.add(t.Name(), text)
	t.Fatal(text)
}

func (f *failures) add(test, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, test+": "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    "))
}

func (f *failures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out strings.Builder
	for _, text := range f.said {
		fmt.Fprintf(&out, "\nfailed: %s\n", text)
	}
	return out.String()
}
