package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/release/archive"
	"github.com/paddock-project/paddock/release/manifests"
	"github.com/paddock-project/paddock/release/modules"
	"github.com/paddock-project/paddock/release/repository"
	"github.com/paddock-project/paddock/release/seal"
	"github.com/paddock-project/paddock/release/vulnerabilities"
)

// imageNames are the images of a release. The image paddock has the program paddock-agent.
var imageNames = []string{"paddock", "paddock-scheduler", "paddock-quiet"}

// vulnerabilitiesName is the file with the known vulnerabilities in the folder.
const vulnerabilitiesName = "vulnerabilities.txt"

// localBuilder is the builder in the provenance of a release that a person makes.
const localBuilder = "https://github.com/paddock-project/paddock/blob/main/docs/release.md#a-person"

// makeRelease makes the folder of a release from the commit that is tagged, and signs it. It changes
// nothing else.
func makeRelease(ctx context.Context, o options, stdout io.Writer) (err error) {
	r, err := repository.Open(ctx, o.repository)
	if err != nil {
		return err
	}
	if err := checkReleasable(ctx, r, o.version); err != nil {
		return err
	}
	if err := errors.Join(manifests.CheckRegistry(o.registry), vulnerabilities.Check(o.database)); err != nil {
		return err
	}
	keyName, err := o.keyName()
	if err != nil {
		return err
	}
	key, err := seal.ReadKey(keyName)
	if err != nil {
		return err
	}
	dir := cmp.Or(o.dir, filepath.Join(r.Dir(), "bin", "release", o.version))
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists: verify it with make release-check, or move it away to make the release again", dir)
	}
	// It has its name only when it is complete. What is there of one that failed is of no use.
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	begin := time.Now()
	if _, err := fmt.Fprintf(stdout, "making %s in %s\n", o.version, relative(r.Dir(), dir)); err != nil {
		return err
	}
	b, err := build(ctx, r, o, partial, nil, stdout)
	if err != nil {
		return err
	}
	if err := seal.Seal(ctx, partial, key, b); err != nil {
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	return report(dir, b, time.Since(begin), stdout)
}

// relative returns the name of a file from the root of the repository, where make runs, if the file is
// in it.
func relative(root, name string) string {
	short, err := filepath.Rel(root, name)
	if err != nil || !filepath.IsLocal(short) {
		return name
	}
	return short
}

// checkReleasable checks that HEAD is the commit of a release.
func checkReleasable(ctx context.Context, r repository.Repository, version string) error {
	if err := repository.CheckVersion(version); err != nil {
		return err
	}
	if err := r.CheckClean(ctx); err != nil {
		return err
	}
	all, err := modules.Published(r.Dir())
	if err != nil {
		return err
	}
	if err := r.CheckTags(ctx, modules.Tags(all, version)); err != nil {
		return err
	}
	if err := r.CheckAfter(ctx, version); err != nil {
		return err
	}
	return modules.CheckReleased(r.Dir(), version, all)
}

func report(dir string, b seal.Build, took time.Duration, stdout io.Writer) error {
	f, err := seal.Open(dir)
	if err != nil {
		return err
	}
	var total int64
	for _, name := range f.Names() {
		size, err := f.Size(name)
		if err != nil {
			return err
		}
		total += size
	}
	text := fmt.Sprintf("%d files, %.1f MB, of commit %.12s with %s, in %s\n", len(f.Names()), float64(total)/1e6, b.Commit, b.GoVersion, took.Round(time.Second))
	for _, name := range imageNames {
		image := b.Registry + "/" + name
		text += image + "@" + b.Images[image] + "\n"
	}
	known, err := summaryOf(f)
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, text+"known vulnerabilities: "+known+"\n")
	return err
}

// maker makes the parts of a folder.
type maker struct {
	source      repository.Repository
	commit      repository.Commit
	version     string
	registry    string
	dir         string
	environment []string
	imageTool   string // the program of the commit that builds images
	agents      string // a directory for the programs of the image paddock
	database    string // of known vulnerabilities
	recorded    []byte // what an earlier build of the release found there
	stdout      io.Writer

	images []manifests.Image
}

