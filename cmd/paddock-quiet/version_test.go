package main

import (
	"bytes"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/build"
)

// TestVersion checks the command version in both forms, the flag, and what is not understood.
func TestVersion(t *testing.T) {
	answer := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), args, &out, io.Discard)
		return out.String(), err
	}
	text, err := answer("version")
	if err != nil || !strings.HasPrefix(text, "paddock-quiet "+build.Version()+"\n") || !strings.Contains(text, "PodResources v1\n") {
		t.Errorf("%q, %v", text, err)
	}
	if flagged, err := answer("--version"); err != nil || flagged != "paddock-quiet "+build.Version()+" ("+runtime.Version()+", "+build.Platform()+")\n" {
		t.Errorf("%q, %v", flagged, err)
	}
	document, err := answer("version", "-o", "json")
	var read struct{ Kind, Program, Version string }
	if unmarshalErr := json.Unmarshal([]byte(document), &read); err != nil || unmarshalErr != nil {
		t.Fatalf("%q: %v, %v", document, err, unmarshalErr)
	}
	if read.Kind != "Version" || read.Program != "paddock-quiet" || read.Version != build.Version() {
		t.Errorf("%+v", read)
	}
	for _, args := range [][]string{{"version", "-o", "xml"}, {"version", "now"}} {
		if out, err := answer(args...); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%q: %q, %v", args, out, err)
		}
	}
}
