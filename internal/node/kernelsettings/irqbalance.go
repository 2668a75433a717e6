package kernelsettings

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

const (
	banned = "IRQBALANCE_BANNED_CPULIST"
	// mostBalancer is the largest environment file that is read, in bytes. The usual ones have 2
	// KiB.
	mostBalancer = 64 << 10
	// askTime limits a conversation with irqbalance, which answers between two rounds of its own.
	askTime = 2 * time.Second
)

// balancer returns the ban list in the environment file of irqbalance.
func (f FS) balancer() (string, error) {
	lines, err := f.environment()
	if err != nil {
		return "", err
	}
	value := ""
	for _, line := range lines {
		if of, is := strings.CutPrefix(line, banned+"="); is {
			value = strings.Trim(strings.TrimSpace(of), `"'`)
		}
	}
	return value, nil
}

func (f FS) environment() ([]string, error) {
	file, err := os.Open(f.Balancer)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, mostBalancer+1))
	if err == nil && len(data) > mostBalancer {
		err = fmt.Errorf("%s: it has more than %d bytes: expected the environment file of irqbalance", f.Balancer, mostBalancer)
	}
	return strings.Split(string(data), "\n"), err
}

// putBalancer writes the ban list into the environment file: irqbalance reads it when it starts. It
// writes in place, because a single file can be mounted in a container, and a mount cannot be
// replaced. An empty list removes the line.
func (f FS) putBalancer(list string) error {
	lines, err := f.environment()
	if err != nil {
		return err
	}
	var kept []string
	for _, line := range lines {
		if !strings.HasPrefix(line, banned+"=") {
			kept = append(kept, line)
		}
	}
	if list != "" {
		at := len(kept)
		if at > 0 && kept[at-1] == "" {
			at-- // Before the last line's end.
		}
		kept = append(kept[:at], append([]string{banned + "=" + list}, kept[at:]...)...)
	}
	return replace(f.Balancer, strings.Join(lines, "\n"), strings.Join(kept, "\n"))
}

// replace replaces the content of a file in place. The file is never empty in between: a process
// that is killed would lose the other settings, and so would a full disk, which has no space for
// what was there a moment before. If the new content does not fit, the old one is written again,
// whose space the file still has.
func replace(name, before, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0) //nolint:forbidigo // It can be a mount, which cannot be replaced.
	if err != nil {
		return err
	}
	blank := strings.Repeat("\n", max(0, len(before)-len(text))) // In place of the rest, until it is cut.
	if _, err = file.WriteAt([]byte(text+blank), 0); err != nil {
		_, again := file.WriteAt([]byte(before), 0)
		err, text = errors.Join(err, again), before
	}
	return errors.Join(err, file.Truncate(int64(len(text))), file.Sync(), file.Close())
}

// Ban lets a running irqbalance know which CPUs get no interrupts, over the socket in a directory
// such as /run/irqbalance. It does not restart it. An irqbalance that has them already is left
// alone. If none runs, found is false.
//
// The protocol is that of irqbalance-ui (irqbalance.c, sock_handle): one request for each
// connection, from root, "setup" or "settings cpus LIST".
func Ban(dir string, cpus cpuset.Set) (found bool, err error) {
	sockets, err := filepath.Glob(filepath.Join(dir, "irqbalance*.sock"))
	if err != nil {
		return false, err
	}
	for _, socket := range sockets {
		now, err := bannedCPUs(socket)
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue // It was left behind.
		}
		if err == nil && now.Equal(cpus) {
			return true, nil
		}
		if err == nil {
			list := cpus.String()
			if list == "" {
				list = "NULL"
			}
			_, err = ask(socket, "settings cpus "+list)
		}
		if err != nil {
			return true, fmt.Errorf("irqbalance at %s: %w", socket, err)
		}
		return true, nil
	}
	return false, nil
}

// bannedCPUs returns the CPUs that irqbalance bans: the mask after BANNED in its answer to "setup".
func bannedCPUs(socket string) (cpuset.Set, error) {
	answer, err := ask(socket, "setup")
	if err != nil {
		return cpuset.Set{}, err
	}
	_, mask, found := strings.Cut(answer, "BANNED ")
	if !found {
		return cpuset.Set{}, fmt.Errorf("the answer %q has no BANNED: expected an irqbalance that irqbalance-ui can talk to", answer)
	}
	return quiet.ParseMask(strings.TrimRight(strings.TrimSpace(mask), "\x00"))
}

// ask sends one request, with the credentials that irqbalance checks, and returns its answer.
func ask(socket, request string) (answer string, err error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(askTime)); err != nil { //nolint:forbidigo // A deadline of the kernel.
		return "", err
	}
	if _, _, err := conn.WriteMsgUnix([]byte(request), credentials(), nil); err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(conn, mostBalancer))
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil // It closes without having read everything.
	}
	return string(data), err
}
