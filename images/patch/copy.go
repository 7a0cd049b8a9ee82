// The patched copy of a directory, and what is checked before any copy.

package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
)

// mayWrite reports why the output cannot be written: it must not exist, and not be in the directory that is copied.
func (p *patchRun) mayWrite(d *contents.Disk) error {
	out := p.o.Output
	_, err := os.Lstat(out)
	switch {
	case errors.Is(err, fs.ErrNotExist) && d.Only == "" && source.Inside(d.Real(), out):
		return source.ErrInside(out, d.Path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return hinterr.With(fmt.Errorf("%s: exists", out), "name one that does not exist yet, or patch PATH in place: -i")
}

// copyTree writes a patched copy of a directory to the output: cp -a copies it, then the copy is patched in place. It
// gets its name when it is complete.
func (p *patchRun) copyTree(ctx context.Context, d *contents.Disk) error {
	p.warnCopy(os.Geteuid() != 0)
	const private = 0o700 // until it has the mode of the directory
	return atomicfile.WriteDir(p.o.Output, private, func(temp string) error {
		if err := copyAll(ctx, d.Real(), temp, p.o.OneFS); err != nil {
			return err
		}
		c, err := contents.OpenDisk(temp)
		if err != nil {
			return err
		}
		defer c.Close()
		c.Path = d.Path
		if err := p.patch(ctx, c); err != nil {
			return err
		}
		return p.commit()
	})
}

// warnCopy warns about a copy that is not all that the original is.
func (p *patchRun) warnCopy(lacks bool) {
	if lacks {
		p.out.Warnings = append(p.out.Warnings, p.o.Output+": the copy is yours: owners, devices and attributes that only root may set are not kept")
	}
}

// copyAll copies what is in a directory, and its metadata, with cp (POSIX has no option for it; GNU, BusyBox and macOS
// have -a).
func copyAll(ctx context.Context, from, to string, oneFS bool) error {
	args := []string{"-a"}
	if oneFS {
		args = append(args, "-x")
	}
	cmd := exec.CommandContext(ctx, "cp", append(args, from+"/.", to)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && stderr.Len() > 0:
		first, _, _ := strings.Cut(stderr.String(), "\n")
		return errors.New(first)
	}
	return err
}
