package nri

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// memfile makes an executable file in memory, sealed, that is closed on exec: the kernel has opened it by
// then. It is read from its beginning.
func memfile(name string, content io.Reader) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3 does not know MFD_EXEC
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	// No os.File: it would set O_NONBLOCK and close the file when it is collected.
	if _, err := io.Copy(fdWriter(fd), content); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("file in memory: %w", err)
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("file in memory: seal: %w", err)
	}
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("file in memory: %w", err)
	}
	return fd, nil
}

type fdWriter int

func (w fdWriter) Write(b []byte) (int, error) {
	for n := 0; n < len(b); {
		k, err := unix.Write(int(w), b[n:])
		if err != nil && !errors.Is(err, unix.EINTR) {
			return n, err
		}
		n += max(k, 0)
	}
	return len(b), nil
}
