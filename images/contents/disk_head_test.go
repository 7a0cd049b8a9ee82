package contents

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file whose beginning cannot be read is an error. If it counted as not a program, it would not be patched, and the
// run would count as complete.
func TestHeadThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600) // EBADF for who reads
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := new(Disk).examine(nil, &Entry{Name: "file"}, f); !errors.Is(err, syscall.EBADF) {
		t.Errorf("got %v, want %v", err, syscall.EBADF)
	}
	short, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	if info, err := new(Disk).examine(nil, &Entry{Name: "file"}, short); info != nil || err != nil {
		t.Errorf("empty: got %v, %v", info, err)
	}
	short.Close()
	if names, err := FileXattrs(short); !errors.Is(err, syscall.EBADF) {
		t.Errorf("attributes: got %v, %v, want %v", names, err, syscall.EBADF)
	}
}
