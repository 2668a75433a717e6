package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// Patience is how long an API server may take to become ready, even on a busy machine.
const Patience = 5 * time.Minute

// Programs are the running programs of a control plane. They end with their context, with Stop, or
// with this process, whichever comes first. A Programs must not be used by several goroutines.
type Programs struct {
	// Dir is the directory for their output: Dir/NAME.log.
	Dir     string
	running []*exec.Cmd
}

// Start starts a program. If the program is started again, its output is appended to its file.
func (p *Programs) Start(ctx context.Context, program string, args ...string) error {
	log, err := os.OpenFile(filepath.Join(p.Dir, filepath.Base(program)+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append([]string{wire.LessGarbage}, os.Environ()...) // An outer setting takes precedence.
	// Each program has its own session, so that Ctrl-C reaches only the caller, which stops the
	// programs in order. Also, if the kernel divides the CPUs between sessions, a control plane
	// does not get the share of only one program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		return err
	}
	p.running = append(p.running, cmd)
	return nil
}

// Kill ends a started program immediately.
func (p *Programs) Kill(program string) error {
	i := slices.IndexFunc(p.running, func(cmd *exec.Cmd) bool { return cmd.Path == program })
	if i < 0 {
		return fmt.Errorf("%s does not run", program)
	}
	cmd := p.running[i]
	p.running = slices.Delete(p.running, i, i+1)
	return kill(cmd)
}

// Stop ends all programs, in reverse order of their start.
func (p *Programs) Stop() error {
	var errs []error
	for _, cmd := range slices.Backward(p.running) {
		errs = append(errs, kill(cmd))
	}
	p.running = nil
	return errors.Join(errs...)
}

func kill(cmd *exec.Cmd) error {
	err := cmd.Process.Kill()
	// The exit status does not matter, because the program was killed.
	_ = cmd.Wait()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// AwaitAPI waits until the API server at a port is ready. dir has its log, for the error.
func AwaitAPI(ctx context.Context, port int, dir string) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(Patience); ; time.Sleep(200 * time.Millisecond) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, LocalURL("https", port)+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		answer := ""
		response, err := client.Do(request)
		if err == nil {
			data, readErr := io.ReadAll(response.Body)
			err = errors.Join(readErr, response.Body.Close())
			if answer = string(data); err == nil && response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("the API server is not ready, see its log in %s: %s: %w", dir, answer, errors.Join(err, ctx.Err()))
		}
	}
}

// LocalURL returns the URL of a port on loopback.
func LocalURL(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

// FreePorts returns ports of loopback that nothing listens on. Another program may take one before
// it is used. Then the test fails, and its error names the port.
func FreePorts(n int) (ports []int, err error) {
	if n == 0 {
		return nil, nil
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	first, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	// The first port stays taken until the others are found.
	others, err := FreePorts(n - 1)
	return append(others, first), err
}
