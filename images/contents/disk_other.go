//go:build !linux && !darwin

// Files on disk on other systems, for which vfix supports no inodes, owners or xattrs.

package contents

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const OpenNoBlock = 0

// FileID identifies an inode; here all are equal, as it is not known which names share one.
type FileID struct{}

// Identify returns the only FileID, with one name.
func Identify(fs.FileInfo) (FileID, uint64) { return FileID{}, 1 }

func sameFS(_, _ FileID) bool { return true }

// changeTime returns the mtime, the closest that this system has to a change time.
func changeTime(fi fs.FileInfo) time.Time { return fi.ModTime() }

// KeepTimes sets the mtime of from on name in root.
func KeepTimes(root *os.Root, name string, from *os.File) error {
	fi, err := from.Stat()
	if err != nil {
		return err
	}
	return root.Chtimes(name, fi.ModTime(), fi.ModTime())
}

// Link gives the file from in one directory the name to in another.
func Link(fromRoot *os.Root, from string, toRoot *os.Root, to string) error {
	return os.Link(filepath.Join(fromRoot.Name(), from), filepath.Join(toRoot.Name(), to))
}

// SyncDir does nothing: this system has no fsync of a directory.
func SyncDir(*os.Root, string) error { return nil }

// Special returns false: no directory of a walk is on a special file system here.
func Special(*os.Root, string) bool { return false }

// hasVerity returns false: this system has no fs-verity.
func hasVerity(*os.File) bool { return false }

// Give sets the permissions of an open file, the only metadata that this system has.
func (m *Meta) Give(to *os.File) ([]Loss, error) {
	return nil, to.Chmod(fs.FileMode(m.Mode).Perm())
}

// GiveLink does nothing: this system sets no metadata of symlinks.
func (m *Meta) GiveLink(*os.Root, string) ([]Loss, error) { return nil, nil }

// MakeNode returns the loss of the device or fifo, which this system does not have.
func (e *Entry) MakeNode(*os.Root, string) ([]Loss, error) {
	return []Loss{{Kind: "device"}}, nil
}

// DiskMeta returns the metadata of a file.
func DiskMeta(fi fs.FileInfo) Meta {
	return Meta{Mode: uint32(fi.Mode().Perm()), Mtime: fi.ModTime()}
}

// FileXattrs returns none: this system has no xattrs that vfix supports.
func FileXattrs(*os.File) (map[string]string, error) { return nil, nil }
