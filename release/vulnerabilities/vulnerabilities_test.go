package vulnerabilities

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// built builds a program that links a module of others, as a release does.
func built(t *testing.T) []Program {
	t.Helper()
	name := filepath.Join(t.TempDir(), "uses")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", name, "./testdata/uses").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return []Program{{"uses linux/amd64", name}}
}

// testdata returns the directory of a database with entries for tests.
func testdata(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("testdata", "database"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestLook looks a program up in a database of three entries: one for a module that it links, one
// that an older version of a module had, and one for the standard library.
func TestLook(t *testing.T) {
	programs := built(t)
	r, err := Look(t.Context(), "file://"+testdata(t), programs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "2 known to a copy of the Go vulnerability database of 2026-11-20T10:00:00Z"; r.Summary() != want {
		t.Errorf("%s, want %s", r.Summary(), want)
	}
	text := string(r.Text("v0.1.0"))
	for _, want := range []string{
		r.Summary() + "\n\nVulnerabilities of the modules that the programs of v0.1.0 link, as known when it was made.",
		"\nuses linux/amd64:\n  GO-2026-9001  golang.org/x/mod v", ", fixed in v99.0.0: A version that is never reached\n", "  GO-2026-9003  stdlib v1.", ", not fixed: Not fixed in any version of Go\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not have %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "GO-2026-9002") || strings.Count(text, "GO-2026-9001") != 1 {
		t.Errorf("one is not of this version, and the other is there once:\n%s", text)
	}
}

// TestUnreachable checks that a database that does not answer is recorded, and that a directory without
// one and a program that cannot be read are errors.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	programs := built(t)
	database := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Look(t.Context(), database, programs, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := string(r.Text("v0.1.0"))
	if want := "not looked up: " + database + " was not reached: connect: connection refused\n\nWhen v0.1.0 was made, no database "; !strings.HasPrefix(text, want) {
		t.Errorf("the text begins otherwise than with %q:\n%s", want, text)
	}
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	if r, err = Look(t.Context(), strings.Replace(missing.URL, "//", "//a:secret@", 1), programs, nil); err != nil || r.Summary() != "not looked up: "+missing.URL+" was not reached: index/db.json.gz: 404 Not Found" {
		t.Errorf("a server without a database: %s, %v", r.Summary(), err)
	}
	for _, c := range []struct{ database, file, want string }{
		{"://", programs[0].File, "missing protocol scheme: expected an address such as https://vuln.go.dev, or file:// and the absolute directory of a copy"},
		{"file://" + testdata(t), filepath.Join(t.TempDir(), "none"), "one: "},
	} {
		if _, err := Look(t.Context(), c.database, []Program{{"one", c.file}}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %s", c.database, c.file, err, c.want)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Look(canceled, database, programs, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestSilent checks that a database that falls silent is recorded after the limit, before its first
// answer and after it.
func TestSilent(t *testing.T) {
	programs := built(t)
	over := make(chan struct{})
	for _, answers := range []string{"", "/index/db.json.gz"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != answers {
				<-over
			}
			w.WriteHeader(http.StatusOK)
		}))
		r, err := look(t.Context(), server.URL, programs, nil, 100*time.Millisecond)
		if want := "not looked up: " + server.URL + " was not reached: no answer within 100ms"; err != nil || r.Summary() != want {
			t.Errorf("%q: %s, %v; want %s", answers, r.Summary(), err, want)
		}
		t.Cleanup(server.Close)
	}
	close(over)
}

// TestCheck checks addresses before minutes of compiling. No server is asked.
func TestCheck(t *testing.T) {
	for _, database := range []string{Database, Database + "/", "http://127.0.0.1:1/a", "file://" + testdata(t)} {
		if err := Check(database); err != nil {
			t.Error(err)
		}
	}
	empty := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(empty, "index"), 0o700), os.WriteFile(filepath.Join(empty, "index", "db.json"), []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for database, want := range map[string]string{
		"":                         "VULNDB : expected an address such as https://vuln.go.dev",
		"ftp://a:secret@example/b": "VULNDB ftp://a:xxxxx@example/b: expected an address",
		"/var/database":            "VULNDB /var/database: expected an address",
		"file://var/database":      "VULNDB file://var/database: expected an address such as https://vuln.go.dev, or file:// and the absolute directory of a copy",
		"https://":                 "expected an address",
		"file://" + t.TempDir():    "index/db.json: no such file or directory: expected a copy of a Go vulnerability database (https://go.dev/security/vuln/database)",
		"file://" + empty:          "index/db.json has no time in the field modified: expected a copy of a Go vulnerability database",
	} {
		if err := Check(database); err == nil || !strings.Contains(err.Error(), want) || strings.HasSuffix(err.Error(), ":") {
			t.Errorf("%q: %v, want %s", database, err, want)
		}
	}
}

// TestIncompleteCopy checks that a copy that lacks something is an error, and no record of a program
// without vulnerabilities, which is what the scanner makes of most of these.
func TestIncompleteCopy(t *testing.T) {
	const index, entry = "index/modules.json", "ID/GO-2026-9001.json"
	one := `[{"path":"golang.org/x/mod","vulns":[{"id":"GO-2026-9001","fixed":"99.0.0"}]}`
	for _, c := range []struct{ name, text, want string }{
		{index, "", "index/modules.json: unexpected end of JSON input: expected a copy of a Go vulnerability database"},
		{index, "{", "index/modules.json: unexpected end of JSON input"},
		{index, one, "index/modules.json: unexpected end of JSON input"},
		{index, "{}", "index/modules.json: json: cannot unmarshal object"},
		{index, "null", "index/modules.json has no vulnerabilities: expected a copy of"},
		{index, strings.Replace(one, "GO-2026-9001", "../x", 1) + "]", `has the vulnerability "../x": expected an identifier such as GO-2026-1234`},
		{index, strings.Replace(one, "9001", "9009", 1) + "]", "GO-2026-9009.json: no such file or directory: expected a copy of"},
		{entry, "{", "GO-2026-9001.json: unexpected end of JSON input"},
		{entry, "null", `GO-2026-9001.json has the id "": expected GO-2026-9001`},
		{"index/db.json", "{", "index/db.json: unexpected end of JSON input"},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.CopyFS(dir, os.DirFS(testdata(t))), os.WriteFile(filepath.Join(dir, filepath.FromSlash(c.name)), []byte(c.text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := Check("file://" + dir); err == nil || !strings.HasPrefix(err.Error(), "VULNDB: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %s", c.name, c.text, err, c.want)
		}
	}
	if err := checkCopy(testdata(t)); err != nil {
		t.Error(err)
	}
}
