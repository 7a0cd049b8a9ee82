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
	Path string // as the user named it
	Root *os.Root
	Only string // the only file to read; "" for all
	// Since omits files of a directory that have not changed since then; zero: no file is omitted.
	Since time.Time
	// OneFS omits directories on other file systems than the root's.
	OneFS bool

	mu     sync.Mutex
	passed []Passed
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

// Full returns the path of a file as the user would type it.
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
	task := progress.Start(s.Progress, "read", d.Path, -1)
	defer task.Done()
	var g errgroup.Group
	g.SetLimit(s.jobs)
	var found []*Target
	err := d.walk(ctx, func(t *Target) {
		g.Go(func() error {
			err := d.file(s, t.Entry)
			d.mu.Lock()
			defer d.mu.Unlock()
			if err != nil {
				d.note(t.Name, err)
			}
			if t.ELF != nil {
				found = append(found, t)
			}
			task.Add(t.Size)
			return nil
		})
	})
	g.Wait()
	if err := cmp.Or(err, context.Cause(ctx)); err != nil {
		return nil, err
	}
	return d.findings(found), nil
}

// findings are about the files that may have call sites. A single file has the name that the user typed.
func (d *Disk) findings(found []*Target) *Findings {
	var files []Target
	for _, t := range found {
		files = append(files, *t)
	}
	f := &Findings{}
	for _, t := range sorted(files) {
		f.judge(t, "")
	}
	f.Passed = append(f.Passed, d.passed...)
	slices.SortStableFunc(f.Passed, func(a, b Passed) int { return strings.Compare(a.Path, b.Path) })
	if d.Only != "" {
		f.Library = len(files) > 0 && files[0].ELF.library
		f.Rename(d.Full)
	}
	return f
}

// walk finds the regular files, and calls begin once for each.
func (d *Disk) walk(ctx context.Context, begin func(*Target)) error {
	linked := map[FileID]*Target{} // files with several names
	visit := func(name string, fi fs.FileInfo) error {
		h, err := statHeader(fi)
		if err != nil || d.Only == "" && h.ChangeTime.Before(d.Since) { // a package manager sets the mtime
			return err
		}
		id, names := Identify(fi)
		if t := linked[id]; t != nil {
			t.Names = append(t.Names, name)
			return nil
		}
		t := &Target{Inode: &Inode{Entry: &Entry{Header: cleaned(h, name), Disk: fi}}, Names: []string{name}}
		if names > 1 {
			linked[id] = t
		}
		begin(t)
		return nil
	}
	if d.Only != "" {
		fi, err := d.Root.Lstat(d.Only)
		if err == nil {
			err = visit(d.Only, fi)
		}
		return err
	}
	var home FileID
	return fs.WalkDir(d.Root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil && !e.Type().IsRegular() && !e.IsDir() {
			return nil
		}
		var fi fs.FileInfo
		if err == nil {
			fi, err = e.Info()
		}
		switch {
		case err != nil:
		case e.IsDir():
			id, _ := Identify(fi)
			if name == "." {
				home = id
			}
			if Special(d.Root, name) || d.OneFS && id.dev != home.dev {
				return fs.SkipDir
			}
		case fi.Size() >= elfHead:
			err = visit(filepath.ToSlash(name), fi)
		}
		if err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.note(name, err)
		}
		return nil
	})
}

// note records, under the lock, a file or directory that could not be examined. A file that was removed since its directory was read does
// not count.
func (d *Disk) note(name string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	p := Passed{Path: name, Reason: err.Error(), Denied: errors.Is(err, fs.ErrPermission), Unread: true}
	if pe, ok := err.(*fs.PathError); ok { // Passed has the path
		p.Reason = pe.Err.Error()
	}
	d.passed = append(d.passed, p)
}

// file opens a file, if it is still the listed one, and examines it.
func (d *Disk) file(s *Session, e *Entry) error {
	r, err := d.Root.OpenFile(filepath.FromSlash(e.Name), os.O_RDONLY|OpenNoBlock, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	fi, err := r.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() || !os.SameFile(fi, e.Disk) {
		return errors.New("replaced while it was read")
	}
	e.Disk, e.Size = fi, fi.Size()
	var head [elfHead]byte
	n, err := r.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	if isCandidate(e.Name, head[:n]) {
		if e.Size > MaxELF {
			return fmt.Errorf("file of %d bytes, at most %d are examined", e.Size, int64(MaxELF))
		}
		if err = e.readXattrs(r); err != nil {
			return err
		}
		if e.ELF, err = s.examineAt(e, r, head[:n], false); err != nil {
			return err
		}
	}
	if e.ELF == nil && d.Only != "" {
		e.ELF, err = d.passedOver(s, r, e.Size, head[:n])
	}
	return err
}

// passedOver explains why the only file that the user named is not examined; a program of another kind, which cannot
// call the page, counts as examined.
func (d *Disk) passedOver(s *Session, r io.ReaderAt, size int64, head []byte) (*elfInfo, error) {
	switch begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }; {
	case begins(scriptMagic):
		return &elfInfo{passed: "a script: vfix does not see which programs it starts"}, nil
	case begins(zipMagic):
		return &elfInfo{passed: "no 64-bit x86-64 ELF file in it"}, nil
	}
	report, err := patch.Scan(r, size)
	switch {
	case err != nil:
		return nil, err
	case report.Skipped == nil:
		return &elfInfo{passed: "a relocatable object, which does not run"}, nil
	case bytes.HasPrefix(head, []byte(elfMagic)) && !report.Skipped.MayCall():
		progress.Note(s.Progress, "%s: %s: it cannot call the vsyscall page", d.Path, report.Skipped)
		return &elfInfo{}, nil
	}
	return &elfInfo{passed: report.Skipped.String()}, nil
}

// CopyMeta copies all metadata of from except name and times to its copy, and returns it as a header. A changed copy does
// not get the marks of the old content: they are dropped. lost is the metadata that only root may set. A copy with
// another owner has no setuid, setgid and sticky bits, as with cp -p.
func CopyMeta(from, to *os.File, changed bool) (h *tar.Header, dropped []string, lost []Loss, err error) {
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
