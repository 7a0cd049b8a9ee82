// A directory or a single file on disk: each regular file is opened and examined once.

package contents

import (
	"archive/tar"
	"bytes"
	"cmp"
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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/rewriter/patch"
)

// Disk is a directory on disk, or one file in it. It reads nothing outside of the directory and follows no
// symlink.
type Disk struct {
	// Path is what the findings put before the names of files, and of a single file its name: as the user named it, or
	// "" for names relative to the directory.
	Path string
	Root *os.Root
	Only string // the only file to read; "" for all
	// Since omits files of a directory that have not changed since then; zero: no file is omitted.
	Since time.Time
	// OneFS omits directories on other file systems than the root's.
	OneFS bool
}

// OpenDisk opens a directory, or the directory of a file for that file alone. It follows a symlink that the user
// named.
func OpenDisk(name string) (*Disk, error) {
	real, _, err := rootpath.Real(name)
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(real)
	if err != nil {
		return nil, err
	}
	d := &Disk{Path: name}
	if !fi.IsDir() {
		if !fi.Mode().IsRegular() {
			return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%s is a device, pipe or socket, not a file", name)
		}
		d.Only = filepath.Base(real)
		real = filepath.Dir(real)
	}
	d.Root, err = os.OpenRoot(real)
	return d, err
}

func (d *Disk) Close() { d.Root.Close() }

// Full returns the path of a file for messages.
func (d *Disk) Full(name string) string {
	if d.Only != "" {
		return d.Path
	}
	return filepath.Join(d.Path, filepath.FromSlash(name))
}

// Real returns the path of the directory or of the file, without symlinks.
func (d *Disk) Real() string { return filepath.Join(d.Root.Name(), d.Only) }

// Scan examines the files, several in parallel.
func (d *Disk) Scan(ctx context.Context, s *Session) (*Findings, error) {
	task := progress.Start(s.Progress, "read", cmp.Or(d.Path, d.Real()), -1)
	defer task.Done()
	w := &walk{Disk: d, s: s, task: task, linked: map[FileID]*Target{}}
	w.examiners.SetLimit(s.jobs)
	if d.Only != "" {
		w.note(d.Only, w.file(d.Root, d.Only))
	} else {
		w.note(".", w.directory(ctx, d.Root, "."))
	}
	w.examiners.Wait()
	return w.findings(), context.Cause(ctx)
}

// walk is one walk through a Disk. It opens each regular file once, by its name in its open directory.
type walk struct {
	*Disk
	s         *Session
	task      progress.Task
	home      FileID             // of the top directory
	linked    map[FileID]*Target // files with several names
	examiners errgroup.Group

	mu     sync.Mutex
	found  []*Target
	passed []Passed
}

// findings are about the files that may have call sites.
func (w *walk) findings() *Findings {
	f := &Findings{}
	for _, t := range sorted(w.found) {
		var names []string
		for _, name := range t.Names {
			names = append(names, w.Full(name))
		}
		f.judge(t, names, "")
	}
	f.Passed = append(f.Passed, w.passed...)
	slices.SortStableFunc(f.Passed, func(a, b Passed) int { return strings.Compare(a.Path, b.Path) })
	if w.Only != "" {
		f.Library = len(w.found) > 0 && w.found[0].ELF.library
	}
	return f
}

