// Package process runs programs that end in an orderly way when their context ends.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// grace is how long a program has to end after an interrupt, before it is killed. The go command
// removes its temporary files in this time.
const grace = 5 * time.Second

// Output runs a program in a directory, and returns what it prints on standard output and on
// standard error. environment has variables beside those of this process. The program has an empty
// standard input and no terminal, so it cannot wait for an answer.
//
// When ctx ends, the program and all that it started get an interrupt, and after five seconds they
// are killed. The error is then that of the context.
func Output(ctx context.Context, dir string, environment []string, name string, args ...string) (stdout, stderr []byte, err error) {
	return output(ctx, grace, dir, environment, name, args...)
}

func output(ctx context.Context, grace time.Duration, dir string, environment []string, name string, args ...string) (stdout, stderr []byte, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environment...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// A new session is a new group too, which an interrupt reaches with the compilers that the go command
	// starts. A new group alone would keep the terminal: the kernel stops a program in it that asks for a
	// password, and nothing shows that it waits.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return signal(cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = grace
	err = cmd.Run()
	if ctx.Err() != nil {
		if cmd.Process != nil {
			err = signal(cmd.Process.Pid, syscall.SIGKILL)
		}
		if err == nil || errors.Is(err, os.ErrProcessDone) {
			err = ctx.Err()
		} else {
			err = errors.Join(ctx.Err(), fmt.Errorf("%s: %w", name, err))
		}
	}
	return out.Bytes(), errs.Bytes(), err
}

// signal sends a signal to all processes of a group. The error is os.ErrProcessDone if it has none.
func signal(group int, s syscall.Signal) error {
	err := syscall.Kill(-group, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
