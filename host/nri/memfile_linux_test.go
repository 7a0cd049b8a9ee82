package nri

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"
)

// The file has its content from the beginning, cannot be changed, and is closed on exec.
func TestMemfile(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 10_000)
	fd, err := memfile("x", bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "x")
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	for what, change := range map[string]func() error{
		"write": func() error { _, err := unix.Pwrite(fd, []byte("x"), 0); return err },
		"grow":  func() error { return unix.Ftruncate(fd, int64(len(want))+1) }, "shrink": func() error { return unix.Ftruncate(fd, 0) },
		"seal": func() error {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE)
			return err
		},
	} {
		if err := change(); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("got the flags %#x, %v", flags, err)
	}
	if fi, err := f.Stat(); err != nil || fi.Mode().Perm()&0o111 == 0 {
		t.Errorf("not executable: %v, %v", fi.Mode(), err)
	}
	if fd, err := memfile("x", iotest.ErrReader(iotest.ErrTimeout)); !errors.Is(err, iotest.ErrTimeout) || fd != -1 {
		t.Errorf("an error of reading: got %d, %v", fd, err)
	}
	if fd, err := memfile(string(make([]byte, 1)), nil); !errors.Is(err, unix.EINVAL) || fd != -1 {
		t.Errorf("a name that is not one: got %d, %v", fd, err)
	}
}
