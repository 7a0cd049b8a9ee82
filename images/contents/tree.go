// A folder or a single file on disk: finding its files and examining them.

package contents

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
	"sync"
	"time"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/rewriter"
)

// diskFile is a regular file of a folder with all names that were met.
type diskFile struct {
	first string   // relative to the root, the name that was met first
	names []string // all names; sorted once the walk is over, and not read before
	Info  fs.FileInfo
	ID    FileID
	Links uint64 // how many names the file system knows
	elf   *elfInfo
}

// DiskTree is a folder on disk, or one file in it, while it is examined. Nothing outside of
// it is read, and no symlink is followed.
type DiskTree struct {
	Path string // as the user named it
	Root *os.Root
	Only string // the one file that is meant; "" for all
	// Since leaves out of a folder what has not changed from then on; zero: nothing.
	Since time.Time
	// OneFS leaves out folders on other file systems than the root's.
	OneFS bool
	// NoSums leaves the contents' sums out of entries.
	NoSums bool

	mu     sync.Mutex
	Files  []*diskFile // with something to tell
	byID   map[FileID]*diskFile
	passed []Passed
}

// OpenDiskTree opens a folder, or a file's folder for that file alone. A symlink that the
// user named is followed: what it names is meant.
func OpenDiskTree(name string) (*DiskTree, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(real)
	if err != nil {
		return nil, err
	}
	f := &DiskTree{Path: name, byID: map[FileID]*diskFile{}}
	if !fi.IsDir() {
		if !fi.Mode().IsRegular() {
			return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%s is a %s, not a file", name, SpecialName(fi.Mode()))
		}
		f.Only = filepath.Base(real)
		real = filepath.Dir(real)
	}
	f.Root, err = os.OpenRoot(real)
	return f, err
}

func (f *DiskTree) Close() { f.Root.Close() }

// show is the name of a file for people: relative to a folder, as typed for a single file.
func (f *DiskTree) show(name string) string {
	if f.Only != "" {
		return f.Path
	}
	return name
}

// pass notes a file or folder that was not examined. What has gone since its folder was read
// is no such thing.
func (f *DiskTree) pass(name string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var other *notExamined
	f.passed = append(f.passed, Passed{Path: f.show(name), Reason: plainReason(err), Denied: errors.Is(err, fs.ErrPermission), Unread: !errors.As(err, &other)})
}

// notExamined is why a file that was read is not one to examine.
type notExamined struct{ reason string }

func (n *notExamined) Error() string { return n.reason }

// plainReason is an error without the path that Passed has already, and without the name of
// the system call.
func plainReason(err error) string {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// Scan examines all files, several at once.
func (f *DiskTree) Scan(ctx context.Context, s *Session) error {
	task := progress.Start(s.Progress, "read", f.Path, -1)
	defer task.Done()
	work := make(chan *diskFile)
	var wg sync.WaitGroup
	for range s.jobs {
		wg.Go(func() {
			for d := range work {
				f.examine(s, d)
				task.Add(d.Info.Size())
			}
		})
	}
	err := f.walk(ctx, func(d *diskFile) { work <- d })
	close(work)
	wg.Wait()
	return err
}

// walk finds the files and calls examine once for each inode.
func (f *DiskTree) walk(ctx context.Context, examine func(*diskFile)) error {
	if f.Only != "" {
		fi, err := f.Root.Lstat(f.Only)
		if err != nil {
			return err
		}
		examine(f.newFile(f.Only, fi))
		return nil
	}
	mounts := MountFilter{Root: f.Root}
	var home FileID
	return fs.WalkDir(f.Root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			f.pass(name, err)
			return nil
		}
		if e.IsDir() && mounts.Special(name) {
			return fs.SkipDir
		}
		if e.IsDir() && f.OneFS {
			fi, err := e.Info()
			if err != nil {
				f.pass(name, err)
				return fs.SkipDir
			}
			if id, _ := Identify(fi); name == "." {
				home = id
			} else if !sameFS(id, home) {
				return fs.SkipDir
			}
		}
		if !e.Type().IsRegular() {
			return nil
		}
		fi, err := e.Info()
		if err != nil {
			f.pass(name, err)
			return nil
		}
		if changeTime(fi).Before(f.Since) {
			return nil
		}
		id, links := Identify(fi)
		if links > 1 {
			f.mu.Lock()
			known := f.byID[id]
			if known != nil {
				known.names = append(known.names, name)
			}
			f.mu.Unlock()
			if known != nil {
				return nil
			}
		}
		examine(f.newFile(name, fi))
		return nil
	})
}

func (f *DiskTree) newFile(name string, fi fs.FileInfo) *diskFile {
	d := &diskFile{first: name, names: []string{name}, Info: fi}
	d.ID, d.Links = Identify(fi)
	if d.Links > 1 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.byID[d.ID] = d
	}
	return d
}

