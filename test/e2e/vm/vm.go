// Package vm boots a machine under QEMU and calls the guest program in it.
//
// The CPU is emulated (TCG) on purpose: this needs no permission and no particular host, and the
// machine can have any topology. A machine ends by itself when its context ends, when this process
// ends, or when the guest program gets no call for ten minutes.
package vm

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-project/paddock/test/e2e/parts"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// A boot takes about 6 s, and a minute on a busy machine. Occasionally an emulated machine hangs
// before its kernel prints anything, or the emulator crashes. Then it is started again.
const (
	bootTimeout = 3 * time.Minute
	boots       = 3
)

// Each machine is pinged every beat. It is ended if it does not answer for silence, which is longer
// than a restart takes. Occasionally an emulator of several CPUs hangs. Callers that wait for the
// machine then get an error after silence, and not only after callTimeout.
const (
	beat    = 10 * time.Second
	silence = 2 * time.Minute
)

// ErrDown is wrapped if the machine does not run any more.
var ErrDown = errors.New("the virtual machine is down")

var (
	errHangs   = errors.New("the virtual machine hangs and is ended")
	errCrashed = errors.New("the kernel of the virtual machine crashed and started again")
)

// VM is a running machine. Do may be called concurrently.
type VM struct {
	cmd  *exec.Cmd
	conn net.Conn
	// short is a directory with a short path, for sockets.
	short string
	done  chan struct{}
	// ended is the reason why the machine ended. It may be read once done is closed.
	ended error
	// hangs is set before a machine that hangs is ended.
	hangs atomic.Bool
	// crashed is set if the machine was ended because its kernel restarted by itself.
	crashed atomic.Bool

	mu    sync.Mutex
	next  uint64
	calls map[uint64]chan wire.Reply
	write sync.Mutex
}

// Boot boots a machine with its files in dir, and waits for the guest program. The console of the
// machine is written to console.log in dir. If Options.Memory is set, Boot resumes a saved machine
// instead.
func Boot(ctx context.Context, m Machine, p *parts.Parts, dir string, o Options) (*VM, error) {
	for n := 1; ; n++ {
		v, err := bootOnce(ctx, m, p, dir, o)
		if n == boots || !errors.Is(err, errHangs) && !errors.Is(err, ErrDown) {
			return v, err
		}
	}
}

func bootOnce(ctx context.Context, m Machine, p *parts.Parts, dir string, o Options) (*VM, error) {
	if _, known := p.Kernels[m.Kernel]; !known {
		return nil, fmt.Errorf("kernel %q is not among those that were found: see Options.Kernels of package parts", m.Kernel)
	}
	input := filepath.Join(dir, "input.tar")
	if err := writeInput(input, p.Input); err != nil {
		return nil, err
	}
	// The path of a socket must be short. That of dir is not.
	short, err := os.MkdirTemp("", "e2e")
	if err != nil {
		return nil, err
	}
	// A resumed machine may still answer a call from before it was saved. So new calls have other
	// numbers.
	v := &VM{short: short, done: make(chan struct{}), calls: map[uint64]chan wire.Reply{}, next: uint64(time.Now().UnixNano())}
	v.cmd = exec.CommandContext(ctx, p.QEMU, arguments(m, p, input, short, o)...)
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	v.cmd.WaitDelay = 5 * time.Second
	console, err := os.Create(filepath.Join(dir, "console.log"))
	if err != nil {
		return nil, err
	}
	v.cmd.Stdout, v.cmd.Stderr = console, console
	if err := v.cmd.Start(); err != nil {
		return nil, errors.Join(err, console.Close(), os.RemoveAll(short))
	}
	var hello chan wire.Reply
	if o.Memory == "" { // A resumed machine has already sent it.
		hello = v.expect(0)
	}
	go func() {
		err := v.cmd.Wait()
		if v.hangs.Load() {
			err = errors.Join(errHangs, err)
		}
		if v.crashed.Load() {
			err = errors.Join(errCrashed, err)
		}
		v.ended = errors.Join(fmt.Errorf("%w: see %s", ErrDown, console.Name()), err, console.Close(), os.RemoveAll(short), os.Remove(input))
		close(v.done)
	}()
	err = v.connect(ctx, filepath.Join(short, portName))
	switch {
	case err != nil:
	case o.Memory != "":
		err = v.wake(ctx)
	default:
		_, err = v.wait(ctx, hello, bootTimeout)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("boot: %w", err), v.Kill())
	}
	v.preferDisks()
	go v.ask(ctx)
	return v, nil
}

