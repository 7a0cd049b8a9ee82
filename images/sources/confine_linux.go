// If vfix is root, programs that read a squashfs run confined: in their own root filesystem, with the system's
// programs read-only, the image and one writable directory; without a network and without access to other
// processes; without unneeded capabilities.

package sources

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/thread"
)

// nobody is the user for programs that write no files (Debian policy 9.2.2).
const nobody = 65534

// ownerCaps are the capabilities to create files of any owner, mode and kind. A program with them can change every
// visible file, so it runs in a root filesystem without other writable files.
var ownerCaps = map[int]bool{
	unix.CAP_CHOWN: true, unix.CAP_DAC_OVERRIDE: true, unix.CAP_FOWNER: true, unix.CAP_FSETID: true, unix.CAP_MKNOD: true, unix.CAP_SETFCAP: true,
}

// Bounds of a confined program.
const (
	confinedMemory = 4 << 30 // bytes
	confinedFiles  = 256
)

// confined reports whether programs are confined here; false without root, as such programs have no rights to
// lose.
func confined() bool { return os.Geteuid() == 0 }

// runConfined runs cmd to its end. Its paths are those inside. directory is the directory to which it may write, as
// root; without it, cmd runs as nobody. The error is errNotConfined if the kernel does not allow to confine it.
func runConfined(cmd *exec.Cmd, image, dir string) error {
	root, err := os.MkdirTemp("", "vfix-root-")
	if err != nil {
		return err
	}
	defer os.Remove(root)
	done := make(chan error)
	thread.Go(func() { done <- runInside(cmd, root, image, dir) })
	return <-done
}

func runInside(cmd *exec.Cmd, root, image, dir string) error {
	if err := build(root, cmd.Path, image, dir); err != nil {
		return fmt.Errorf("%w: %w", errNotConfined, err)
	}
	if err := dropCaps(dir != ""); err != nil {
		return fmt.Errorf("%w: %w", errNotConfined, err)
	}
	attr := &syscall.SysProcAttr{
		Chroot: root, Setpgid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Ptrace:     true,
	}
	if dir == "" {
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	cmd.SysProcAttr, cmd.Dir = attr, "/"
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", errNotConfined, err)
	}
	bound := map[int]uint64{unix.RLIMIT_DATA: confinedMemory, unix.RLIMIT_NOFILE: confinedFiles, unix.RLIMIT_CORE: 0}
	if dir == "" {
		bound[unix.RLIMIT_FSIZE] = 0
	}
	return errors.Join(setLimits(cmd.Process.Pid, bound, attr.Credential), cmd.Wait())
}

// setLimits sets limits for a program that stopped after its execve, traced by this thread, and continues it: some
// programs read their limits when they start. The thread becomes the program's user, if given: root without
// CAP_SYS_RESOURCE, as in containers, can only limit its own processes (prlimit(2)).
func setLimits(pid int, bound map[int]uint64, user *syscall.Credential) error {
	var status unix.WaitStatus
	_, err := unix.Wait4(pid, &status, 0, nil)
	for err == unix.EINTR {
		_, err = unix.Wait4(pid, &status, 0, nil)
	}
	if err != nil || !status.Stopped() {
		return nil // it has ended, and Wait returns how
	}
	var errs []error
	if user != nil {
		errs = append(errs, become(unix.SYS_SETRESGID, user.Gid), become(unix.SYS_SETRESUID, user.Uid))
	}
	for resource, most := range bound {
		errs = append(errs, unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil))
	}
	if err = errors.Join(errs...); err == nil {
		err = unix.PtraceDetach(pid)
	}
	if err != nil {
		unix.Kill(pid, unix.SIGKILL)
		return fmt.Errorf("%w: limits: %w", errNotConfined, err)
	}
	return nil
}

// become changes the IDs of this thread only.
func become(call uintptr, id uint32) error {
	if _, _, e := unix.RawSyscall(call, uintptr(id), uintptr(id), uintptr(id)); e != 0 {
		return e
	}
	return nil
}

// build makes the root filesystem in a mount namespace of this thread, so it is not visible elsewhere.
func build(root, program, image, directory string) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	dirs := []string{"/usr", "/bin", "/lib", "/lib64"}
	if dir := filepath.Dir(program); !strings.HasPrefix(dir, "/usr/") && dir != "/bin" {
		dirs = append(dirs, dir)
	}
	const readOnly = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	for _, dir := range dirs {
		if to, err := os.Readlink(dir); err == nil {
			if err := os.Symlink(to, root+dir); err != nil {
				return err
			}
		} else if err := bind(dir, root+dir, readOnly); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := bind(image, root+confinedImage, readOnly); err != nil {
		return err
	}
	if directory != "" {
		if err := bind(directory, root+confinedDir, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC); err != nil {
			return err
		}
	}
	return unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_BIND|readOnly, "")
}

// bind mounts a file or directory on a path, which it creates.
func bind(from, to string, flags uintptr) error {
	fi, err := os.Stat(from)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else {
		err = os.WriteFile(to, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", from, err)
	}
	return unix.Mount("", to, "", unix.MS_REMOUNT|unix.MS_BIND|flags, "")
}

// dropCaps removes all capabilities, or with files all except ownerCaps, from the programs that this thread
// starts.
func dropCaps(files bool) error {
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if files && ownerCaps[c] {
			continue
		}
		// EINVAL: the kernel is older than the one that vfix was built for.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("capability %d: %w", c, err)
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
