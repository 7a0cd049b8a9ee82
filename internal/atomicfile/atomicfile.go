// Package atomicfile writes files and directories under a temporary name beside their own, which they get when they
// are complete: a half-written result never exists under the final name.
package atomicfile

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/internal/textutil"
)

// TempPrefix begins the name of every temporary file and directory.
const TempPrefix = ".vfix-"

// TempName gives a name beside path that is not in use.
func TempName(path string) string {
	var b [8]byte
	rand.Read(b[:]) // never errs (crypto/rand, since Go 1.24)
	return filepath.Join(filepath.Dir(path), TempPrefix+hex.EncodeToString(b[:]))
}

// File is a file that gets its name when it is complete.
type File struct {
	*os.File
	final string
	done  bool
}

// Create begins a file that will be called path, with the mode that the umask gives, but without rights that the
// replaced file lacks: a private archive stays private. The file at path must be missing or a regular file; a symlink
// is followed, so that its target is replaced.
func Create(path string) (*File, error) {
	final := path
	old, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !old.Mode().IsRegular():
		return nil, hinterr.With(fmt.Errorf("%s: not a regular file", path), "name a file, or one that does not exist yet")
	default:
		if final, _, err = rootpath.Real(path); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(TempName(final), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, About(final, err)
	}
	if old != nil {
		if now, err := f.Stat(); err == nil {
			_ = f.Chmod(now.Mode().Perm() & old.Mode().Perm()) // not every file system has modes
		}
	}
	return &File{File: f, final: final}, nil
}

// About words an error about a temporary file as one about the path that the user named.
func About(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		dir := filepath.Dir(path)
		return hinterr.With(hinterr.Errorf(fs.ErrNotExist, "no directory %s", dir), "create it first: mkdir -p %s", textutil.QuotePath(dir))
	}
	if p, is := errors.AsType[*fs.PathError](err); is {
		return &fs.PathError{Op: p.Op, Path: path, Err: p.Err}
	}
	return err
}

// Commit gives the file its name. Its content is on the disk before its name is.
func (f *File) Commit() error {
	err := f.Sync()
	if err := cmp.Or(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), f.final); err != nil {
		return err
	}
	f.done = true
	return nil
}

// Discard removes the file if it was not committed. It is for defer.
func (f *File) Discard() {
	if !f.done {
		f.Close()
		os.Remove(f.Name())
	}
}

// Write writes a small file.
func Write(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// WriteDir calls fill to fill a directory, and names it path when it is complete. An empty directory of that name is
// replaced; the error is an fs.ErrExist if there is something else.
func WriteDir(path string, mode fs.FileMode, fill func(temp string) error) error {
	path = filepath.Clean(path)
	temp := TempName(path)
	if err := os.Mkdir(temp, mode); err != nil {
		return About(path, err)
	}
	err := fill(temp)
	if err == nil {
		err = os.Remove(path) // os.Rename replaces no directory
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		RemoveTree(temp)
	}
	return err
}

// RemoveTree removes a directory with all its contents, also those of read-only directories.
func RemoveTree(dir string) {
	filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
	os.RemoveAll(dir)
}

// Lock waits until no other run holds the lock of a directory, and takes it. A file system without locks has none to
// wait for. The lock ends with the process.
func Lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return func() { d.Close() }, nil
		}
	}
}
