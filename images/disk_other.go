//go:build !linux && !darwin

package images

import (
	"io/fs"
	"os"
	"time"
)

const openNoBlock = 0

// fileID names an inode: nothing here says which names share one.
type fileID struct{}

func identify(fs.FileInfo) (fileID, uint64) { return fileID{}, 1 }

func sameFS(_, _ fileID) bool { return true }

// changeTime is the nearest that this system has to when a file last changed.
func changeTime(fi fs.FileInfo) time.Time { return fi.ModTime() }

// copyPatchedMeta is copyMeta: no xattrs are known here.
func copyPatchedMeta(from, to *os.File) ([]string, error) { return nil, copyMeta(from, to) }

// copyOwnMeta and copyOwnPatchedMeta lose nothing that this system knows.
func copyOwnMeta(from, to *os.File) ([]string, error) { return nil, copyMeta(from, to) }

func copyOwnPatchedMeta(from, to *os.File) (dropped, lost []string, err error) {
	return nil, nil, copyMeta(from, to)
}

// copyMeta keeps what this system has of a file's mode.
func copyMeta(from, to *os.File) error {
	fi, err := from.Stat()
	if err != nil {
		return err
	}
	return to.Chmod(fi.Mode().Perm())
}

func keepTimes(root *os.Root, name string, from *os.File) error {
	fi, err := from.Stat()
	if err != nil {
		return err
	}
	return root.Chtimes(name, fi.ModTime(), fi.ModTime())
}

func syncFolder(*os.Root, string) error { return nil }

// mountFilter knows which folders of a walk are special file systems: none here.
type mountFilter struct{ root *os.Root }

func (mountFilter) special(string) bool { return false }

func copyNode(_ *os.Root, name string, fi fs.FileInfo) error {
	return errorf(ErrUnsupported, "neither a file nor a folder but %s", fi.Mode().Type())
}

func copyLinkMeta(_, _ *os.Root, _ string, _ fs.FileInfo) error { return nil }

// diskMeta is the metadata of a file.
func diskMeta(fi fs.FileInfo) meta {
	return meta{mode: int64(fi.Mode().Perm()), mtime: fi.ModTime()}
}

func fileXattrs(*os.File) (map[string]string, error) { return nil, nil }
