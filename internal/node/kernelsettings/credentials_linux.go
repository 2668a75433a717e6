package kernelsettings

import (
	"os"
	"syscall"
)

// credentials returns the control message with who asks. The kernel checks it.
func credentials() []byte {
	return syscall.UnixCredentials(&syscall.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())})
}