// examine looks at one file. A plan is made at once, while the file is open.
func (f *DiskTree) examine(s *Session, d *diskFile) {
	if err := f.examineOpen(s, d); err != nil {
		f.pass(d.first, err)
	}
	if d.elf == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Files = append(f.Files, d)
}

func (f *DiskTree) examineOpen(s *Session, d *diskFile) error {
	if d.Info.Size() < elfHead && f.Only == "" {
		return nil
	}
	r, err := f.Root.OpenFile(d.first, os.O_RDONLY|OpenNoBlock, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	fi, err := r.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(fi, d.Info) || !fi.Mode().IsRegular() {
		return fmt.Errorf("replaced while it was read")
	}
	d.Info = fi
	var head [elfHead]byte
	n, _ := r.ReadAt(head[:], 0)
	var info *elfInfo
	if isELF(head[:n]) {
		if fi.Size() > MaxELF {
			return fmt.Errorf("file of %d bytes, at most %d are examined", fi.Size(), int64(MaxELF))
		}
		if info, err = s.examineAt(d.first, r, fi.Size(), false); err != nil {
			return err
		}
	}
	var members []io.Closer
	defer func() {
		for _, m := range members {
			m.Close()
		}
	}()
	if info == nil && f.Only != "" {
		if info, err = f.thin(r, fi.Size(), &members); err != nil {
			return err
		}
	}
	if info == nil && f.Only != "" {
		return f.passedOver(s, r, fi.Size(), string(head[:4]) == "\x7fELF")
	}
	if info == nil {
		return nil
	}
	info.Content = nil // it ends with the open file
	if info.report != nil {
		if info.plan, err = rewriter.NewPlan(info.report, s.Options); err != nil {
			return err
		}
	}
	d.elf = info
	return nil
}

// thinMember is an object of a thin archive.
type thinMember struct {
	*os.File
	size int64
}

func (m *thinMember) Size() int64 { return m.size }

// thin examines a thin archive that the user named, nil where it is none: its objects are files
// beside it or below. Those with call sites are kept open until a plan is made.
func (f *DiskTree) thin(r io.ReaderAt, size int64, kept *[]io.Closer) (*elfInfo, error) {
	report, err := rewriter.ScanThin(r, size, func(name string) (rewriter.ThinMember, error) {
		m, err := f.Root.OpenFile(name, os.O_RDONLY|OpenNoBlock, 0)
		if err != nil {
			return nil, errors.New(plainReason(err))
		}
		*kept = append(*kept, m)
		fi, err := m.Stat()
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > MaxELF {
			return nil, errors.New("no file that can be examined")
		}
		return &thinMember{m, fi.Size()}, nil
	})
	if err != nil || report == nil || report.Skipped != nil && !report.Skipped.Damaged() {
		return nil, err
	}
	if report.Skipped.Damaged() {
		return nil, &notExamined{report.Skipped.String()}
	}
	info := &elfInfo{execBytes: report.ExecBytes}
	if len(report.Sites) > 0 {
		info.report = report
	}
	return info, nil
}

// passedOver is about the one file that the user named: it matters why it is not examined.
func (f *DiskTree) passedOver(s *Session, r io.ReaderAt, size int64, elf bool) error {
	report, err := rewriter.Scan(r, size)
	if err != nil {
		return err
	}
	if elf && !report.Skipped.Damaged() {
		progress.Note(s.Progress, "%s: %s: it cannot call the vsyscall page", f.Path, report.Skipped)
		return nil
	}
	return &notExamined{report.Skipped.String()}
}

// Findings sums up what scan saw.
func (f *DiskTree) Findings(s *Session) (*Scanned, error) {
	out := &Scanned{Findings: &Findings{Passed: f.passed}}
	for _, d := range f.Files {
		slices.Sort(d.names)
	}
	slices.SortFunc(f.Files, func(a, b *diskFile) int { return strings.Compare(a.names[0], b.names[0]) })
	for _, d := range f.Files {
		ino := &Inode{Entry: &Entry{Kind: KindFile, Name: d.names[0], Size: d.Info.Size(), ELF: d.elf}}
		if err := s.judge(out, visible{Inode: ino, Names: d.names, Disk: d}, ""); err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(f.Path, d.names[0]), err)
		}
	}
	if f.Only != "" {
		for i := range out.Files {
			out.Files[i].Path = f.Path
		}
		for i := range out.Passed {
			out.Passed[i].Path = f.Path
		}
		for i := range out.Hazards {
			out.Hazards[i].Path = f.Path
		}
	}
	slices.SortFunc(out.Passed, func(a, b Passed) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// Full is the path of a file of the tree, as the user would type it.
func (f *DiskTree) Full(name string) string {
	if f.Only != "" {
		return f.Path
	}
	return filepath.Join(f.Path, filepath.FromSlash(name))
}

// WrapPath names the file that an error is about.
func WrapPath(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// ChangeTime is when a file's content or metadata last changed, as far as the system says.
func ChangeTime(fi fs.FileInfo) time.Time { return changeTime(fi) }

// SpecialName is what is at a path that is no file and no directory.
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
