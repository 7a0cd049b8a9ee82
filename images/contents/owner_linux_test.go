package contents

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// The owner is set if it is another, and is lost if only root may set it; any other failure is an error.
func TestGiveOwner(t *testing.T) {
	for _, c := range []struct {
		uid, gid uint32
		err      error
		calls    string
		lost     string
	}{
		{1, 2, nil, "", "[]"},
		{1, 3, nil, "1:3 ", "[]"},
		{3, 2, nil, "3:2 ", "[]"},
		{3, 4, unix.EPERM, "3:4 -1:4 ", "[owner 3:4]"},
		{3, 2, unix.EACCES, "3:2 -1:2 ", "[owner 3:2]"},
		{1, 3, unix.EINVAL, "1:3 ", "[group 3]"},
		{3, 4, unix.EIO, "3:4 ", "keep owner 3:4: input/output error"},
	} {
		calls := ""
		lost, err := (&Meta{UID: c.uid, GID: c.gid}).giveOwner(&unix.Stat_t{Uid: 1, Gid: 2}, func(uid, gid int) error {
			calls += fmt.Sprintf("%d:%d ", uid, gid)
			return c.err
		})
		got := fmt.Sprint(lost)
		if err != nil {
			got = err.Error()
		}
		if calls != c.calls || got != c.lost {
			t.Errorf("%d:%d, %v: got %q and %s, want %q and %s", c.uid, c.gid, c.err, calls, got, c.calls, c.lost)
		}
	}
	if err := (&Meta{}).giveTimes(unix.AT_FDCWD, t.TempDir()+"/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the times of no file: got %v", err)
	}
}

// Files that are not on disk have one name, and changed when they were modified.
func TestFilesNotOnDisk(t *testing.T) {
	fi, err := fs.Stat(fstest.MapFS{"a": {Data: []byte("text")}}, "a")
	if err != nil {
		t.Fatal(err)
	}
	if id, links := Identify(fi); id != (FileID{}) || links != 1 || !changeTime(fi).Equal(fi.ModTime()) {
		t.Errorf("got %v, %d, %v", id, links, changeTime(fi))
	}
}
