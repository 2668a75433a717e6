package cluster

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/test/e2e/parts"
	"github.com/paddock-project/paddock/test/e2e/vm"
)

var (
	rewrite = flag.Bool("rewrite", false, "write answers that differ into the pages, and read the difference")
	keep    = flag.String("logs", filepath.Join(os.TempDir(), "paddock-e2e-logs"), "the directory for logs of a run that fails")
)

const (
	// limit is the time limit of the whole test. It only ends tests that hang.
	limit = 45 * time.Minute
	// commandLimit is longer than any wait of a command of the pages, which is at most 10 minutes.
	commandLimit = 12 * time.Minute
)

// TestCluster plays the pages of testdata, each on a cluster of its own. It plays as many at once
// as tests may run in parallel, because an emulated machine leaves a core idle most of the time.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster is not started in a short run")
	}
	names, err := pages(os.Getenv("E2E_PAGES"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel) // The pages still run when this function returns.
	r := newRig(ctx, t, names)
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(page *testing.T) {
			page.Parallel()
			if err := r.play(ctx, name, nil); err != nil {
				page.Fatal(err)
			}
		})
	}
}

// pages returns the pages whose names match a regular expression, sorted by name.
func pages(match string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil {
		return nil, err
	}
	wanted, err := regexp.Compile(match)
	return slices.DeleteFunc(names, func(name string) bool { return wanted == nil || !wanted.MatchString(filepath.Base(name)) }), err
}

// find finds or makes the parts. It skips the test if they are not available.
func find(t *testing.T, n needs) *parts.Parts {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	found, err := parts.Find(t.Context(), parts.Options{
		Source: source, Work: t.TempDir(), Kernels: n.kernels, Cluster: true, Helm: n.helm, Before: n.before, CRIO: n.crio, Say: say,
	})
	if errors.Is(err, parts.ErrUnavailable) {
		if err := parts.Lack("virtual-machines"); err != nil {
			t.Fatal(err)
		}
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// whole is a cluster with a shell. It must not be used by several goroutines.
type whole struct {
	rig     *rig
	control *plane
	node    *node
	env     []string
	// dir has a short path, because it contains sockets.
	dir string
}

// openShell sets up the commands of pages.
func (w *whole) openShell(ctx context.Context, p *parts.Parts) error {
	desk, err := net.Listen("unix", filepath.Join(w.dir, "desk.sock"))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = desk.Close() })
	go serveDesk(ctx, desk, w.node)
	bin := filepath.Join(w.dir, "bin")
	errs := []error{
		os.Mkdir(bin, 0o755), os.Symlink(filepath.Join(p.Cluster.ControlPlane, "kubectl"), filepath.Join(bin, "kubectl")),
		os.Symlink(w.rig.plugin, filepath.Join(bin, "kubectl-paddock")),
	}
	if p.Cluster.Helm != "" {
		errs = append(errs, os.Symlink(p.Cluster.Helm, filepath.Join(bin, "helm")))
	}
	for name := range commands {
		errs = append(errs, os.Symlink(p.Cluster.SSH, filepath.Join(bin, name)))
	}
	w.env = slices.Concat(surroundings(), []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "KUBECACHEDIR=" + filepath.Join(w.dir, "cache"), "HELM_CACHE_HOME=" + filepath.Join(w.dir, "helm"),
		"HELM_CONFIG_HOME=" + filepath.Join(w.dir, "helm"), "HELM_DATA_HOME=" + filepath.Join(w.dir, "helm"), "KUBECONFIG=" + w.control.config, "PADDOCK_E2E_DESK=" + desk.Addr().String(), "BEFORE=" + p.Cluster.Before,
	})
	return errors.Join(errs...)
}

// surroundings returns the environment of commands. It has no variables of make, so that a page can
// run make even if "make e2e-cluster" runs the page.
func surroundings() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKEFLAGS=") || strings.HasPrefix(v, "MAKELEVEL=") || strings.HasPrefix(v, "MFLAGS=")
	})
}

// close ends all processes and removes their files. It may be called again.
func (w *whole) close() error {
	var errs []error
	if w.node != nil {
		errs = append(errs, w.node.vm.Kill())
	}
	if w.control != nil {
		errs = append(errs, w.control.stop())
	}
	w.node, w.control = nil, nil
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}

// play runs the commands of a page and compares their answers.
func (w *whole) play(ctx context.Context, name string, p *page) error {
	for i := range p.blocks {
		if err := w.playBlock(ctx, name, &p.blocks[i]); err != nil {
			return err
		}
	}
	if !*rewrite {
		return nil
	}
	return os.WriteFile(name, []byte(p.String()), 0o644)
}

// playBlock runs a command. With -rewrite, it puts the answer into the block.
func (w *whole) playBlock(ctx context.Context, name string, b *block) error {
	if b.command == "" {
		return nil
	}
	begin := time.Now()
	w.node.watch.count(b.command)
	lines, err := w.answer(ctx, *b)
	say("%6.1f s  %s:%d: %s", time.Since(begin).Seconds(), filepath.Base(name), b.line, b.command)
	if err == nil && !matches(b.answer, lines) {
		err = errOther
	}
	switch {
	case err == nil:
		return nil
	case *rewrite && errors.Is(err, errOther):
		b.answer = lines
		return nil
	}
	return fmt.Errorf("%s:%d: %s\n%w; want\n%s\nhave\n%s", name, b.line, b.command, err, strings.Join(b.answer, "\n"), strings.Join(lines, "\n"))
}

var errOther = errors.New("it gives another answer")

// answer runs a command once, or until it gives the expected answer.
func (w *whole) answer(ctx context.Context, b block) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	for {
		lines, err := w.run(ctx, b.command)
		if ctx.Err() != nil {
			err = fmt.Errorf("it is not done after %s", commandLimit)
		}
		if err != nil || !b.again || matches(b.answer, lines) {
			return lines, err
		}
		select {
		case <-ctx.Done():
			return lines, fmt.Errorf("%w in %s", errOther, commandLimit)
		case <-time.After(time.Second):
		}
		if w.node.vm.Down() {
			return lines, vm.ErrDown
		}
	}
}

// run runs a command in the shell, in the root of the repository.
func (w *whole) run(ctx context.Context, command string) ([]string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env, cmd.Dir, cmd.WaitDelay = w.env, filepath.Join("..", "..", ".."), 5*time.Second
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	lines := slices.DeleteFunc(strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), func(l string) bool { return l == "" })
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return append(lines, fmt.Sprintf("exit %d", exit.ExitCode())), nil
	}
	return lines, err
}

// saveLogs saves the logs of the cluster to a directory.
func (w *whole) saveLogs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(w.dir, "*.log"))
	for _, name := range logs {
		data, readErr := os.ReadFile(name)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o644))
	}
	// A context of its own, so that the logs are saved after a timeout of the test too.
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	if w.node != nil {
		err = errors.Join(err, w.node.saveLogs(ctx, dir))
	}
	if w.env != nil {
		lines, runErr := w.run(ctx, "kubectl get pods,daemonsets,nodes -A -o wide; kubectl get events -A --sort-by .lastTimestamp; kubectl -n paddock logs daemonset/paddock; kubectl describe pods -A")
		err = errors.Join(err, runErr, os.WriteFile(filepath.Join(dir, "kubectl.log"), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	}
	return err
}
