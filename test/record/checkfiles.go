package record

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
)

// Differ reports whether an error of Run means that answers differ from the recorded ones.
func Differ(err error) bool { return errors.Is(err, errDiffer) }

// CheckFiles is a test that the managers still give every answer in the files. machines is the
// directory with the machines that the scenarios name.
func CheckFiles(t *testing.T, machines string, files []string) {
	t.Helper()
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var out bytes.Buffer
			err := Run([]string{"-check", "-machines", machines, file}, &out)
			t.Log(out.String())
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// CheckMinor is CheckFiles for the recordings of a minor version such as "1.36".
func CheckMinor(t *testing.T, minor string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../../testdata/kubelets", minor, "*.jsonl.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings of %s: %v", minor, err)
	}
	CheckFiles(t, "../../../testdata/golden/machines", files)
}
