package nodefile

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/hinterr"
)

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
