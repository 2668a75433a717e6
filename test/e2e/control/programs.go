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

// Patience is how long an API server may take to become ready, on a busy machine too.
const Patience = 5 * time.Minute

// Programs are the running programs of a control plane. They end with their context, with Stop, and
// with this process, whatever comes first. A Programs is for one goroutine.
type Programs struct {
	// Dir is for their output: Dir/NAME.log.
	Dir     string
	running []*exec.Cmd
}

// Start starts a program. The output of a program that is started again is added to its file.
func (p *Programs) Start(ctx context.Context, program string, args ...string) error {
	log, err := os.OpenFile(filepath.Join(p.Dir, filepath.Base(program)+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append([]string{wire.LessGarbage}, os.Environ()...) // What is set outside counts.
	// A session of its own: Ctrl-C is for the caller alone, which ends the programs in their order.
	// And where the kernel divides the CPUs between sessions, a control plane does not get the
	// share of one program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		return err
	}
	p.running = append(p.running, cmd)
	return nil
}

// Kill ends a program that was started, at once.
func (p *Programs) Kill(program string) error {
	i := slices.IndexFunc(p.running, func(cmd *exec.Cmd) bool { return cmd.Path == program })
	if i < 0 {
		return fmt.Errorf("%s does not run", program)
	}
	cmd := p.running[i]
	p.running = slices.Delete(p.running, i, i+1)
	return kill(cmd)
}

// Stop ends all programs, the last one first.
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
	// How it ended is of no interest: it was killed.
	_ = cmd.Wait()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// AwaitAPI waits until the API server at a port is ready. dir is where its log is, for the error.
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

// LocalURL is the address of a port of loopback.
func LocalURL(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

// FreePorts are ports of loopback that nothing listens on. Another program may take one before it
// is used; a test that this happens to fails and says which port.
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
	// This one is taken until the others are found.
	others, err := FreePorts(n - 1)
	return append(others, first), err
}
