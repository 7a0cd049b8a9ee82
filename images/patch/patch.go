// Package patch patches files, directories and tarballs, in place or as a copy.
package patch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/textutil"
	"vfix.dev/vfix/rewriter/patch"
)

// Options are the choices of vfix patch.
type Options struct {
	Jobs    int
	InPlace bool   // -i
	Output  string // -o: where the patched copy goes
	DryRun  bool
	// Since names a stamp: a file whose mtime says since when files must have changed to be examined. If it is missing,
	// all are. At the end it is set to when the run began; "" means no stamp.
	Since string
	// OneFS leaves out what is mounted in a directory.
	OneFS    bool
	Progress progress.Reporter
	Rewriter patch.Options
}

// All patches ELF files, directories (recursively) and tarballs. Exactly one of InPlace and Output, which is for a single
// path, is set, or DryRun.
func All(ctx context.Context, paths []string, o Options) (_ *contents.Findings, err error) {
	s := contents.NewSession(o.Jobs, o.Progress, o.Rewriter)
	defer s.Close()
	p := &patchRun{
		s: s, o: o, out: &contents.Findings{Source: strings.Join(paths, " "), ChangedOnly: o.Since != ""},
		finals: map[string]bool{}, dirs: map[string]*directory{}, written: map[contents.FileID]*replacement{},
	}
	defer p.discard()
	began := time.Now().Add(-stampMargin)
	if o.Since != "" {
		if p.since, err = readStamp(o.Since, began); err != nil {
			return nil, err
		}
	}
	for _, name := range paths {
		if err := p.one(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := p.commit(); err != nil {
		return nil, err
	}
	p.noteOutside()
	if o.Since == "" {
		return p.out, nil
	}
	if err := setStamp(o.Since, began); err != nil {
		return nil, hinterr.With(fmt.Errorf("the files are patched, but the time of the run is not recorded in %s: %w", o.Since, cmp.Or(errors.Unwrap(err), err)),
			"name a FILE with --since that you can write; without a time, the next run examines all files again")
	}
	return p.out, nil
}

// patchRun is one run of All.
type patchRun struct {
	s     *contents.Session
	o     Options
	out   *contents.Findings
	since time.Time
	// The files to rename once all of them are written, and which inode was already written at which place: two paths
	// may name hard links of one file, or the same directory.
	pending []*replacement
	finals  map[string]bool
	dirs    map[string]*directory // of those, by path
	written map[contents.FileID]*replacement
}

// notAnImage refuses a path that holds an image, whose files are in layers: nothing in it would be found to patch.
func notAnImage(ctx context.Context, name string) error {
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		if ref, err := source.ParseRef(name); err == nil && !ref.Guessed {
			return hinterr.With(fmt.Errorf("%s: patch takes paths of files and directories", name), "to rebuild an image: vfix rebuild %s", textutil.QuotePath(name))
		}
		return nil // opening it gives the error
	}
	src, err := source.OpenPath(ctx, name, source.Options{}.WithDefaults())
	if err != nil || src == nil {
		return err
	}
	defer src.Close()
	if src.Image == nil {
		return nil
	}
	return hinterr.With(fmt.Errorf("%s: is an image; patch works on the files of a root filesystem", name), "to rebuild it: vfix rebuild %s", textutil.QuotePath(src.Ref.String()))
}

func (p *patchRun) one(ctx context.Context, name string) error {
	if err := notAnImage(ctx, name); err != nil {
		return err
	}
	d, err := contents.OpenDisk(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if p.o.Output != "" && !p.o.DryRun {
		if err := p.mayWrite(d); err != nil {
			return err
		}
		if d.Only == "" {
			return p.copyTree(ctx, d)
		}
	}
	d.Since, d.OneFS = p.since, p.o.OneFS
	return p.patch(ctx, d)
}

// patch examines a directory or a file and, except in a dry run, writes the patched copies: beside the files or, of a
// file, to the output.
func (p *patchRun) patch(ctx context.Context, d *contents.Disk) error {
	tarball, err := source.IsTarball(d.Real())
	if err != nil {
		return err
	}
	if tarball {
		return p.tarball(ctx, d)
	}
	d.FullNames = true
	f, err := d.Scan(ctx, p.s)
	if err != nil {
		return err
	}
	p.out.Add(f)
	hits := f.ToPatch()
	switch {
	case p.o.DryRun:
		return nil
	case d.Only != "" && len(f.Packed) > 0:
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: an archive, in which %s calls the vsyscall page: archives are not patched", d.Path, f.Packed[0].Member),
			"unzip -d DIR %s && vfix patch -i DIR # then pack DIR again", textutil.QuotePath(d.Path))
	case d.Only != "" && len(hits) == 0 && !p.o.InPlace:
		_, err := p.prepare(d, d.Only, nil, false, func(w, r *os.File) error {
			_, err := filecopy.CopySparse(w, blob.Reading{Ctx: ctx, Reader: r})
			return err
		})
		return err
	}
	for _, h := range hits {
		if err := p.replace(ctx, d, h); err != nil {
			return err
		}
	}
	return nil
}

func (p *patchRun) tarball(ctx context.Context, d *contents.Disk) error {
	f, err := p.s.Tarball(ctx, d.Real(), d.Path)
	if err != nil {
		return err
	}
	for i := range f.Files {
		f.Files[i].Path = d.Path + ":" + f.Files[i].Path
	}
	p.out.Add(f)
	hits := f.ToPatch()
	if p.o.DryRun || p.o.InPlace && len(hits) == 0 {
		return nil
	}
	r, err := p.prepare(d, d.Only, nil, len(hits) > 0, func(w, r *os.File) error { return contents.RewriteTarball(ctx, w, r, hits) })
	if r != nil && len(r.dropped) > 0 {
		p.out.Warnings = append(p.out.Warnings, d.Path+": "+contents.MarkWarning(r.dropped))
	}
	return err
}

// stampMargin is how much earlier than it began a run is remembered. The kernel's clock of files is up to a tick behind
// (ktime_get_coarse_real_ts64), and an archive that the stamp goes through may know whole seconds only.
const stampMargin = 2 * time.Second

// readStamp returns since when files must have changed; the zero time is for all files.
func readStamp(name string, began time.Time) (since time.Time, err error) {
	fi, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return since, nil
	case err != nil:
		return since, err
	case !fi.Mode().IsRegular():
		return since, hinterr.With(fmt.Errorf("%s: not a regular file", name), "--since needs a FILE of its own, which vfix creates")
	case fi.ModTime().After(began): // of another clock
		return since, nil
	}
	return fi.ModTime(), nil
}

// setStamp remembers a run.
func setStamp(name string, began time.Time) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Chtimes(name, began, began)
}
