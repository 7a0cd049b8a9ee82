// A directory or a single file on disk, as a source of a tree.

package contents

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
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

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/rewriter/patch"
)

// Disk is a directory on disk, or one file in it. It reads nothing outside of the directory and follows no
// symlink.
type Disk struct {
	Path string // as the user named it
	// Title is Path for messages, "" if it is the same.
	Title string
	Root  *os.Root
	Only  string // the only file to read; "" for all
	// Since omits files of a directory that have not changed since then; zero: no file is omitted.
	Since time.Time
	// OneFS omits directories on other file systems than the root's.
	OneFS bool
	// Whole puts every file into the tree with all its metadata, as a copy needs them; an unreadable file is then
	// an error. Otherwise the tree has the files that were examined, and notes on unreadable ones.
	Whole bool
	// Unexamined reads files without examining them.
	Unexamined bool

	home FileID // of the root

	mu      sync.Mutex
	entries []*Entry
	passed  []Passed
}

// DiskFile is the file system's information about a regular file.
type DiskFile struct {
	Info  fs.FileInfo
	ID    FileID
	Links uint64 // the number of the file's names

	// elsewhere reports that the directory is on another file system than the root. The file's own device does not
	// show this: overlayfs reports that of a lower layer (Documentation/filesystems/overlayfs.rst, "Inode
	// properties").
	elsewhere bool
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
			return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%s is a %s, not a file", name, SpecialName(fi.Mode()))
		}
		d.Only = filepath.Base(real)
		real = filepath.Dir(real)
	}
	d.Root, err = os.OpenRoot(real)
	return d, err
}

func (d *Disk) Close() { d.Root.Close() }

// oneFile is the name of a single file in a whole tree, so that trees of files with different names can be
// compared.
const oneFile = "file"

// Name returns the name in Root of a file of the tree.
func (d *Disk) Name(name string) string {
	if d.Only != "" {
		return d.Only
	}
	return filepath.FromSlash(name)
}

// Full returns the path of a file of the tree as the user would type it.
func (d *Disk) Full(name string) string {
	if d.Only != "" {
		return d.Path
	}
	return filepath.Join(d.Path, filepath.FromSlash(name))
}

// Tree reads the file system, several files in parallel.
func (d *Disk) Tree(ctx context.Context, s *Session) (*Tree, error) {
	task := progress.Start(s.Progress, "read", cmp.Or(d.Title, d.Path), -1)
	defer task.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan *Entry)
	var wg sync.WaitGroup
	for range s.jobs {
		wg.Go(func() {
			for e := range work {
				if err := d.regular(ctx, s, e); err != nil {
					cancel(err)
				}
				task.Add(e.Size)
			}
		})
	}
	links := map[*Entry]*Entry{} // other names of a file, by the entry of its first name
	err := d.walk(ctx, s, links, func(e *Entry) { work <- e })
	close(work)
	wg.Wait()
	if err := cmp.Or(err, context.Cause(ctx)); err != nil {
		return nil, err
	}
	for e, first := range links {
		if e.Meta = first.Meta; !d.Whole && first.ELF != nil {
			d.entries = append(d.entries, e)
		}
	}
	if !d.Whole { // in the order of examination; a link comes after its file
		slices.SortFunc(d.entries, func(a, b *Entry) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
		})
	}
	idx := &layerIndex{Title: d.Path, Entries: d.entries}
	for n, e := range d.entries {
		e.Number = uint32(n + 1)
	}
	t := NewTree()
	t.spool, t.disk = &s.spool, d
	if err := t.Apply(idx, d); err != nil {
		return nil, err
	}
	return t, nil
}

// findings adds the paths that could not be examined, a single file by the name that the user typed.
func (d *Disk) findings(f *Findings) {
	f.Passed = append(f.Passed, d.passed...)
	slices.SortFunc(f.Passed, func(a, b Passed) int { return strings.Compare(a.Path, b.Path) })
	if d.Only != "" {
		f.Rename(func(string) string { return d.Path })
	}
}

