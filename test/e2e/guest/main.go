// Command guest runs a test's operations inside a virtual machine: it starts and stops programs,
// runs pods through CRI as a kubelet would, serves them on /pods, and reads files of the kernel. It
// judges nothing.
//
// It ends, and the machine with it, if it gets no call for the time idle.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// idle is how long the guest program waits for the next call.
const idle = 10 * time.Minute

func main() {
	run := run
	if len(os.Args) > 2 && os.Args[1] == "registry" {
		run = func() error { return registry(os.Args[2], os.Args[3:]) }
	}
	if err := run(); err != nil {
		fmt.Println("guest:", err)
		os.Exit(1)
	}
}

func run() error {
	port, err := openPort()
	if err != nil {
		return err
	}
	defer port.Close()
	g, err := newGuest()
	if err != nil {
		return err
	}
	watchdog := time.AfterFunc(idle, func() {
		fmt.Println("guest: nothing was asked for since", idle)
		os.Exit(2)
	})
	out := &replies{w: port}
	out.send(wire.Reply{ID: 0})
	return listen(port, func(call wire.Call) {
		watchdog.Reset(idle)
		go func() {
			body, err := g.do(call)
			reply := wire.Reply{ID: call.ID, Body: body}
			if err != nil {
				reply.Error = err.Error()
			}
			out.send(reply)
		}()
	})
}

// openPort finds the serial port by its name, without udev.
func openPort() (*os.File, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(string(data)) == wire.Port {
			return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(name))), os.O_RDWR, 0)
		}
	}
	return nil, fmt.Errorf("no serial port is called %s", wire.Port)
}

// listen passes every call to do until the machine shuts down.
func listen(port io.Reader, do func(wire.Call)) error {
	in := bufio.NewReader(port)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			time.Sleep(50 * time.Millisecond) // The other end is not connected yet.
			continue
		}
		if err != nil {
			return fmt.Errorf("serial port: %w", err)
		}
		var call wire.Call
		if err := json.Unmarshal(line, &call); err != nil {
			return fmt.Errorf("serial port: %q: %w", line, err)
		}
		do(call)
	}
}

type replies struct {
	mu sync.Mutex
	w  io.Writer
}

func (r *replies) send(reply wire.Reply) {
	data, err := json.Marshal(reply)
	if err != nil {
		data = fmt.Appendf(nil, `{"id":%d,"error":%q}`, reply.ID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.w.Write(append(data, '\n')); err != nil {
		fmt.Println("guest: serial port:", err)
	}
}

// guest is the state of the program.
type guest struct {
	processes *processes
	kubelet   *kubelet
	watch     watch
	samples   samples
	table     map[string]func(json.RawMessage) (any, error)
}

func newGuest() (*guest, error) {
	g := &guest{processes: newProcesses()}
	var err error
	if g.kubelet, err = newKubelet(); err != nil {
		return nil, err
	}
	k := g.kubelet
	g.table = map[string]func(json.RawMessage) (any, error){
		wire.OpStart: op(g.processes.start), wire.OpStop: op(g.processes.stop), wire.OpWrite: op(write), wire.OpExec: op(execute),
		wire.OpRun: op(k.run), wire.OpStopPod: op(k.stopPod), wire.OpRemove: op(k.remove), wire.OpRestart: op(k.restart),
		wire.OpUpdate: op(k.update), wire.OpDebug: op(k.debug), wire.OpForget: op(k.forget), wire.OpObserve: op(k.observe), wire.OpInContainer: op(k.inContainer),
		wire.OpPodResources: op(podResources), wire.OpGet: op(get), wire.OpServe: op(k.serve), wire.OpPlug: op(plug), wire.OpPull: op(k.pull),
		wire.OpPing: op(func(nothing wire.Nothing) (wire.Nothing, error) { return nothing, nil }), wire.OpReboot: op(reboot), wire.OpWatch: op(g.watch.begin), wire.OpWatched: op(g.watch.watched),
		wire.OpSample: op(g.samples.begin), wire.OpSampled: op(g.samples.sampled),
	}
	return g, nil
}

// op converts a function of values to a function of JSON.
func op[In, Out any](f func(In) (Out, error)) func(json.RawMessage) (any, error) {
	return func(body json.RawMessage) (any, error) {
		var in In
		if len(body) > 0 {
			if err := json.Unmarshal(body, &in); err != nil {
				return nil, err
			}
		}
		return f(in)
	}
}

func (g *guest) do(call wire.Call) (json.RawMessage, error) {
	f := g.table[call.Op]
	if f == nil {
		return nil, fmt.Errorf("operation %q is unknown", call.Op)
	}
	out, err := f(call.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call.Op, err)
	}
	return json.Marshal(out)
}