// ask pings the machine until it is down.
func (v *VM) ask(ctx context.Context) {
	for !v.Down() {
		select {
		case <-v.done:
		case <-time.After(beat):
			// An error means that the machine is down, or hung and was ended, or restarts.
			_, _ = do[wire.Nothing](ctx, v, wire.OpPing, wire.Nothing{}, silence)
		}
	}
}

// preferDisks gives the emulator's first thread priority over emulated CPUs, its own and those of
// other machines. This thread serves disks and timers and needs little time. Otherwise it waits for
// longer than it works. If this is not permitted, everything is slower.
func (v *VM) preferDisks() {
	// The ID of a process is that of its first thread. The other threads already exist and keep
	// their priority.
	_ = unix.SchedSetAttr(v.cmd.Process.Pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
}

const portName = "port"

func arguments(m Machine, p *parts.Parts, input, short string, o Options) []string {
	// An emulator splits a string instruction into single bytes. Without erms and rep_good, the
	// kernel clears and copies pages differently, ten times as fast. This matters when a container
	// gets cpuset.mems, because the kernel then moves its pages, and those of its program, to other
	// NUMA nodes. highres=off: timers of a few microseconds, which Go's runtime sets constantly,
	// cost more than they save. numa_balancing=disable: only the tests may move pages to other NUMA
	// nodes.
	kernel := fmt.Sprintf("console=ttyS0 quiet panic=-1 oops=panic mitigations=off clearcpuid=rep_good highres=off psi=0 "+
		"transparent_hugepage=never numa_balancing=disable hugepagesz=2M hugepages=%d cgroup_no_v1=all %s", m.HugePages2Mi, m.Boot)
	reboot := "shutdown"
	if o.Reboots {
		reboot = "reset"
	}
	// Without a disk of its own, the writes of a machine are lost when it ends. A disk of its own
	// need not survive a power failure of this machine: without cache=unsafe, each sync of a
	// program there would wait for the disk here.
	disk := "file=" + p.Root + ",snapshot=on"
	if o.Disk != "" {
		disk = "file=" + o.Disk + ",cache=unsafe"
	}
	var memory []string
	if o.Memory != "" {
		memory = []string{"-incoming", "exec:cat " + o.Memory}
	}
	return slices.Concat([]string{
		"-nodefaults", "-no-user-config", "-display", "none", "-action", "reboot=" + reboot, "-serial", "stdio",
		// Only max with this vendor has SMT siblings under TCG. An emulated mwait does not wait:
		// with monitor, a CPU that the kernel has taken offline would keep a CPU of the host busy.
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,vendor=GenuineIntel,-erms,-monitor",
		"-kernel", p.Kernels[m.Kernel].Image, "-initrd", p.Kernels[m.Kernel].Initramfs, "-append", kernel,
		// A device without a bus is attached to any bus. pcie.0 is the one that every machine has.
		"-drive", "id=root," + disk + ",if=none,format=raw", "-device", "virtio-blk-pci,drive=root,bus=pcie.0",
		"-drive", "id=input,file=" + input + ",if=none,format=raw,readonly=on", "-device", "virtio-blk-pci,drive=input,bus=pcie.0",
		"-device", "virtio-serial-pci,bus=pcie.0", "-chardev", "socket,id=port,server=on,wait=off,path=" + filepath.Join(short, portName),
		"-device", "virtserialport,chardev=port,name=" + wire.Port,
		"-netdev", "user,id=n0,restrict=on" + netdev(o.Links), "-device", "virtio-net-pci,netdev=n0,bus=pcie.0,romfile=",
		"-qmp", "unix:" + filepath.Join(short, monitorName) + ",server=on,wait=off",
	}, m.args(), memory)
}

// writeInput makes the disk that is mounted as /in.
func writeInput(name string, files map[string]string) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	// The order is fixed, so that a resumed machine finds the same disk.
	for _, inside := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(w, inside, files[inside]); err != nil {
			return errors.Join(err, out.Close())
		}
	}
	if err := w.Close(); err != nil {
		return errors.Join(err, out.Close())
	}
	// A disk is read in whole blocks, and beyond the end of the archive.
	_, err = out.Write(make([]byte, 1<<20))
	return errors.Join(err, out.Close())
}

