package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/paddock-project/paddock/internal/node/telemetry"
)

func TestLevelsAndFormats(t *testing.T) {
	for i, level := range telemetry.Levels {
		for _, format := range telemetry.Formats {
			var b bytes.Buffer
			least, err := telemetry.Level(level)
			log, errLog := telemetry.NewLogger(&b, format, least)
			if err := errors.Join(err, errLog); err != nil {
				t.Fatal(err)
			}
			for _, at := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
				log.Log(t.Context(), at, "something", "pod", "default/web")
			}
			lines := strings.Split(strings.TrimSpace(b.String()), "\n")
			if len(lines) != len(telemetry.Levels)-i {
				t.Errorf("%s, %s: %d lines:\n%s", format, level, len(lines), b.String())
			}
			for _, line := range lines {
				if isJSON := json.Valid([]byte(line)); isJSON != (format == telemetry.FormatJSON) || !strings.Contains(line, "default/web") {
					t.Errorf("%s: %s", format, line)
				}
			}
		}
	}
}

func TestUnknownLevelAndFormat(t *testing.T) {
	cases := []struct{ format, level, want string }{
		{"text", "loud", `log level "loud" is not known: use one of debug, info, warn, error`},
		{"text", "INFO+2", `log level "INFO+2" is not known: use one of debug, info, warn, error`},
		{"xml", "info", `log format "xml" is not known: use one of text, json`},
		{"", "info", `log format "" is not known: use one of text, json`},
	}
	for _, c := range cases {
		_, err := telemetry.Level(c.level)
		if err == nil {
			_, err = telemetry.NewLogger(nil, c.format, slog.LevelInfo)
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}

func TestOperationIsOnEveryLineOfItsFlow(t *testing.T) {
	var b bytes.Buffer
	log, err := telemetry.NewLogger(&b, telemetry.FormatText, slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	var operations telemetry.Operations
	first := operations.WithOperation(t.Context())
	inner := operations.WithOperation(first)
	second := operations.WithOperation(t.Context())
	log.InfoContext(t.Context(), "none")
	log.InfoContext(first, "one")
	log.With("pod", "a").InfoContext(inner, "still one")
	log.InfoContext(second, "two")
	var got []string
	for line := range strings.Lines(b.String()) {
		_, op, _ := strings.Cut(strings.TrimSpace(line), "op=")
		got = append(got, op)
	}
	if strings.Join(got, " ") != " 1 1 2" {
		t.Errorf("operations %q", got)
	}
	if telemetry.Operation(t.Context()) != 0 || telemetry.Operation(inner) != 1 {
		t.Error("Operation differs from what is logged")
	}
}

func TestOperationsAreUnique(t *testing.T) {
	var operations telemetry.Operations
	var seen sync.Map
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				id := telemetry.Operation(operations.WithOperation(t.Context()))
				if _, twice := seen.LoadOrStore(id, true); twice || id == 0 {
					t.Errorf("operation %d twice, or 0", id)
				}
			}
		})
	}
	group.Wait()
}