// walk finds the files and calls examine once for each regular file.
func (d *Disk) walk(ctx context.Context, s *Session, links map[*Entry]*Entry, examine func(*Entry)) error {
	if d.Only != "" {
		fi, err := d.Root.Lstat(d.Only)
		if err != nil {
			return err
		}
		name := d.Only
		if d.Whole {
			name = oneFile
		}
		examine(d.add(name, fi))
		return nil
	}
	first := map[FileID]*Entry{} // of files with several names
	elsewhere := map[string]bool{}
	return fs.WalkDir(d.Root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return d.pass(name, err)
		}
		special := e.IsDir() && Special(d.Root, name)
		if special && !d.Whole {
			return fs.SkipDir
		}
		if !d.Whole && !e.Type().IsRegular() && !e.IsDir() {
			return nil
		}
		fi, err := e.Info()
		if err != nil {
			return d.pass(name, err)
		}
		id, names := Identify(fi)
		switch {
		case name == ".":
			d.home = id
		case e.IsDir() && d.OneFS && !sameFS(id, d.home):
			if !d.Whole {
				return fs.SkipDir
			}
			elsewhere[name] = true
		case e.Type()&fs.ModeSocket != 0:
			progress.Note(s.Progress, "%s: a socket is not copied", name)
			return nil
		}
		if !d.Whole && (e.IsDir() || changeTime(fi).Before(d.Since)) {
			return nil
		}
		known := first[id]
		n := d.add(filepath.ToSlash(name), fi)
		switch {
		case e.IsDir():
			err = d.directory(n, name)
		case names > 1 && known != nil:
			n.Kind, n.Link, links[n] = kindHardLink, known.Name, known
		case e.Type().IsRegular():
			n.Disk.elsewhere = elsewhere[path.Dir(name)]
			examine(n)
		case e.Type()&fs.ModeSymlink != 0:
			n.Link, err = d.Root.Readlink(name)
		}
		if names > 1 && known == nil {
			first[id] = n
		}
		if err == nil && special {
			err = fs.SkipDir
		}
		return err
	})
}

// add lists a file, without opening it.
func (d *Disk) add(name string, fi fs.FileInfo) *Entry {
	e := &Entry{Name: name, Meta: DiskMeta(fi)}
	switch t := fi.Mode().Type(); {
	case t.IsDir():
		e.Kind = KindDir
	case t&fs.ModeSymlink != 0:
		e.Kind = KindSymlink
	case !t.IsRegular():
		e.Kind, e.Flag = KindOther, deviceFlag(t)
	default:
		e.Kind, e.Size, e.Disk = KindFile, fi.Size(), &DiskFile{Info: fi}
		e.Disk.ID, e.Disk.Links = Identify(fi)
	}
	if name == "." {
		e.Name = ""
	}
	if d.Whole {
		d.entries = append(d.entries, e)
	}
	return e
}

// pass records a file or directory that could not be examined; in a whole tree it is an error. A file that was
// removed since its directory was read does not count.
func (d *Disk) pass(name string, err error) error {
	if d.Whole {
		return err
	}
	d.note(name, err)
	return nil
}