func addFile(w *tar.Writer, inside, outside string) error {
	in, err := os.Open(outside)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: inside, Mode: 0o755, Size: info.Size(), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}

func (v *VM) connect(ctx context.Context, socket string) error {
	conn, err := v.dial(ctx, socket)
	if err != nil {
		return err
	}
	v.conn = conn
	go v.listen()
	return nil
}

// dial connects to a socket of the emulator. The emulator creates its sockets one after the other
// when it starts.
func (v *VM) dial(ctx context.Context, socket string) (net.Conn, error) {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-v.done:
			return nil, v.ended
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// listen passes replies to the waiting callers.
func (v *VM) listen() {
	in := bufio.NewReader(v.conn)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return // Closing done reports it.
		}
		var reply wire.Reply
		if err := json.Unmarshal(line, &reply); err != nil {
			reply = wire.Reply{Error: fmt.Sprintf("not a reply: %q: %v", line, err)}
		}
		if reply.ID == 0 {
			v.forget()
		}
		v.mu.Lock()
		waiting := v.calls[reply.ID]
		delete(v.calls, reply.ID)
		v.mu.Unlock()
		switch {
		case waiting != nil:
			waiting <- reply
		case reply.ID == 0: // Nothing requested a restart, and its programs are gone.
			v.crashed.Store(true)
			_ = v.Kill()
		}
	}
}

// forget ends the calls that were in progress when the machine restarted. They get no reply any
// more.
func (v *VM) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, waiting := range v.calls {
		if id != 0 {
			waiting <- wire.Reply{ID: id, Error: "the machine started again"}
			delete(v.calls, id)
		}
	}
}

func (v *VM) expect(id uint64) chan wire.Reply {
	reply := make(chan wire.Reply, 1)
	v.mu.Lock()
	v.calls[id] = reply
	v.mu.Unlock()
	return reply
}

func (v *VM) wait(ctx context.Context, reply chan wire.Reply, timeout time.Duration) (wire.Reply, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case r := <-reply:
		if r.Error != "" {
			return r, errors.New(r.Error)
		}
		return r, nil
	case <-v.done:
		return wire.Reply{}, v.ended
	case <-ctx.Done():
		return wire.Reply{}, ctx.Err()
	case <-timer.C:
		v.hangs.Store(true)
		return wire.Reply{}, errors.Join(fmt.Errorf("no reply after %s: %w", timeout, errHangs), v.Kill())
	}
}

// callTimeout is longer than any call, including those that the guest program itself limits to ten
// minutes. A machine that hangs is noticed earlier: see silence.
const callTimeout = 11 * time.Minute

// Do calls an operation of package wire in the guest program.
func Do[Out any](ctx context.Context, v *VM, op string, in any) (Out, error) {
	return do[Out](ctx, v, op, in, callTimeout)
}

func do[Out any](ctx context.Context, v *VM, op string, in any, timeout time.Duration) (Out, error) {
	var out Out
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	v.mu.Lock()
	v.next++
	id := v.next
	v.mu.Unlock()
	line, err := json.Marshal(wire.Call{ID: id, Op: op, Body: body})
	if err != nil {
		return out, err
	}
	reply := v.expect(id)
	v.write.Lock()
	_, err = v.conn.Write(append(line, '\n'))
	v.write.Unlock()
	if err != nil {
		return out, fmt.Errorf("%s: %w", op, err)
	}
	r, err := v.wait(ctx, reply, timeout)
	if err != nil {
		return out, fmt.Errorf("%s: %w", op, err)
	}
	return out, json.Unmarshal(r.Body, &out)
}

// Reboot restarts a machine with Options.Reboots as "reboot" does: programs end, the disk stays.
func (v *VM) Reboot(ctx context.Context) error {
	hello := v.expect(0)
	if _, err := Do[wire.Nothing](ctx, v, wire.OpReboot, wire.Nothing{}); err != nil {
		return err
	}
	if _, err := v.wait(ctx, hello, bootTimeout); err != nil {
		return fmt.Errorf("reboot: %w", err)
	}
	return nil
}

// Down reports whether the machine has ended.
func (v *VM) Down() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// Kill ends the machine as a power failure does. It may be called again.
func (v *VM) Kill() error {
	if err := v.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-v.done
	return nil
}
