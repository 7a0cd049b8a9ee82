//go:build linux

// Package jail runs a program of an image on this host with as little access to the host as the kernel can enforce
// without an engine: in its own root filesystem, as nobody, without a network, and without access to processes of
// the host.
package jail

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Bounds are the limits of a confined process.
type Bounds struct {
	Memory int64         // bytes of data, in addition to the Go runtime's
	Time   time.Duration // of processor use
}

// The restrictions that Confine may return.
const (
	User     = "user"     // it runs as nobody, without capabilities
	Landlock = "landlock" // it cannot open files or connect (Linux 5.13, 6.7 for TCP)
	Seccomp  = "seccomp"  // it can make only the system calls of confinedCalls
	Rlimits  = "rlimits"
)

// nobody is the user and group of programs that root starts (Debian policy 9.2.2).
const nobody = 65534

// Command is exec.CommandContext for the program at path in the root filesystem dir, which it sees as /. The
// caller must be root, or be allowed to create user namespaces, in which it is then the only user.
func Command(ctx context.Context, dir, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	// Otherwise exec would search for the path outside of the root.
	cmd.Path, cmd.Err = path, nil
	cmd.Dir = "/"
	attr := &syscall.SysProcAttr{
		Chroot:     dir,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	} else {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	return cmd
}
