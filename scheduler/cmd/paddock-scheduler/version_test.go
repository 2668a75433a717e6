package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/build"
	"github.com/paddock-project/paddock/internal/cli/console"
)

// TestVersion checks that the command version names the kube-scheduler in the program.
func TestVersion(t *testing.T) {
	answer := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := console.Execute(offline(), args, strings.NewReader(""), &out, &errs); code != 0 || errs.Len() > 0 {
			t.Fatalf("%q: exit code %d, %s", args, code, errs.String())
		}
		return out.String()
	}
	if text := answer("version"); !strings.HasPrefix(text, "paddock-scheduler "+build.Version()+"\n") || !strings.Contains(text, "\nkube-scheduler  ") {
		t.Errorf("%s", text)
	}
	var read struct {
		Kind, Program, KubeScheduler string
		Kubelets                     []string
	}
	if err := json.Unmarshal([]byte(answer("version", "-o", "json")), &read); err != nil {
		t.Fatal(err)
	}
	if read.Kind != "Version" || read.Program != "paddock-scheduler" || read.KubeScheduler == "" || len(read.Kubelets) < 5 {
		t.Errorf("%+v", read)
	}
}
