// Package patch patches files, directories and tarballs, in place or as a copy. All of them are examined before the first
// file is written. Then each file is replaced by itself, so that it is old or new, and a run that is repeated completes.
package patch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	// Since names a stamp: a file whose mtime says since when files must have changed to be examined. If it is missing,
	// all are. At the end it is set to when the run began; "" means no stamp.
	Since    string
	OneFS    bool // leaves out what is mounted in a directory
	Progress progress.Reporter
	Rewriter patch.Options
}

// All patches ELF files, directories (recursively) and tarballs. Exactly one of InPlace and Output, which is for a single
// path, is set, or DryRun. A copy is made by copying the path and patching the copy in place.
func All(ctx context.Context, paths []string, o Options) (*contents.Findings, error) {
	s := contents.NewSession(o.Jobs, o.Progress, o.Rewriter)
	defer s.Close()
	r := &run{s: s, o: o, out: &contents.Findings{Source: strings.Join(paths, " "), ChangedOnly: o.Since != ""}}
	began := time.Now().Add(-stampMargin)
	since, err := readStamp(o.Since, began)
	if err != nil {
		return nil, err
	}
	final, isCopy := filepath.Clean(o.Output), o.Output != "" && !o.DryRun
	temp := atomicfile.TempName(final)
	for _, name := range paths {
		if err := notAnImage(ctx, name); err != nil {
			return nil, err
		}
		at := name
		if isCopy {
			at = temp
			defer atomicfile.RemoveTree(temp)
			if err := r.copy(ctx, name, temp); err != nil {
				return nil, err
			}
		}
		d, err := contents.OpenDisk(at)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		d.Path, d.Since, d.OneFS = name, since, o.OneFS
		if err := r.examine(ctx, d); err != nil {
			return nil, err
		}
		if r.last != d { // there may be more paths than files that a process may have open
			d.Close()
		}
	}
	if o.DryRun {
		return r.out, nil
	}
	for i := range r.todo {
		if err := r.replace(&r.todo[i]); err != nil {
			return nil, err
		}
	}
	switch {
	case isCopy:
		err = os.Rename(temp, final)
	case o.Since != "":
		err = setStamp(o.Since, began)
	}
	return r.out, err
}

// run is one run of All.
type run struct {
	s    *contents.Session
	o    Options
	out  *contents.Findings
	todo []file         // to replace, in the order in which they were found
	last *contents.Disk // in which one of them was found
}

// file is a file to replace.
type file struct {
	seen    fs.FileInfo // as it was examined; nil: it is copied
	tarball bool
	names   []place
	write   func(w, r *os.File) error // makes the new content from the old one
}

// place is a name of a file in one of the paths.
type place struct {
	*contents.Disk
	name string
}

// notAnImage refuses a path that holds an image, whose files are in layers: nothing in it would be found to patch.
func notAnImage(ctx context.Context, name string) error {
	ref, err := source.ParseRef(name)
	if err != nil || ref.Guessed {
		src, err := source.OpenPath(ctx, name, source.Options{}.WithDefaults())
		if src == nil {
			return err // opening a missing path gives the error
		}
		defer src.Close()
		if src.Image == nil {
			return nil
		}
		ref = src.Ref
	}
	if ref.Transport == source.Dir {
		return hinterr.With(fmt.Errorf("%s: patch takes a path without a prefix", name), "name the directory: %s", textutil.QuotePath(ref.Name))
	}
	return hinterr.With(fmt.Errorf("%s: is an image; patch works on the files of a root filesystem", name),
		"to rebuild it: vfix rebuild %s", textutil.QuotePath(ref.String()))
}

// examine examines a directory, a file or a tarball, and notes what to replace.
func (r *run) examine(ctx context.Context, d *contents.Disk) error {
	tarball, err := source.IsTarball(d.Real())
	if err != nil {
		return err
	}
	if tarball {
		return r.tarball(ctx, d)
	}
	f, err := d.Scan(ctx, r.s)
	if err != nil {
		return err
	}
	r.out.Add(f)
	if d.Only != "" && len(f.Packed) > 0 && !r.o.DryRun {
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: an archive, in which %s calls the vsyscall page: archives are not patched", d.Path, f.Packed[0].Member),
			"unzip -d DIR %s && vfix patch -i DIR # then pack DIR again", textutil.QuotePath(d.Path))
	}
	for _, h := range f.ToPatch() {
		r.add(d, h.Names, file{seen: h.Disk, write: func(w, old *os.File) error {
			n, err := filecopy.CopySparse(w, blob.Reading{Ctx: ctx, Reader: h.Plan.Apply(old)})
			if err == nil && n != h.Plan.Size {
				err = fmt.Errorf("patched file: got %d bytes, want %d", n, h.Plan.Size)
			}
			return err
		}})
	}
	return nil
}

func (r *run) tarball(ctx context.Context, d *contents.Disk) error {
	seen, statErr := d.Root.Lstat(d.Only)
	f, err := r.s.Tarball(ctx, d.Real(), d.Path)
	if err := errors.Join(statErr, err); err != nil {
		return err
	}
	for i := range f.Files {
		f.Files[i].Path = d.Path + ":" + f.Files[i].Path
	}
	r.out.Add(f)
	if hits := f.ToPatch(); len(hits) > 0 {
		write := func(w, old *os.File) error { return contents.RewriteTarball(ctx, w, old, hits) }
		r.add(d, []string{d.Only}, file{seen: seen, tarball: true, write: write})
	}
	return nil
}

// add notes a file to replace. Two paths may name hard links of one file, or the same directory.
func (r *run) add(d *contents.Disk, names []string, f file) {
	at := slices.IndexFunc(r.todo, func(known file) bool { return os.SameFile(known.seen, f.seen) })
	if at < 0 {
		at = len(r.todo)
		r.todo = append(r.todo, f)
	}
	r.last = d
	for _, name := range names {
		r.todo[at].names = append(r.todo[at].names, place{d, name})
	}
}

func (r *run) warn(format string, args ...any) {
	r.out.Warnings = append(r.out.Warnings, fmt.Sprintf(format, args...))
}

// stampMargin is how much earlier than it began a run is remembered. The kernel's clock of files is up to a tick behind
// (ktime_get_coarse_real_ts64), and an archive that the stamp goes through may know whole seconds only.
const stampMargin = 2 * time.Second

// readStamp returns since when files must have changed; the zero time is for all files.
func readStamp(name string, began time.Time) (since time.Time, err error) {
	if name == "" {
		return since, nil
	}
	fi, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return since, nil
	case err == nil && !fi.Mode().IsRegular():
		err = hinterr.With(fmt.Errorf("%s: not a regular file", name), "--since needs a FILE of its own, which vfix creates")
	case err == nil && !fi.ModTime().After(began): // otherwise it is of another clock
		since = fi.ModTime()
	}
	return since, err
}

// setStamp remembers a run.
func setStamp(name string, began time.Time) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		err = errors.Join(f.Close(), os.Chtimes(name, began, began))
	}
	if err != nil {
		err = hinterr.With(fmt.Errorf("the files are patched, but the time of the run is not recorded: %w", err),
			"name a FILE with --since that you can write; without a time, the next run examines all files again")
	}
	return err
}
