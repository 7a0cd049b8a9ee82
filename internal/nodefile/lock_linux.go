package nodefile

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/hinterr"
)

// Text is os.ReadFile for a small file, or one of the kernel's, with less than half of the system calls.
func Text(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	const usual = 4 << 10 // bytes
	for b := make([]byte, 0, usual); ; {
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return b, nil
		default:
			b = slices.Grow(b[:len(b)+n], 1)
		}
	}
}

// Lock locks a file or directory until the function that it returns is called, or the process ends: see Await.
func Lock(path string, patience time.Duration) (unlock func(), err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := Await(fd, patience); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("%s: lock: %w", path, err)
	}
	return func() { unix.Close(fd) }, nil
}

// Await locks what is open at a descriptor. If another process has it locked for longer than patience, the error is
// unix.EWOULDBLOCK.
func Await(fd int, patience time.Duration) error {
	const least, most = 200 * time.Microsecond, 2 * time.Millisecond
	end := time.Now().Add(patience)
	for pause := least; ; pause = min(2*pause, most) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if !time.Now().Before(end) {
			return hinterr.Errorf(unix.EWOULDBLOCK, "held by another process for %v", patience)
		}
		time.Sleep(pause)
	}
}
