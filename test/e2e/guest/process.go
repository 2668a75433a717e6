package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

const logs = "/var/log"

// processes are the programs that run beside the guest program, by name.
type processes struct {
	mu      sync.Mutex
	running map[string]*process
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	// from is the offset in the log at which the output of this start begins.
	from int64
}

func newProcesses() *processes { return &processes{running: map[string]*process{}} }

func (ps *processes) start(in wire.Process) (wire.Nothing, error) {
	if len(in.Argv) == 0 {
		return wire.Nothing{}, errors.New("nothing to start")
	}
	p, err := ps.spawn(in)
	if err != nil {
		return wire.Nothing{}, err
	}
	deadline := time.Now().Add(in.Timeout)
	for {
		err := ready(in, p.from)
		if err == nil {
			return wire.Nothing{}, nil
		}
		select {
		case <-p.done:
			return wire.Nothing{}, fmt.Errorf("%s ended with %d: %s", in.Name, p.cmd.ProcessState.ExitCode(), p.output(in.Name))
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return wire.Nothing{}, fmt.Errorf("%s is not ready after %s: %w: %s", in.Name, in.Timeout, err, p.output(in.Name))
		}
	}
}

func (ps *processes) spawn(in wire.Process) (*process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.running[in.Name]; p != nil {
		return nil, fmt.Errorf("%s runs already", in.Name)
	}
	log, err := os.OpenFile(logName(in.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(in.Argv[0], in.Argv[1:]...), done: make(chan struct{}), from: from}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), in.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ps.running[in.Name] = p
	go func() {
		// ProcessState has the exit status.
		_ = p.cmd.Wait()
		ps.mu.Lock()
		delete(ps.running, in.Name)
		ps.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

func logName(name string) string { return filepath.Join(logs, name+".log") }

func (p *process) output(name string) string {
	text, err := readFrom(logName(name), p.from)
	if err != nil {
		return err.Error()
	}
	if len(text) > 2000 {
		text = "… " + text[len(text)-2000:]
	}
	return strings.TrimSpace(text)
}

func readFrom(name string, from int64) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	return string(data[min(from, int64(len(data))):]), nil
}

// ready checks once whether a process is ready.
func ready(in wire.Process, from int64) error {
	kind, what, _ := strings.Cut(in.Ready, ":")
	switch kind {
	case "":
		return nil
	case "unix":
		conn, err := net.DialTimeout("unix", what, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	case "http":
		answer, err := get(wire.Get{URL: in.Ready})
		if err == nil && answer.Code != http.StatusOK {
			err = fmt.Errorf("%s says %d: %s", in.Ready, answer.Code, answer.Stdout)
		}
		return err
	case "log":
		text, err := readFrom(logName(in.Name), from)
		if err == nil && !strings.Contains(text, what) {
			err = fmt.Errorf("its log does not say %q", what)
		}
		return err
	}
	return fmt.Errorf("ready: %q is unknown", in.Ready)
}

func (ps *processes) stop(in wire.Stop) (wire.Ended, error) {
	ps.mu.Lock()
	p := ps.running[in.Name]
	ps.mu.Unlock()
	if p == nil {
		return wire.Ended{Code: -1}, nil
	}
	if err := p.cmd.Process.Signal(syscall.Signal(in.Signal)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return wire.Ended{}, err
	}
	select {
	case <-p.done:
		return wire.Ended{Code: p.cmd.ProcessState.ExitCode()}, nil
	case <-time.After(in.Timeout):
		return wire.Ended{}, errors.Join(fmt.Errorf("%s still ran %s after signal %d and was killed", in.Name, in.Timeout, in.Signal), p.cmd.Process.Kill())
	}
}

func write(in wire.File) (wire.Nothing, error) {
	if err := os.MkdirAll(filepath.Dir(in.Path), 0o755); err != nil {
		return wire.Nothing{}, err
	}
	return wire.Nothing{}, os.WriteFile(in.Path, in.Data, os.FileMode(in.Mode))
}

func execute(in wire.Exec) (wire.Ended, error) {
	if len(in.Argv) == 0 {
		return wire.Ended{}, errors.New("nothing to run")
	}
	ctx, cancel := context.WithTimeout(context.Background(), in.Timeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, in.Argv[0], in.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in.Stdin), &stdout, &stderr
	err := cmd.Run()
	ended := wire.Ended{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		err = nil
	}
	return ended, err
}

func get(in wire.Get) (wire.Ended, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, in.URL, http.NoBody)
	if err != nil {
		return wire.Ended{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return wire.Ended{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return wire.Ended{Code: response.StatusCode, Stdout: string(data)}, err
}
