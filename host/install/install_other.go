//go:build !linux

// The engines run on Linux; elsewhere this package only has to compile.

package install

import (
	"context"
	"io/fs"
	"os"

	"vfix.dev/vfix/internal/hinterr"
)

const labelXattr = ""

func metaOf(_ *os.File, fi fs.FileInfo) meta {
	return meta{Mode: fi.Mode().Perm(), MTime: fi.ModTime()}
}

func (m meta) apply(f *os.File) error { return f.Chmod(m.Mode) }

func lock(*os.File) error { return hinterr.ErrUnsupported }

func (c *Checked) run(context.Context) { c.problem("a container starts on Linux alone") }