func (d *Disk) note(name string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var other *notExamined
	p := Passed{Path: name, Reason: plainReason(err), Denied: errors.Is(err, fs.ErrPermission), Unread: !errors.As(err, &other)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.passed = append(d.passed, p)
}

// notExamined is why a readable file is not examined.
type notExamined struct{ reason string }

func (n *notExamined) Error() string { return n.reason }

// plainReason returns an error without the path, which Passed has, and without the name of the system call.
func plainReason(err error) string {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// open opens a regular file of the tree, and verifies that it is the listed one.
func (d *Disk) open(e *Entry) (*os.File, error) {
	r, err := d.Root.OpenFile(d.Name(e.Name), os.O_RDONLY|OpenNoBlock, 0)
	if err != nil {
		return nil, err
	}
	fi, err := r.Stat()
	if err == nil && (!fi.Mode().IsRegular() || e.Disk != nil && !os.SameFile(fi, e.Disk.Info)) {
		err = errors.New("replaced while it was read")
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// directory reads the extended attributes of a directory.
func (d *Disk) directory(e *Entry, name string) error {
	f, err := d.Root.OpenFile(name, os.O_RDONLY|OpenNoBlock, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	e.Meta.Xattrs, err = FileXattrs(f)
	return WrapPath(d.Full(name), err)
}

// regular reads as much of a regular file as requested, and examines it.
func (d *Disk) regular(ctx context.Context, s *Session, e *Entry) error {
	if e.Size < elfHead && d.Only == "" && !d.Whole {
		return nil
	}
	r, err := d.open(e)
	if err != nil {
		return d.pass(e.Name, err)
	}
	defer r.Close()
	if e.Disk.Info, err = r.Stat(); err != nil {
		return d.pass(e.Name, err)
	}
	e.Size = e.Disk.Info.Size()
	if !d.Unexamined && !e.Disk.elsewhere {
		if e.ELF, err = d.examine(s, e, r); err != nil {
			d.note(e.Name, err)
		}
	}
	if !d.Whole {
		if e.ELF != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.entries = append(d.entries, e)
		}
		return nil
	}
	if e.Meta.Xattrs, err = FileXattrs(r); err != nil {
		return WrapPath(d.Full(e.Name), err)
	}
	if s.Sums {
		hash := sha256.New()
		if e.Size, err = blob.CopyTo(ctx, hash, r, nil); err != nil {
			return err
		}
		e.Sum = (*[sha256.Size]byte)(hash.Sum(nil))
	}
	return nil
}

// examine examines one file.
func (d *Disk) examine(s *Session, e *Entry, r *os.File) (info *elfInfo, err error) {
	var head [elfHead]byte
	n, err := r.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if isCandidate(d.Name(e.Name), head[:n]) {
		if e.Size > MaxELF {
			return nil, fmt.Errorf("file of %d bytes, at most %d are examined", e.Size, int64(MaxELF))
		}
		if info, err = s.examineAt(d.Name(e.Name), r, e.Size, head[:n], examining{programs: true}); err != nil {
			return nil, err
		}
	}
	if info == nil && d.Only != "" {
		return d.passedOver(s, r, e.Size, head[:n])
	}
	return info, nil
}

// passedOver explains why the only file that the user named is not examined; a program of another kind, which cannot
// call the page, counts as examined.
func (d *Disk) passedOver(s *Session, r io.ReaderAt, size int64, head []byte) (*elfInfo, error) {
	switch begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }; {
	case begins(scriptMagic):
		return nil, &notExamined{"a script: vfix does not see which programs it starts"}
	case begins(zipMagic):
		return nil, &notExamined{"no 64-bit x86-64 ELF file in it"}
	}
	report, err := patch.Scan(r, size)
	switch {
	case err != nil:
		return nil, err
	case report.Skipped == nil:
		return nil, &notExamined{"a relocatable object, which does not run"}
	case bytes.HasPrefix(head, []byte(elfMagic)) && !report.Skipped.MayCall():
		progress.Note(s.Progress, "%s: %s: it cannot call the vsyscall page", d.Path, report.Skipped)
		return &elfInfo{}, nil
	}
	return nil, &notExamined{report.Skipped.String()}
}

// WriteTar writes the tree of a directory, without the directory itself, as a tar stream in the order of Walk: a
// file under its first name, its other names as links. check may refuse a name.
func (t *Tree) WriteTar(ctx context.Context, w io.Writer, task progress.Task, check func(name string) error) (err error) {
	tw := tar.NewWriter(w)
	all := t.Entries()
	t.Walk(func(name string, _ *Node) {
		if err == nil {
			err = check(name)
		}
		if err == nil {
			err = WrapPath(name, t.disk.write(ctx, tw, name, all[name], task))
		}
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

func (d *Disk) write(ctx context.Context, tw *tar.Writer, name string, e *Entry, task progress.Task) error {
	if e.Kind != KindFile {
		return tw.WriteHeader(e.Header(name))
	}
	r, err := d.open(e)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := tw.WriteHeader(e.Header(name)); err != nil {
		return err
	}
	n, err := blob.CopyTo(ctx, tw, io.LimitReader(r, e.Size), task)
	if err == nil && n != e.Size {
		err = errors.New("became shorter while it was read")
	}
	return err
}

// OpenMeta returns the metadata of an open file or directory.
func OpenMeta(f *os.File) (m Meta, err error) {
	fi, err := f.Stat()
	if err != nil {
		return m, err
	}
	m = DiskMeta(fi)
	m.Xattrs, err = FileXattrs(f)
	return m, err
}

// CopyMeta copies all metadata of from except name and times to its copy. A patched copy does not get the marks of
// the old content, which it returns as dropped. lost is the metadata that only root may set. A copy with another
// owner has no setuid, setgid and sticky bits, as with cp -p.
func CopyMeta(from, to *os.File, patched bool) (dropped []string, lost []Loss, err error) {
	m, err := OpenMeta(from)
	if err != nil {
		return nil, nil, err
	}
	if patched {
		dropped, m = m.Dropped(from), *m.Unmarked()
	}
	lost, err = m.Give(to)
	return dropped, lost, err
}

// deviceFlag returns the tar type flag for a type other than file, directory and symlink.
func deviceFlag(t fs.FileMode) byte {
	switch {
	case t&fs.ModeNamedPipe != 0:
		return tar.TypeFifo
	case t&fs.ModeCharDevice != 0:
		return tar.TypeChar
	}
	return tar.TypeBlock
}

// WrapPath adds the name of the file to an error.
func WrapPath(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// SpecialName names the type of a path that is neither a file nor a directory.
func SpecialName(m fs.FileMode) string {
	switch {
	case m&fs.ModeDevice != 0:
		return "device"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	}
	return "special file"
}
