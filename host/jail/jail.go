//go:build linux

// Package jail runs a program of an image on this host, with as little of the host as the
// kernel allows without an engine: in a root filesystem of its own, as nobody, without a
// network, and with no process of the host in sight.
package jail

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Bounds are what a confined process may use.
type Bounds struct {
	Memory int64         // bytes of data, beside what the Go runtime takes for itself
	Time   time.Duration // of a processor
}

// The restrictions after Confine.
const (
	User     = "user"     // it is nobody, without capabilities
	Landlock = "landlock" // it opens no file, and connects to nothing (Linux 5.13, 6.7 for TCP)
	Seccomp  = "seccomp"  // it makes those system calls alone that confinedCalls lists
	Rlimits  = "rlimits"
)

// nobody is the user and group that programs run as (Debian policy 9.2.2), where root starts them.
const nobody = 65534

// Command is exec.CommandContext for a program in the root filesystem dir, which it sees as /.
// path is looked up in there. The caller needs to be root, or to be allowed user namespaces,
// in which it is then the only user.
func Command(ctx context.Context, dir, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	// exec looks the path up outside of the root otherwise.
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
