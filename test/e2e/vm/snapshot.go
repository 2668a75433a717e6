package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// saveTimeout is longer than it takes to write the memory of a machine to a busy disk.
const saveTimeout = 10 * time.Minute

// Save writes the memory and the devices of a machine to a file, and ends the machine. With the
// disk (Options.Disk) as it is then, Boot can resume the machine (Options.Memory) any number of
// times. No call may be in progress: its reply would go to the resumed machine's caller.
func (v *VM) Save(ctx context.Context, name string) error {
	if strings.ContainsAny(name, " '") { // A shell of QEMU parses it.
		return fmt.Errorf("save a machine: a path without spaces and quotes is wanted: %q", name)
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	m, err := v.monitor(ctx)
	if err != nil {
		return err
	}
	defer m.conn.Close()
	err = errors.Join(
		m.do("stop", nil, nil),
		// The default limits the bandwidth to that of a network.
		m.do("migrate-set-parameters", map[string]any{"max-bandwidth": 4 << 30}, nil),
		m.do("migrate", map[string]any{"uri": "exec:cat > " + name}, nil),
	)
	if err != nil {
		return err
	}
	if err := m.awaitMigrated(ctx); err != nil {
		return err
	}
	// QEMU writes its cached data of the disk, and ends.
	if err := m.do("quit", nil, nil); err != nil {
		return err
	}
	select {
	case <-v.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("save a machine: it does not end: %w", ctx.Err()), v.Kill())
	}
}

// wake resumes a machine when its memory has been read. It sets the machine's clock, which stopped
// when the machine was saved.
func (v *VM) wake(ctx context.Context) error {
	if err := v.proceed(ctx); err != nil {
		return err
	}
	if _, err := do[wire.Nothing](ctx, v, wire.OpPing, wire.Nothing{}, bootTimeout); err != nil {
		return err
	}
	set := fmt.Sprintf("date -u -s @%d", time.Now().Unix())
	ended, err := do[wire.Ended](ctx, v, wire.OpExec, wire.Exec{Argv: []string{"/bin/sh", "-c", set}, Timeout: bootTimeout}, bootTimeout)
	if err == nil && ended.Code != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", set, ended.Code, ended.Stderr)
	}
	return err
}

// proceed waits until the memory has been read, and resumes the machine, which is paused as it was
// when it was saved.
func (v *VM) proceed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	m, err := v.monitor(ctx)
	if err != nil {
		return err
	}
	defer m.conn.Close()
	for {
		var now struct {
			Status string `json:"status"`
		}
		if err := m.do("query-status", nil, &now); err != nil {
			return err
		}
		if now.Status != "inmigrate" {
			return m.do("cont", nil, nil)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the memory of a machine is not read: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

const monitorName = "monitor"

// monitor is a QMP connection to an emulator (QEMU's documentation, QMP Specification).
type monitor struct {
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

func (v *VM) monitor(ctx context.Context) (*monitor, error) {
	conn, err := v.dial(ctx, filepath.Join(v.short, monitorName))
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	m := &monitor{conn: conn, in: json.NewDecoder(bufio.NewReader(conn)), out: json.NewEncoder(conn)}
	var greeting json.RawMessage
	if err = errors.Join(err, m.in.Decode(&greeting)); err == nil {
		err = m.do("qmp_capabilities", nil, nil)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the emulator's monitor: %w", err), conn.Close())
	}
	return m, nil
}

// do runs a command. It skips events before the answer.
func (m *monitor) do(command string, arguments map[string]any, result any) error {
	question := map[string]any{"execute": command}
	if arguments != nil {
		question["arguments"] = arguments
	}
	if err := m.out.Encode(question); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Desc string `json:"desc"`
			} `json:"error"`
		}
		switch err := m.in.Decode(&answer); {
		case err != nil:
			return fmt.Errorf("%s: %w", command, err)
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", command, answer.Error.Desc)
		case answer.Return == nil: // An event.
		case result != nil:
			return json.Unmarshal(answer.Return, result)
		default:
			return nil
		}
	}
}

func (m *monitor) awaitMigrated(ctx context.Context) error {
	for {
		var now struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		if err := m.do("query-migrate", nil, &now); err != nil {
			return err
		}
		switch now.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("save a machine: %s: %s", now.Status, now.Error)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("save a machine: %s: %w", now.Status, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
