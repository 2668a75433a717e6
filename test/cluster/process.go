package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-project/paddock/test/cluster/hollow"
	"github.com/paddock-project/paddock/test/cluster/program"
	"github.com/paddock-project/paddock/test/e2e/control"
)

// hollowProcess is the process of the hollow nodes, as its driver sees it.
type hollowProcess struct {
	cmd     *exec.Cmd
	address string
}

// nodesProgram returns the path of the program of the nodes: this one, or that of another version.
func (c *cluster) nodesProgram(ctx context.Context) (string, error) {
	if c.agents == "" {
		return os.Executable()
	}
	if built := filepath.Join(c.agents, "bin", "cluster"); exists(built) {
		return filepath.Abs(built)
	}
	file := filepath.Join(c.dir, "nodes")
	return file, program.Build(ctx, filepath.Join(c.agents, "test", "cluster"), file, ".")
}

// startHollow starts the process, and waits until its nodes are registered.
func startHollow(ctx context.Context, dir, program, kubeconfig, fleet string, own bool, nodes int, kubelets string) (*hollowProcess, error) {
	ports, err := control.FreePorts(1)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "hollow.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	h := &hollowProcess{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))}
	h.cmd = exec.CommandContext(ctx, program, "hollow", "-kubeconfig", kubeconfig, "-fleet", fleet, "-nodes", strconv.Itoa(nodes), "-listen", h.address)
	// Versions from before there were such nodes do not know these flags.
	if kubelets != "" {
		h.cmd.Args = append(h.cmd.Args, "-kubelets", kubelets)
	}
	if own {
		h.cmd.Args = append(h.cmd.Args, "-own-policies")
	}
	h.cmd.Stderr = log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true} // As in control.Programs.
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("the hollow nodes do not start, see %s: %q: %w", log.Name(), line, err), h.stop())
	}
	return h, nil
}

// stop ends the process.
func (h *hollowProcess) stop() error {
	err := h.cmd.Process.Signal(syscall.SIGTERM)
	done := time.AfterFunc(10*time.Second, func() { _ = h.cmd.Process.Kill() })
	defer done.Stop()
	_ = h.cmd.Wait() // It was told to end.
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// ask sends a request to the process and decodes the answer.
func (h *hollowProcess) ask(ctx context.Context, path string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.address+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the hollow nodes answer %s to %s", response.Status, path)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func (h *hollowProcess) status(ctx context.Context) (s hollow.Status, err error) {
	return s, h.ask(ctx, "/status", &s)
}

// troubles returns the attempts that failed since an earlier status.
func (h *hollowProcess) troubles(ctx context.Context, since hollow.Status) (t []hollow.Trouble, err error) {
	return t, h.ask(ctx, "/troubles?after="+strconv.Itoa(since.Troubles), &t)
}

func (h *hollowProcess) states(ctx context.Context) (s []hollow.NodeState, err error) {
	return s, h.ask(ctx, "/states", &s)
}

// order sends an order to the process, and waits until it is carried out.
func (h *hollowProcess) order(ctx context.Context, path string, form map[string]string) error {
	values := url.Values{}
	for key, value := range form {
		values.Set(key, value)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.address+path, strings.NewReader(values.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the hollow nodes answer %s to %s: %s", response.Status, path, text)
	}
	return errors.Join(err, response.Body.Close())
}
