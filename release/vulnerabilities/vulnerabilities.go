// Package vulnerabilities records which known vulnerabilities are in the modules that programs link,
// and which state of the Go vulnerability database was asked.
//
// The record is of one day: the database grows, and the program stays. Who runs a release scans its
// bills of materials again and again.
package vulnerabilities

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/vuln/scan"
)

// Database is the address of the Go vulnerability database.
const Database = "https://vuln.go.dev"

// specification describes what a database has.
const specification = "a Go vulnerability database (https://go.dev/security/vuln/database)"

// NotLookedUp is how the summary of a record begins if no database was asked. The reason follows.
const NotLookedUp = "not looked up: "

// longest is how long a database may take to answer about one program. It answers in seconds.
const longest = time.Minute

// Program is a program in a file.
type Program struct{ Name, File string }

// Vulnerability is a known vulnerability of a module that a program links.
type Vulnerability struct {
	// ID is its identifier in the database, such as GO-2026-1234.
	ID, Summary     string
	Module, Version string
	// Fixed is the first version of the module without it. It is empty if there is none.
	Fixed string
}

// Record is what a database has about programs.
type Record struct {
	// Database is its name for people: the address without a password, or that it is a copy.
	Database string
	// Modified is when the database was last changed.
	Modified time.Time
	// Unreachable is why the database gave no answer. It is empty if it did.
	Unreachable string
	limit       time.Duration // for each question
	programs    []Program
	found       map[string][]Vulnerability // by the names of the programs
}

// Look asks a database about programs. A database that cannot be reached, or is silent for a minute,
// is not an error: the record has the reason.
func Look(ctx context.Context, database string, programs []Program, environment []string) (*Record, error) {
	return look(ctx, database, programs, environment, longest)
}

// Check checks the address of a database, and that a copy is complete. It asks no server.
func Check(database string) error {
	_, err := parse(database)
	return err
}