// directory walks the directory with the path name, which is in parent.
func (w *walk) directory(ctx context.Context, parent *os.Root, name string) error {
	dir, err := parent.OpenRoot(path.Base(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	id, _ := Identify(fi)
	if name == "." {
		w.home = id
	}
	if Special(f) || w.OneFS && id.dev != w.home.dev {
		return nil
	}
	all, err := f.ReadDir(-1)
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range all {
		below := path.Join(name, e.Name())
		switch {
		case ctx.Err() != nil:
			return nil
		case e.IsDir():
			w.note(below, w.directory(ctx, dir, below))
		case e.Type().IsRegular():
			w.note(below, w.file(dir, below))
		}
	}
	return err
}

// file opens a file of an open directory, and examines it in parallel.
func (w *walk) file(dir *os.Root, name string) error {
	f, err := dir.OpenFile(path.Base(name), os.O_RDONLY|OpenNoBlock, 0)
	if err != nil {
		if fi, lerr := dir.Lstat(path.Base(name)); lerr == nil && fi.Size() < elfHead {
			return nil // such as a lock file
		}
		return err
	}
	t, err := w.target(f, name)
	if t == nil {
		f.Close()
		return err
	}
	w.examiners.Go(func() error {
		defer f.Close()
		w.note(t.Name, w.examine(t.Entry, f))
		if t.ELF != nil {
			w.mu.Lock()
			w.found = append(w.found, t)
			w.mu.Unlock()
		}
		w.task.Add(t.Size)
		return nil
	})
	return nil
}

// target returns what to examine of an open file: nil if it is not a regular file any more, was found under another name
// or, in a directory, has not changed or is too small.
func (w *walk) target(f *os.File, name string) (*Target, error) {
	e, h, err := openedEntry(f)
	if err != nil {
		return nil, err
	}
	unchanged := h.ChangeTime.Before(w.Since) // a package manager sets the mtime
	omitted := w.Only == "" && (unchanged || e.Size < elfHead)
	if omitted || e.Typeflag != tar.TypeReg {
		return nil, nil
	}
	id, names := Identify(e.Disk)
	if t := w.linked[id]; t != nil {
		t.Names = append(t.Names, name)
		return nil, nil
	}
	e.Name = name
	t := &Target{Inode: &Inode{Entry: e}, Names: []string{name}}
	if names > 1 {
		w.linked[id] = t
	}
	return t, nil
}

// note records a file or directory that could not be examined; nil is no error. A file that was removed since its
// directory was read does not count.
func (w *walk) note(name string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := Passed{Path: w.Full(name), Reason: err.Error(), Denied: errors.Is(err, fs.ErrPermission), Unread: true}
	if pe, ok := err.(*fs.PathError); ok { // Passed has the path
		p.Reason = pe.Err.Error()
	}
	w.passed = append(w.passed, p)
}

// examine examines an open file.
func (w *walk) examine(e *Entry, r *os.File) error {
	var head [elfHead]byte
	n, err := r.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	if isCandidate(head[:n]) {
		if e.ELF, err = w.s.examineAt(e, r, head[:n]); err != nil {
			return err
		}
	}
	if e.ELF == nil && w.Only != "" {
		e.ELF, err = w.passedOver(r, e.Size, head[:n])
	}
	return err
}

// Script is why a script is not examined.
const Script = "a script: vfix does not see which programs it starts"

// notRead are kinds of files that vfix does not read, by their first bytes, and why. Sources: .xz file format, 2.1.1.1;
// bzip2 has "BZh" and a level.
var notRead = []struct{ magic, why string }{
	{scriptMagic, Script}, {"\xfd7zXZ\x00", "compressed with xz: not an ELF file"}, {"BZh", "compressed with bzip2: not an ELF file"},
}

// passedOver explains why the only file that the user named is not examined; a program of another kind, which cannot
// call the page, counts as examined.
func (w *walk) passedOver(r io.ReaderAt, size int64, head []byte) (*elfInfo, error) {
	for _, kind := range notRead {
		if bytes.HasPrefix(head, []byte(kind.magic)) {
			return &elfInfo{passed: kind.why}, nil
		}
	}
	report, err := patch.Scan(r, size)
	switch {
	case err != nil:
		return nil, err
	case report.Skipped == nil:
		return &elfInfo{passed: "a relocatable object, which does not run"}, nil
	case bytes.HasPrefix(head, []byte(elfMagic)) && !report.Skipped.MayCall():
		progress.Note(w.s.Progress, "%s: %s: it cannot call the vsyscall page", w.Path, report.Skipped)
		return &elfInfo{}, nil
	}
	return &elfInfo{passed: report.Skipped.String()}, nil
}

// CopyMeta copies all metadata of from except name and times to its copy, and returns it as a header. The marks of the
// old content are dropped from a changed copy. lost is the metadata that only root may set. A copy with another owner has
// no setuid, setgid and sticky bits, as with cp -p.
func CopyMeta(from, to *os.File, changed bool) (h *tar.Header, dropped, lost []string, err error) {
	e, h, err := openedEntry(from)
	if err != nil {
		return nil, nil, nil, err
	}
	if changed {
		dropped, e = e.Marks(), e.unmarked()
	}
	lost, err = e.give(to)
	return h, dropped, lost, err
}

// LosesVDSO reports whether an open program may not find the vDSO, because of its privileges.
func LosesVDSO(f *os.File) bool {
	e, _, err := openedEntry(f)
	return err == nil && e.losesVDSO()
}

// WrapPath adds the name of the file to an error.
func WrapPath(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}
