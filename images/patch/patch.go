// A run of patch: its options, and what is done for each path.

package patch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/atomicfile"
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
	// Since names a stamp: a file whose mtime says since when files must have changed to be
	// examined. If it is missing, all are. At the end it is set to when the run
	// began; "" means no stamp.
	Since string
	// OneFS leaves out what is mounted in a directory.
	OneFS    bool
	Progress progress.Reporter
	Rewriter patch.Options
}

// All patches ELF files, directories (recursively) and tarballs. Exactly one of InPlace and
// Output is set, or DryRun.
func All(ctx context.Context, paths []string, o Options) (*contents.Findings, error) {
	if o.Output != "" && len(paths) != 1 {
		return nil, fmt.Errorf("%s: one output for %d paths", o.Output, len(paths))
	}
	s := contents.NewSession(o.Jobs, o.Progress, o.Rewriter)
	defer s.Close()
	p := &patchRun{
		s: s, o: o, out: &contents.Findings{Source: strings.Join(paths, " "), ChangedOnly: o.Since != ""},
		finals: map[string]bool{}, roots: map[string]*os.Root{}, written: map[contents.FileID]*replacement{},
	}
	if err := p.run(ctx, paths); err != nil {
		return nil, err
	}
	return p.out, nil
}

// patchRun is one run of Patch.
type patchRun struct {
	s   *contents.Session
	o   Options
	out *contents.Findings
	// The files to rename once all of them are written, and which inode was already written
	// at which place: two paths may name hard links of one file, or the same directory.
	pending  []*replacement
	finals   map[string]bool
	roots    map[string]*os.Root // the directories of those, by path
	written  map[contents.FileID]*replacement
	outsides []outside
	stamp    stamp
}

// outside is a file of which not all names were in the paths given.
type outside struct {
	id    contents.FileID
	name  string
	links uint64 // names the file system knows
}

func (p *patchRun) run(ctx context.Context, paths []string) error {
	defer p.discard()
	if err := p.stamp.read(p.o.Since); err != nil {
		return err
	}
	for _, name := range paths {
		if err := p.one(ctx, name); err != nil {
			return err
		}
	}
	if err := p.commit(); err != nil {
		return err
	}
	p.dropGone()
	p.noteOutside()
	return p.stamp.set()
}

