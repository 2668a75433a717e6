package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// reboot has the machine start again as after an orderly end: what was written is on the disk, and
// the disk is not in use. Programs are not asked: who wants them to end in order stops them before.
func reboot(wire.Nothing) (wire.Nothing, error) {
	unix.Sync()
	// u makes all file systems read-only (Documentation/admin-guide/sysrq.rst).
	if err := os.WriteFile("/proc/sysrq-trigger", []byte("u"), 0); err != nil {
		return wire.Nothing{}, err
	}
	// After the answer.
	time.AfterFunc(time.Second, func() {
		fmt.Println("guest: reboot:", unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART))
	})
	return wire.Nothing{}, nil
}
