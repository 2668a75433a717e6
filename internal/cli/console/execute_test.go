package console

import (
	"errors"
	"testing"
)

func TestExitError(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		err  error
		text string
	}{
		{&ExitError{Code: 2}, "exit code 2"},
		{&ExitError{Code: 2, Err: cause}, "cause"},
	} {
		if c.err.Error() != c.text {
			t.Errorf("got %q, want %q", c.err, c.text)
		}
	}
	if !errors.Is(&ExitError{Code: 2, Err: cause}, cause) {
		t.Error("the cause is not unwrapped")
	}
	if got := OneLine("a\n\n\tb \r\nc\n"); got != "a b c" {
		t.Errorf("got %q", got)
	}
}