// build makes the folder of the commit at HEAD without its signatures, and returns what they are of.
// environment has variables for the go command, beside those that it needs.
func build(ctx context.Context, r repository.Repository, o options, dir string, environment []string, stdout io.Writer) (b seal.Build, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return b, err
	}
	work, err := os.MkdirTemp("", "paddock-release-")
	if err != nil {
		return b, err
	}
	cache := filepath.Join(work, "cache")
	defer func() { err = errors.Join(err, modules.Clean(context.WithoutCancel(ctx), cache), os.RemoveAll(work)) }()
	m := &maker{version: o.version, registry: o.registry, dir: dir, agents: filepath.Join(work, "agents"), database: o.database, recorded: o.recorded, stdout: stdout}
	if m.source, err = r.Clone(ctx, "HEAD", filepath.Join(work, "source")); err != nil {
		return b, err
	}
	if m.commit, err = m.source.Commit(ctx, "HEAD"); err != nil {
		return b, err
	}
	goEnvironment, err := modules.Environment(ctx, filepath.Join(dir, "modules"), cache)
	if err != nil {
		return b, err
	}
	m.imageTool = filepath.Join(work, "image")
	if _, err := command(ctx, filepath.Join(m.source.Dir(), "deploy", "image"), goEnvironment, "go", "build", "-o", m.imageTool, "."); err != nil {
		return b, err
	}
	m.environment = slices.Concat(goEnvironment, environment)
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"modules", m.modules},
		{"licenses", m.licenses}, // Before minutes of compiling.
		{"images and programs", m.buildImages},
		{"kubectl plugin and programs for people", m.plugin},
		{"manual pages and completion", m.documentation},
		{"known vulnerabilities", m.vulnerabilities},
		{"manifests and chart", m.install},
		{"checksums", func(context.Context) error { return seal.WriteSums(m.dir) }},
	} {
		begin := time.Now()
		// The name first, because some take minutes.
		if _, err := fmt.Fprintf(stdout, "  %-40s ", step.name); err != nil {
			return b, err
		}
		if err := step.run(ctx); err != nil {
			_, failed := io.WriteString(stdout, "failed\n")
			return b, errors.Join(fmt.Errorf("%s: %w", step.name, err), failed)
		}
		if _, err := fmt.Fprintf(stdout, "%6.1f s\n", time.Since(begin).Seconds()); err != nil {
			return b, err
		}
	}
	b = seal.Build{Version: o.version, Registry: m.registry, Commit: m.commit.ID, GoVersion: runtime.Version(), Builder: localBuilder, Images: map[string]string{}}
	for _, i := range m.images {
		b.Images[i.Repository] = i.Digest
	}
	return b, nil
}

// modules writes the modules as files of a proxy. The programs are built with them.
func (m *maker) modules(ctx context.Context) error {
	all, err := modules.Published(m.source.Dir())
	if err != nil {
		return err
	}
	return modules.WriteProxy(ctx, m.source, "HEAD", m.version, all, filepath.Join(m.dir, "modules"))
}

// image runs the program of the commit that builds images.
func (m *maker) image(ctx context.Context, args ...string) error {
	_, err := command(ctx, m.source.Dir(), m.environment, m.imageTool, append([]string{"-repository", m.source.Dir()}, args...)...)
	return err
}

func (m *maker) buildImages(ctx context.Context) error {
	for _, name := range imageNames {
		output := filepath.Join(m.dir, imageArchive(name, m.version))
		repository := m.registry + "/" + name
		programs := filepath.Join(m.dir, "bin")
		if name == "paddock" { // For people, the folder has the program with all commands.
			programs = m.agents
		}
		if err := m.image(ctx, "-command", name, "-output", output, "-name", repository+":"+m.version, "-programs", programs); err != nil {
			return err
		}
		digest, err := digestOf(output)
		if err != nil {
			return err
		}
		m.images = append(m.images, manifests.Image{Name: name, Repository: repository, Digest: digest})
	}
	return nil
}

// imageArchive returns the name of the archive of an image in the folder.
func imageArchive(image, version string) string { return "images/" + image + "-" + version + ".tar" }

