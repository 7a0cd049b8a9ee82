// Files that are written under a temporary name and renamed when they are complete.

package atomicfile

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/internal/rootpath"
)

// TempPrefix begins the name of every temporary file and directory.
const TempPrefix = ".vfix-"

// TempName gives a name beside path that is not in use.
func TempName(path string) string { return filepath.Join(filepath.Dir(path), TempPrefix+random()) }

// random returns the end of a temporary name: 16 hex digits.
func random() string {
	var b [8]byte
	rand.Read(b[:]) // never errs (crypto/rand, since Go 1.24)
	return hex.EncodeToString(b[:])
}

// File is a file that gets its name when it is complete.
type File struct {
	*os.File
	Final string
	done  bool
}

// Create begins a file that will be called path: a temporary one in the same directory,
// with the mode the umask gives, but without rights that the replaced file lacks: a private archive
// stays private. The file at path must be missing or a regular file; a symlink is followed, so that its
// target is replaced and not the link.
func Create(path string) (*File, error) {
	return CreateNamed(path, TempName)
}

// CreateNamed is Create with the name that temp makes of the file's own, beside it.
func CreateNamed(path string, temp func(string) string) (*File, error) {
	final := path
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, notRegular(path)
	default:
		if final, _, err = rootpath.Real(path); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(temp(final), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, besides(err, final)
	}
	if fi != nil { // it is replaced
		if now, err := f.Stat(); err == nil {
			_ = f.Chmod(now.Mode().Perm() & fi.Mode().Perm()) // where modes can be set
		}
	}
	return &File{File: f, Final: final}, nil
}

// besides words the error of opening a temporary file or a lock beside path, in words about path.
func besides(err error, path string) error {
	var p *fs.PathError
	switch dir := filepath.Dir(path); {
	case errors.Is(err, fs.ErrNotExist):
		return hinterr.With(hinterr.Errorf(fs.ErrNotExist, "no directory %s", dir), "create it first: mkdir -p %s", quote.Path(dir))
	case errors.As(err, &p):
		return &fs.PathError{Op: p.Op, Path: path, Err: p.Err}
	}
	return err
}

// notRegular is the error for a path that exists and cannot be replaced by a file.
func notRegular(path string) error {
	return hinterr.With(fmt.Errorf("%s: not a regular file", path), "name a file, or one that does not exist yet")
}

// Commit gives the file its name. Its content is on the disk before its name is.
func (p *File) Commit() error {
	if err := p.Sync(); err != nil {
		return err
	}
	if err := p.File.Close(); err != nil {
		return err
	}
	if err := os.Rename(p.Name(), p.Final); err != nil {
		return err
	}
	p.done = true
	return nil
}

// Discard removes the file if it was not committed. It is for defer.
func (p *File) Discard() {
	if !p.done {
		p.File.Close()
		os.Remove(p.Name())
	}
}

// Write writes a small file completely or not at all.
func Write(path string, data []byte) error {
	p, err := CreateNamed(path, HeldName)
	if err != nil {
		return err
	}
	defer p.Discard()
	if _, err := p.Write(data); err != nil {
		return err
	}
	return p.Commit()
}

// WriteDir calls fill to fill a directory, and names it path when it is complete. An empty directory of that
// name is replaced. The caller holds the lock on path.
func WriteDir(path string, mode fs.FileMode, fill func(temp string) error) error {
	path = filepath.Clean(path)
	temp := HeldName(path)
	if err := os.Mkdir(temp, mode); err != nil {
		return err
	}
	err := fill(temp)
	if err == nil {
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) { // os.Rename replaces no directory
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
