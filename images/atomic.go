package images

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// tempPrefix begins the name of every temporary file and folder.
const tempPrefix = ".vfix-"

// tempName gives a name beside path that is not in use.
func tempName(path string) string {
	var b [8]byte
	rand.Read(b[:]) // never errs (crypto/rand, since Go 1.24)
	return filepath.Join(filepath.Dir(path), tempPrefix+hex.EncodeToString(b[:]))
}

// pendingFile is a file that gets its name when it is whole.
type pendingFile struct {
	*os.File
	final string
	done  bool
}

// createPending begins a file that is to be called path: a temporary one in the same folder,
// with the mode the umask gives. What path names must be missing or a regular file; a
// symlink is followed, so that what it names is replaced and not the link.
func createPending(path string) (*pendingFile, error) {
	return createNamed(path, tempName)
}

// createHeld is createPending for one who has the lock on path: what is left of the file, if
// this run is killed, is removed by the next one that gets it.
func createHeld(path string) (*pendingFile, error) {
	return createNamed(path, heldName)
}

// createNamed is createPending with the name that temp makes of the file's own, beside it.
func createNamed(path string, temp func(string) string) (*pendingFile, error) {
	final := path
	switch fi, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	default:
		if final, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(temp(final), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return &pendingFile{File: f, final: final}, nil
}

// commit gives the file its name. Its content is on the disk before its name is.
func (p *pendingFile) commit() error {
	if err := p.Sync(); err != nil {
		return err
	}
	if err := p.File.Close(); err != nil {
		return err
	}
	if err := os.Rename(p.Name(), p.final); err != nil {
		return err
	}
	p.done = true
	return nil
}

// discard removes the file if it was not committed. It is for defer.
func (p *pendingFile) discard() {
	if !p.done {
		p.File.Close()
		os.Remove(p.Name())
	}
}

// writeAtomic writes a small file whole or not at all.
func writeAtomic(path string, data []byte) error {
	p, err := createPending(path)
	if err != nil {
		return err
	}
	defer p.discard()
	if _, err := p.Write(data); err != nil {
		return err
	}
	return p.commit()
}
