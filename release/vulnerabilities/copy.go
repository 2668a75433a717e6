package vulnerabilities

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// checkCopy checks the index of a copy of a database, and that every vulnerability in it has its file.
// The scanner finds no vulnerabilities in an index that is no list or that lacks its end, and reports
// no error.
func checkCopy(dir string) error {
	db := filepath.Join(dir, "index", "db.json")
	var of struct{ Modified time.Time }
	if err := readJSON(db, &of); err != nil {
		return err
	}
	if of.Modified.IsZero() {
		return fmt.Errorf("%s has no time in the field modified: expected a copy of %s", db, specification)
	}
	index := filepath.Join(dir, "index", "modules.json")
	var modules []struct{ Vulns []struct{ ID string } }
	if err := readJSON(index, &modules); err != nil {
		return err
	}
	checked := map[string]bool{}
	for _, m := range modules {
		for _, v := range m.Vulns {
			if checked[v.ID] {
				continue
			}
			checked[v.ID] = true
			if err := checkEntry(dir, v.ID); err != nil {
				return err
			}
		}
	}
	if len(checked) == 0 {
		return fmt.Errorf("%s has no vulnerabilities: expected a copy of %s", index, specification)
	}
	return nil
}

// checkEntry checks that a copy has the file of a vulnerability.
func checkEntry(dir, id string) error {
	if !filepath.IsLocal(id) {
		return fmt.Errorf("index/modules.json in %s has the vulnerability %q: expected an identifier such as GO-2026-1234", dir, id)
	}
	name := filepath.Join(dir, "ID", id+".json")
	var entry struct{ ID string }
	if err := readJSON(name, &entry); err != nil {
		return err
	}
	if entry.ID != id {
		return fmt.Errorf("%s has the id %q: expected %s", name, entry.ID, id)
	}
	return nil
}

// readJSON reads a file of a copy.
func readJSON(name string, to any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("%w: expected a copy of %s", err, specification)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w: expected a copy of %s", name, err, specification)
	}
	return nil
}
