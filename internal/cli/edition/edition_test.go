package edition

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/base/build"
)

// TestOf checks that an edition names every recorded kubelet and every format with a version, in
// both forms.
func TestOf(t *testing.T) {
	e := Of("paddock-scheduler")
	text := e.Text()
	if !strings.HasPrefix(text, "paddock-scheduler "+build.Version()+"\n") {
		t.Errorf("the text begins with another line:\n%s", text)
	}
	if len(e.Kubelets) < 5 || len(e.Formats) < 5 {
		t.Errorf("%d kubelets and %d formats", len(e.Kubelets), len(e.Formats))
	}
	for _, k := range e.Kubelets {
		if !strings.Contains(text, k) {
			t.Errorf("the text does not name kubelet %s:\n%s", k, text)
		}
	}
	for _, f := range e.Formats {
		if f.Version == "" || f.Version == "0" || !strings.Contains(text, f.Name+" "+f.Version) {
			t.Errorf("the text does not have %+v:\n%s", f, text)
		}
	}
}

// TestJSON checks the document that programs write which do not link what all commands share.
func TestJSON(t *testing.T) {
	data, err := Of("paddock").JSON()
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		APIVersion, Kind, Program, Version string
		Kubelets                           []string
	}
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	if read.APIVersion != v1alpha1.GroupVersion.String() || read.Kind != "Version" || read.Program != "paddock" || read.Version != build.Version() || len(read.Kubelets) < 5 {
		t.Errorf("%s", data)
	}
}
