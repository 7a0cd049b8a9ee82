package nodefile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestText(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, 4<<10 - 1, 4 << 10, 4<<10 + 1, 100_000} {
		path, want := filepath.Join(dir, "f"), bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Text(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
	}
	if _, err := Text(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir+"/none") {
		t.Errorf("a missing file: got %v", err)
	}
	if _, err := Text(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory: got %v", err)
	}
}

// Whoever waits gets the lock when it is free, or an error when the patience ends.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if _, err := Lock(path, 0); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: got %v", err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil { // opening it does not wait for a writer
		t.Fatal(err)
	}
	unlock, err := Lock(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, patience := range []time.Duration{0, time.Millisecond} {
		want := path + ": lock: held by another process for " + patience.String()
		if _, err := Lock(path, patience); !errors.Is(err, unix.EWOULDBLOCK) || err.Error() != want {
			t.Errorf("locked: got %v, want %s", err, want)
		}
	}
	if n := descriptors(path); n != 1 {
		t.Errorf("%d descriptors are open, want that of the lock", n)
	}
	time.AfterFunc(10*time.Millisecond, unlock)
	unlock, err = Lock(path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := Await(-1, time.Minute); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: got %v", err)
	}
}

// descriptors is how many of this process have the file open.
func descriptors(path string) (n int) {
	all, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range all {
		if to, err := os.Readlink(fd); err == nil && to == path {
			n++
		}
	}
	return n
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path, fifo := filepath.Join(dir, "f"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(path, []byte("0123456789"), 0o600), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		most int64
		want string
	}{
		{path, 11, ""}, {path, 10, ""}, {path, 9, "more than 9 bytes"}, {path, 0, "more than 0 bytes"}, {"/proc/self/status", 9, "more than 9 bytes"},
		{fifo, 10, "not a regular file"}, {dir, 10, "not a regular file"}, {path + "/x", 10, "not a directory"},
	} {
		got, err := Read(c.path, c.most)
		switch {
		case c.want == "" && (err != nil || string(got) != "0123456789"):
			t.Errorf("at most %d bytes: got %q, %v", c.most, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s, at most %d bytes: got %v, want %s", c.path, c.most, err, c.want)
		}
	}
	if got, err := Read("/proc/self/status", 1<<20); err != nil || !bytes.HasPrefix(got, []byte("Name:")) { // its size is 0
		t.Errorf("got %q, %v", got, err)
	}
}