// digestOf returns the digest of the image in an archive.
func digestOf(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	digest, err := seal.Digest(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return digest, nil
}

func (m *maker) plugin(ctx context.Context) error {
	return m.image(ctx, "-krew", filepath.Join(m.dir, "krew"), "-programs", filepath.Join(m.dir, "bin"))
}

// documentation lets the program for this machine write its manual pages and completion.
func (m *maker) documentation(ctx context.Context) (err error) {
	program := filepath.Join(m.dir, "bin", "paddock-"+runtime.GOOS+"-"+runtime.GOARCH)
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("a release is made on Linux or macOS, on amd64 or arm64: %w", err)
	}
	var pages, scripts []archive.File
	work, err := os.MkdirTemp("", "paddock-man-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if _, err := command(ctx, work, nil, program, "man", work); err != nil {
		return err
	}
	names, err := os.ReadDir(work)
	if err != nil {
		return err
	}
	for _, n := range names {
		text, err := os.ReadFile(filepath.Join(work, n.Name()))
		if err != nil {
			return err
		}
		pages = append(pages, archive.File{Name: "man/man1/" + n.Name(), Data: text})
	}
	for shell, name := range map[string]string{"bash": "bash/paddock", "zsh": "zsh/_paddock", "fish": "fish/paddock.fish"} {
		text, err := command(ctx, work, nil, program, "completion", shell)
		if err != nil {
			return err
		}
		scripts = append(scripts, archive.File{Name: "completion/" + name, Data: []byte(text)})
	}
	return errors.Join(m.pack("paddock-man-"+m.version+".tar.gz", pages), m.pack("paddock-completion-"+m.version+".tar.gz", scripts))
}

// pack writes an archive to the folder.
func (m *maker) pack(name string, files []archive.File) error {
	packed, err := archive.Pack(files, m.commit.Time)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.dir, name), packed, 0o644)
}

// licenses collects the licenses of what the programs link. One that is not allowed is an error.
func (m *maker) licenses(ctx context.Context) error {
	return m.image(ctx, "-licenses", filepath.Join(m.dir, "licenses"))
}

// vulnerabilities records the known vulnerabilities of what the programs link. The release is made
// with known ones, too: which of them concern it is for people to judge, and the record is signed
// with it. A build that repeats a release repeats its record, because the database has grown.
func (m *maker) vulnerabilities(ctx context.Context) error {
	text := m.recorded
	if text == nil {
		programs, err := m.programs()
		if err != nil {
			return err
		}
		r, err := vulnerabilities.Look(ctx, m.database, programs, m.environment)
		if err != nil {
			return err
		}
		text = r.Text(m.version)
	}
	return os.WriteFile(filepath.Join(m.dir, vulnerabilitiesName), text, 0o644)
}

// programs returns the programs of the release and of its images.
func (m *maker) programs() ([]vulnerabilities.Program, error) {
	var all []vulnerabilities.Program
	for _, of := range []struct{ dir, name string }{{m.agents, "paddock-agent"}, {filepath.Join(m.dir, "bin"), "paddock"}} {
		files, err := filepath.Glob(filepath.Join(of.dir, "paddock-*64"))
		if err != nil || len(files) == 0 {
			return nil, errors.Join(err, fmt.Errorf("%s has no programs", of.dir))
		}
		for _, f := range files {
			all = append(all, vulnerabilities.Program{Name: of.name + strings.TrimPrefix(filepath.Base(f), "paddock"), File: f})
		}
	}
	return all, nil
}

// install makes what is applied to clusters.
func (m *maker) install(ctx context.Context) error {
	if err := manifests.Write(m.source.Dir(), filepath.Join(m.dir, "manifests"), m.images); err != nil {
		return err
	}
	files, err := m.source.Files(ctx, "deploy/chart")
	if err != nil {
		return err
	}
	chart, err := manifests.Chart(m.source.Dir(), files, m.version, m.images, m.commit.Time)
	if err != nil {
		return err
	}
	name := filepath.Join(m.dir, chartArchive(m.version))
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, chart, 0o644))
}

// chartArchive returns the name of the chart in the folder.
func chartArchive(version string) string {
	return "chart/paddock-" + strings.TrimPrefix(version, "v") + ".tgz"
}
