// The mount namespace of a container that the real runtime is creating: its root filesystem with all mounts, as
// the container's processes will see it.

package ociruntime

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/internal/nodefile"
	"vfix.dev/vfix/internal/thread"
)

// inside is a thread in the mount namespace of a container's first process.
type inside struct{ calls chan func() }

// enter joins the mount namespace of a process.
func enter(pid int) (*inside, error) {
	in := &inside{make(chan func())}
	joined := make(chan error)
	thread.Go(func() {
		err := join(pid)
		joined <- err
		if err != nil {
			return
		}
		for call := range in.calls {
			call()
		}
	})
	if err := <-joined; err != nil {
		return nil, err
	}
	return in, nil
}

// join moves the calling thread to the mount namespace of a process.
func join(pid int) error {
	ns, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mount namespace of process %d: %w", pid, err)
	}
	defer unix.Close(ns)
	var own, other unix.Stat_t
	if err := errors.Join(unix.Stat("/proc/thread-self/ns/mnt", &own), unix.Fstat(ns, &other)); err != nil || own.Ino == other.Ino {
		return errors.Join(err, errors.New("the container has no mount namespace of its own"))
	}
	// The kernel requires a thread that does not share its working directory (setns(2)).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(ns, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace of process %d: %w", pid, err)
	}
	return nil
}

// do calls f in the namespace. Other threads can use the files that f opens: a descriptor keeps the mounts that it
// was opened through.
func (in *inside) do(f func() error) error {
	done := make(chan error)
	in.calls <- func() { done <- f() }
	return <-done
}

// mounts reads the mounts of the namespace.
func (in *inside) mounts() (all []mount, err error) {
	err = in.do(func() error {
		text, err := nodefile.Text("/proc/thread-self/mountinfo")
		all = parseMounts(text)
		return err
	})
	return all, err
}

func (in *inside) leave() { close(in.calls) }

// open opens the root in the namespace, which has it at the same path until pivot_root, and reads the mounts.
func (in *inside) open(outside *rootfs.Root) (root *rootfs.Root, mounts []mount, err error) {
	err = in.do(func() error {
		fd, err := unix.Open(outside.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			root, err = rootfs.Of(fd, outside.Path)
		}
		if err != nil {
			return fmt.Errorf("root %s in the container's mount namespace: %w", outside.Path, err)
		}
		return nil
	})
	if err == nil {
		mounts, err = in.mounts()
	}
	if err != nil {
		return root, nil, err
	}
	is, err := outside.Stat()
	if err != nil {
		return root, nil, err
	}
	st, err := root.Stat()
	if err == nil && (st.Ino != is.Ino || st.Dev_major != is.Dev_major || st.Dev_minor != is.Dev_minor) {
		err = fmt.Errorf("root %s in the container's mount namespace: %w", root.Path, rootfs.ErrChanged)
	}
	return root, mounts, err
}