// dropGone forgets files that were not examined and no longer exist, such as a partial file that a
// killed run left and the next one removes.
func (p *patchRun) dropGone() {
	if !p.o.InPlace {
		return
	}
	p.out.Passed = slices.DeleteFunc(p.out.Passed, func(q contents.Passed) bool {
		_, err := os.Lstat(filepath.FromSlash(q.Path))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// notAnImage refuses a path that holds an image, whose files are in layers: nothing in it
// would be found to patch.
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
	tarball, err := contents.IsTarball(name)
	if err != nil {
		return err
	}
	if tarball {
		return p.tarball(ctx, name)
	}
	d, err := contents.OpenDisk(name)
	if err != nil {
		return err
	}
	defer d.Close()
	d.Since, d.OneFS = p.stamp.Since, p.o.OneFS
	if d.Only == "" && p.o.Output != "" && !p.o.DryRun {
		return p.copyTree(ctx, d)
	}
	f, err := p.scan(ctx, d)
	switch {
	case err != nil || p.o.DryRun:
		return err
	case d.Only != "" && len(f.Packed) > 0:
		archive := textutil.QuotePath(name)
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: an archive, in which %s calls the vsyscall page: archives are not patched", name, f.Packed[0].Member),
			"unzip -d DIR %s && vfix patch -i DIR, then pack DIR again", archive)
	case p.o.InPlace:
		return p.replaceAll(ctx, d, f)
	}
	return p.copyFile(ctx, d, f.Targets)
}

// scan examines a directory or a file, and adds what was found to the result.
func (p *patchRun) scan(ctx context.Context, d *contents.Disk) (*contents.Scanned, error) {
	f, err := d.Scan(ctx, p.s)
	if err != nil {
		return nil, err
	}
	if d.Only == "" {
		f.Rename(func(s string) string { return path.Join(filepath.ToSlash(d.Path), s) })
	}
	p.out.Add(f.Findings)
	return f, nil
}

// replaceAll writes the patched copies of the files beside them.
func (p *patchRun) replaceAll(ctx context.Context, d *contents.Disk, f *contents.Scanned) error {
	for _, h := range f.ToPatch() {
		if err := p.replace(ctx, d, h); err != nil {
			return fmt.Errorf("%s: %w", d.Full(h.Names[0]), err)
		}
	}
	return nil
}

func (p *patchRun) tarball(ctx context.Context, name string) error {
	t, err := p.s.Tarball(ctx, name, name)
	if err != nil {
		return err
	}
	f, err := p.s.Findings(ctx, t)
	if err != nil {
		return err
	}
	for i := range f.Files {
		f.Files[i].Path = name + ":" + f.Files[i].Path
	}
	p.out.Add(f.Findings)
	hits := f.ToPatch()
	if p.o.DryRun || p.o.InPlace && len(hits) == 0 {
		return nil
	}
	d, err := contents.OpenDisk(name)
	if err != nil {
		return err
	}
	defer d.Close()
	write := func(w, r *os.File) error { return contents.RewriteTarball(ctx, w, r, hits) }
	var dropped []string
	if p.o.InPlace {
		fi, err := d.Root.Lstat(d.Only)
		if err != nil {
			return err
		}
		if r, err := p.prepare(d.Root, d.Only, fi, write); err != nil {
			return contents.WrapPath(name, err)
		} else if r != nil {
			dropped = r.dropped
		}
	} else if dropped, err = p.writeOutput(ctx, d, len(hits) > 0, write); err != nil {
		return contents.WrapPath(name, err)
	}
	if len(dropped) > 0 {
		p.out.Warnings = append(p.out.Warnings, name+": "+contents.MarkWarning(dropped))
	}
	return nil
}

// copyFile writes the patched copy of a single file to the output.
func (p *patchRun) copyFile(ctx context.Context, d *contents.Disk, hits []contents.Target) error {
	var h *contents.Target
	if len(hits) > 0 && !hits[0].Plan.Empty() {
		h = &hits[0]
	}
	dropped, err := p.writeOutput(ctx, d, h != nil, func(w, r *os.File) error {
		var in io.Reader = r
		if h != nil {
			in = h.Plan.Apply(r)
		}
		_, err := filecopy.CopySparse(w, blob.Reading{Ctx: ctx, Reader: in})
		return err
	})
	if h != nil {
		h.WarnDropped(dropped)
	}
	return contents.WrapPath(d.Path, err)
}

// writeOutput makes the output file from the single file that d is about: write makes the
// content, and owner, mode, times and xattrs are kept, but of a changed file the marks of
// its old content.
func (p *patchRun) writeOutput(ctx context.Context, d *contents.Disk, changed bool, write func(w, r *os.File) error) (dropped []string, err error) {
	r, err := d.Root.OpenFile(d.Only, os.O_RDONLY|contents.OpenNoBlock, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	was, err := r.Stat()
	if err != nil {
		return nil, err
	}
	switch fi, err := os.Stat(p.o.Output); {
	case err != nil: // it does not exist yet
	case os.SameFile(was, fi):
		return nil, hinterr.With(fmt.Errorf("%s: input and output are the same file", p.o.Output), "patch it in place: -i")
	case fi.IsDir():
		return nil, hinterr.With(fmt.Errorf("%s: is a directory; the output for a file must be a file", p.o.Output),
			"add the file name: -o %s", filepath.Join(p.o.Output, filepath.Base(d.Only)))
	}
	out, err := atomicfile.Create(p.o.Output)
	if err != nil {
		return nil, err
	}
	defer out.Discard()
	if err := write(out.File, r); err != nil {
		return nil, err
	}
	dropped, lost, err := contents.CopyMeta(r, out.File, changed)
	if err != nil {
		return nil, err
	}
	p.warnLost(d.Path, lost)
	if err := os.Chtimes(out.Name(), was.ModTime(), was.ModTime()); err != nil {
		return nil, err
	}
	return dropped, out.Commit()
}

// warnLost warns about metadata that a copy does not have.
func (p *patchRun) warnLost(name string, lost []contents.Loss) {
	var all []string
	for _, l := range lost {
		all = append(all, l.String())
	}
	if len(all) > 0 {
		p.out.Warnings = append(p.out.Warnings, fmt.Sprintf("%s: not kept: %s (needs root)", name, strings.Join(all, ", ")))
	}
}

// stampMargin is how much earlier than it began a run is remembered. The kernel's clock of
// files is up to a tick behind (ktime_get_coarse_real_ts64), and an archive that the stamp
// goes through may know whole seconds only.
const stampMargin = 2 * time.Second

// stamp is the file by which a run of patch knows what an earlier one has seen.
type stamp struct {
	path  string // "" for none
	began time.Time
	Since time.Time // zero: everything
}

// read finds out since when files must have changed.
func (s *stamp) read(path string) error {
	s.path, s.began = path, time.Now().Add(-stampMargin)
	if path == "" {
		return nil
	}
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file", path)
	}
	if s.Since = fi.ModTime(); s.Since.After(s.began) {
		s.Since = time.Time{} // of another clock
	}
	return nil
}

// set remembers this run.
func (s *stamp) set() error {
	if s.path == "" {
		return nil
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Chtimes(s.path, s.began, s.began)
}
