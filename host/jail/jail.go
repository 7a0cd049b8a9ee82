//go:build linux

// Package jail confines programs of images: each sees its own root filesystem, as nobody, and without a network.
package jail

import (
	"context"
	"os"
	"os/exec"
	"syscall"
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
