//go:build !linux

// The engines run on Linux; elsewhere this package only has to compile.

package install

import (
	"io/fs"
	"os"

	"vfix.dev/vfix/internal/hinterr"
)

func metaOf(_ *os.File, fi fs.FileInfo) meta {
	return meta{Mode: fi.Mode().Perm(), MTime: fi.ModTime()}
}

func (m meta) apply(f *os.File) error { return f.Chmod(m.Mode) }

func lock(*os.File) error { return hinterr.ErrUnsupported }

func owner() (uid, gid int) { return 0, 0 }