func parse(database string) (*url.URL, error) {
	const expected = "expected an address such as " + Database + ", or file:// and the absolute directory of a copy"
	at, err := url.Parse(strings.TrimSuffix(database, "/"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("VULNDB: %w: %s", err, expected)
	case (at.Scheme == "http" || at.Scheme == "https") && at.Host != "":
		return at, nil
	case at.Scheme != "file" || at.Host != "" || !filepath.IsAbs(at.Path):
		return nil, fmt.Errorf("VULNDB %s: %s", at.Redacted(), expected)
	}
	if err := checkCopy(at.Path); err != nil {
		return nil, fmt.Errorf("VULNDB: %w", err)
	}
	return at, nil
}

func look(ctx context.Context, database string, programs []Program, environment []string, limit time.Duration) (*Record, error) {
	at, err := parse(database)
	if err != nil {
		return nil, err
	}
	r := &Record{Database: nameOf(*at), limit: limit, programs: programs, found: map[string][]Vulnerability{}}
	if err := r.reach(ctx, at); err != nil {
		r.Unreachable = err.Error()
		return r, ctx.Err()
	}
	for _, p := range programs {
		if r.found[p.Name], err = r.look(ctx, at, p, environment); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		if r.Unreachable != "" {
			break
		}
	}
	return r, nil
}

// nameOf returns the name of a database. The record is published, so it has no password and no
// directory.
func nameOf(at url.URL) string {
	if at.Scheme == "file" {
		return "a copy of the Go vulnerability database"
	}
	at.User = nil
	return at.String()
}

// reach asks for the time of a database. It is there because the scanner takes a server that does not
// answer for one without a database.
func (r *Record) reach(ctx context.Context, at *url.URL) error {
	if at.Scheme != "http" && at.Scheme != "https" {
		return nil // The scanner describes what is wrong with a directory.
	}
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath("index", "db.json.gz").String(), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return r.reason(err)
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("index/db.json.gz: %s", answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// reason is an error without the addresses of the network in which a release was made: the record is
// published.
func (r *Record) reason(err error) error {
	var untrusted *tls.CertificateVerificationError
	var lookup *net.DNSError
	var operation *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", r.limit)
	case errors.As(err, &untrusted):
		return errors.New("its certificate is not trusted")
	case errors.As(err, &lookup):
		return errors.New(lookup.Err)
	case errors.As(err, &operation):
		return operation.Err
	}
	return errors.New("no answer")
}

// message is a part of what the scanner prints (https://pkg.go.dev/golang.org/x/vuln/cmd/govulncheck).
type message struct {
	Config *struct {
		Modified time.Time `json:"db_last_modified"`
	}
	OSV *struct {
		ID, Summary string
	}
	Finding *struct {
		OSV   string
		Fixed string `json:"fixed_version"`
		Trace []struct{ Module, Version string }
	}
}

func (r *Record) look(ctx context.Context, at *url.URL, p Program, environment []string) ([]Vulnerability, error) {
	within, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	var out, stderr bytes.Buffer
	cmd := scan.Command(within, "-mode", "binary", "-format", "json", "-db", at.String(), p.File)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(""), &out, &stderr
	cmd.Env = slices.Concat(os.Environ(), environment)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-within.Done(): // The scanner's first question does not end with its context.
		err = within.Err()
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case within.Err() != nil:
		r.Unreachable = r.reason(within.Err()).Error()
		return nil, nil
	case err != nil && at.Scheme != "file" && strings.Contains(err.Error(), "fetching vulnerabilities"):
		r.Unreachable = "it stopped answering"
		return nil, nil
	case err != nil:
		if text := bytes.TrimSpace(stderr.Bytes()); len(text) > 0 {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return nil, err
	}
	return r.read(&out)
}

// read reads what the scanner printed about one program.
func (r *Record) read(out io.Reader) ([]Vulnerability, error) {
	summaries := map[string]string{}
	var all []Vulnerability
	for d := json.NewDecoder(out); ; {
		var m message
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		switch {
		case m.Config != nil:
			r.Modified = m.Config.Modified
		case m.OSV != nil:
			summaries[m.OSV.ID] = m.OSV.Summary
		case m.Finding != nil && len(m.Finding.Trace) > 0:
			of := m.Finding.Trace[0]
			all = append(all, Vulnerability{ID: m.Finding.OSV, Module: of.Module, Version: of.Version, Fixed: m.Finding.Fixed})
		}
	}
	if r.Modified.IsZero() {
		return nil, fmt.Errorf("%s has no time in index/db.json: expected %s", r.Database, specification)
	}
	for i := range all {
		all[i].Summary = summaries[all[i].ID]
	}
	// There is a finding for the module, one for the package and one for each symbol.
	slices.SortFunc(all, func(a, b Vulnerability) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Module, b.Module)) })
	return slices.Compact(all), nil
}

// Summary describes the record in one line.
func (r *Record) Summary() string {
	if r.Unreachable != "" {
		return fmt.Sprintf(NotLookedUp+"%s was not reached: %s", r.Database, r.Unreachable)
	}
	ids := map[string]bool{}
	for _, found := range r.found {
		for _, v := range found {
			ids[v.ID] = true
		}
	}
	return fmt.Sprintf("%d known to %s of %s", len(ids), r.Database, r.Modified.UTC().Format(time.RFC3339))
}

// Text returns the record for people. The first line is the summary.
func (r *Record) Text(release string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n\n", r.Summary())
	if r.Unreachable != "" {
		fmt.Fprintf(&out, "When %s was made, no database of known vulnerabilities could be asked. Scan the bills of materials.\n", release)
		return out.Bytes()
	}
	fmt.Fprintf(&out, "Vulnerabilities of the modules that the programs of %s link, as known when it was made. Some may be in code that is not\ncalled. Scan the bills of materials for what is known today.\n\n", release)
	for _, p := range r.programs {
		if len(r.found[p.Name]) == 0 {
			fmt.Fprintf(&out, "%s: none\n", p.Name)
			continue
		}
		fmt.Fprintf(&out, "%s:\n", p.Name)
		for _, v := range r.found[p.Name] {
			fixed := "not fixed"
			if v.Fixed != "" {
				fixed = "fixed in " + v.Fixed
			}
			fmt.Fprintf(&out, "  %s  %s %s, %s: %s\n", v.ID, v.Module, v.Version, fixed, v.Summary)
		}
	}
	return out.Bytes()
}
