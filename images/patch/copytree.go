// The patched copy of a whole directory.

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

// copyTree writes a patched copy of the directory to the output, which must not exist: cp -a copies it, then the copy is
// patched in place. It gets its name when it is complete.
func (p *patchRun) copyTree(ctx context.Context, d *contents.Disk) error {
	out := p.o.Output
	if _, err := os.Lstat(out); err == nil {
		return hinterr.With(fmt.Errorf("%s: exists", out), "name a directory that does not exist yet")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if source.Inside(d.Root.Name(), out) {
		return source.ErrInside(out, d.Path)
	}
	if os.Geteuid() != 0 {
		p.out.Warnings = append(p.out.Warnings, out+": the copy is yours: owners, devices and attributes that only root may set are not kept")
	}
	const private = 0o700 // until it has the mode of the directory
	return atomicfile.WriteDir(out, private, func(temp string) error {
		if err := copyAll(ctx, d.Root.Name(), temp, p.o.OneFS); err != nil {
			return err
		}
		c, err := contents.OpenDisk(temp)
		if err != nil {
			return err
		}
		defer c.Close()
		c.Path = d.Path
		if err := p.inDirectory(ctx, c); err != nil {
			return err
		}
		return p.commit()
	})
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
