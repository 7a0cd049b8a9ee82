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

func Identify(fs.FileInfo) (FileID, uint64) { return FileID{}, 1 }

func sameFS(_, _ FileID) bool { return true }

// changeTime returns the mtime, the closest that this system has to a change time.
func changeTime(fi fs.FileInfo) time.Time { return fi.ModTime() }

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

func SyncFolder(*os.Root, string) error { return nil }

// Special returns false: no directory of a walk is on a special file system here.
func Special(*os.Root, string) bool { return false }

// hasVerity returns false: this system has no fs-verity.
func hasVerity(*os.File) bool { return false }

// Give, GiveLink and MakeNode set the metadata that this system has: the permissions.
func (m *Meta) Give(to *os.File) ([]Loss, error) {
	return nil, to.Chmod(fs.FileMode(m.Mode).Perm())
}

func (m *Meta) GiveLink(*os.Root, string) ([]Loss, error) { return nil, nil }

func (e *Entry) MakeNode(*os.Root, string) ([]Loss, error) {
	return []Loss{{Kind: "device"}}, nil
}

// DiskMeta returns the metadata of a file.
func DiskMeta(fi fs.FileInfo) Meta {
	return Meta{Mode: uint32(fi.Mode().Perm()), Mtime: fi.ModTime()}
}

func FileXattrs(*os.File) (map[string]string, error) { return nil, nil }
