package inputs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/spelling"
)

// exampleMachines is the directory of the example machines in Paddock's repository.
const exampleMachines = "examples/machines"

// noMachine adds to the error about a machine that does not exist what the user may mean: a file
// beside it or an example with a similar name, or else the examples, if they are here.
func noMachine(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	base := func(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }
	examples := described(exampleMachines)
	files := map[string]string{}
	for _, path := range slices.Concat(described(filepath.Dir(name)), examples) {
		files[base(path)] = path
	}
	var bases []string
	for b := range files {
		bases = append(bases, b)
	}
	slices.Sort(bases)
	if meant := spelling.Nearest(base(name), bases); meant != "" {
		return fmt.Errorf("%w; did you mean %s?", err, files[meant])
	}
	if len(examples) == 0 {
		return fmt.Errorf(`%w; expected "live", a file or a directory`, err)
	}
	for i := range examples {
		examples[i] = filepath.Base(examples[i])
	}
	return fmt.Errorf(`%w; expected "live", a file or a directory; %s has %s`, err, exampleMachines, strings.Join(examples, ", "))
}

// described returns the JSON files of a directory.
func described(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "*.json")) // A wrong pattern in the name finds nothing.
	return files
}
