package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// reboot restarts the machine as after an orderly shutdown: all data are on the disk, and the disk
// is not in use. It does not stop programs. A caller that wants an orderly stop stops them first.
func reboot(wire.Nothing) (wire.Nothing, error) {
	unix.Sync()
	// u makes all file systems read-only (Documentation/admin-guide/sysrq.rst).
	if err := os.WriteFile("/proc/sysrq-trigger", []byte("u"), 0); err != nil {
		return wire.Nothing{}, err
	}
	// Wait, so that the answer is sent first.
	time.AfterFunc(time.Second, func() {
		fmt.Println("guest: reboot:", unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART))
	})
	return wire.Nothing{}, nil
}
