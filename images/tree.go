package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"vfix.dev/vfix/rewriter"
)

// diskFile is a regular file of a folder with all names that were met.
type diskFile struct {
	first string   // relative to the root, the name that was met first
	names []string // all names; sorted once the walk is over, and not read before
	info  fs.FileInfo
	id    fileID
	links uint64 // how many names the file system knows
	elf   *elfInfo
}

// diskTree is a folder on disk, or one file in it, while it is examined. Nothing outside of
// it is read, and no symlink is followed.
type diskTree struct {
	path string // as the user named it
	root *os.Root
	only string // the one file that is meant; "" for all
	// since leaves out of a folder what has not changed from then on; zero: nothing.
	since time.Time
	// oneFS leaves out folders on other file systems than the root's.
	oneFS bool
	// noSums leaves the contents' sums out of entries.
	noSums bool

	mu     sync.Mutex
	files  []*diskFile // with something to tell
	byID   map[fileID]*diskFile
	passed []Passed
}

// openDiskTree opens a folder, or a file's folder for that file alone. A symlink that the
// user named is followed: what it names is meant.
func openDiskTree(name string) (*diskTree, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(real)
	if err != nil {
		return nil, err
	}
	f := &diskTree{path: name, byID: map[fileID]*diskFile{}}
	if !fi.IsDir() {
		if !fi.Mode().IsRegular() {
			return nil, errorf(ErrUnsupported, "%s: neither a file nor a folder but %s", name, fi.Mode().Type())
		}
		f.only = filepath.Base(real)
		real = filepath.Dir(real)
	}
	f.root, err = os.OpenRoot(real)
	return f, err
}

func (f *diskTree) Close() { f.root.Close() }

// show is the name of a file for people: relative to a folder, as typed for a single file.
func (f *diskTree) show(name string) string {
	if f.only != "" {
		return f.path
	}
	return name
}

// pass notes a file or folder that was not examined. What has gone since its folder was read
// is no such thing.
func (f *diskTree) pass(name string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var other *notExamined
	f.passed = append(f.passed, Passed{Path: f.show(name), Reason: plainReason(err), Unread: !errors.As(err, &other)})
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

// scan examines all files, several at once.
func (f *diskTree) scan(ctx context.Context, s *session) error {
	task := startTask(s.progress, "read", f.path, -1)
	defer task.Done()
	work := make(chan *diskFile)
	var wg sync.WaitGroup
	for range s.jobs {
		wg.Go(func() {
			for d := range work {
				f.examine(s, d)
				task.Add(d.info.Size())
			}
		})
	}
	err := f.walk(ctx, func(d *diskFile) { work <- d })
	close(work)
	wg.Wait()
	return err
}

// walk finds the files and calls examine once for each inode.
func (f *diskTree) walk(ctx context.Context, examine func(*diskFile)) error {
	if f.only != "" {
		fi, err := f.root.Lstat(f.only)
		if err != nil {
			return err
		}
		examine(f.newFile(f.only, fi))
		return nil
	}
	mounts := mountFilter{root: f.root}
	var home fileID
	return fs.WalkDir(f.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			f.pass(name, err)
			return nil
		}
		if e.IsDir() && mounts.special(name) {
			return fs.SkipDir
		}
		if e.IsDir() && f.oneFS {
			fi, err := e.Info()
			if err != nil {
				f.pass(name, err)
				return fs.SkipDir
			}
			if id, _ := identify(fi); name == "." {
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
		if changeTime(fi).Before(f.since) {
			return nil
		}
		id, links := identify(fi)
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

func (f *diskTree) newFile(name string, fi fs.FileInfo) *diskFile {
	d := &diskFile{first: name, names: []string{name}, info: fi}
	d.id, d.links = identify(fi)
	if d.links > 1 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.byID[d.id] = d
	}
	return d
}

// examine looks at one file. A plan is made at once, while the file is open.
func (f *diskTree) examine(s *session, d *diskFile) {
	if err := f.examineOpen(s, d); err != nil {
		f.pass(d.first, err)
	}
	if d.elf == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = append(f.files, d)
}

func (f *diskTree) examineOpen(s *session, d *diskFile) error {
	if d.info.Size() < elfHead && f.only == "" {
		return nil
	}
	r, err := f.root.OpenFile(d.first, os.O_RDONLY|openNoBlock, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	fi, err := r.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(fi, d.info) || !fi.Mode().IsRegular() {
		return fmt.Errorf("replaced while it was read")
	}
	d.info = fi
	var head [elfHead]byte
	if n, _ := r.ReadAt(head[:], 0); !isELF(head[:n]) {
		if f.only == "" {
			return nil
		}
		// The one file that the user named: it matters why it is passed over.
		report, err := rewriter.Scan(r, fi.Size())
		if err == nil {
			err = &notExamined{report.Skipped}
			if string(head[:4]) == "\x7fELF" && !report.Damaged {
				note(s.progress, "%s: %s: it cannot call the vsyscall page", f.path, report.Skipped)
				err = nil
			}
		}
		return err
	}
	if fi.Size() > maxELF {
		return fmt.Errorf("file of %d bytes, at most %d are examined", fi.Size(), int64(maxELF))
	}
	info, err := s.examineAt(r, fi.Size(), false)
	if err != nil || info == nil {
		return err
	}
	info.content = nil // it ends with the open file
	if info.report != nil {
		if info.plan, err = rewriter.NewPlan(info.report, s.options); err != nil {
			return err
		}
	}
	d.elf = info
	return nil
}

// findings sums up what scan saw.
func (f *diskTree) findings(s *session) (*found, error) {
	out := &found{Findings: &Findings{Passed: f.passed}}
	for _, d := range f.files {
		slices.Sort(d.names)
	}
	slices.SortFunc(f.files, func(a, b *diskFile) int { return strings.Compare(a.names[0], b.names[0]) })
	for _, d := range f.files {
		ino := &inode{entry: &entry{kind: kindFile, name: d.names[0], size: d.info.Size(), elf: d.elf}}
		if err := s.judge(out, visible{inode: ino, names: d.names, disk: d}, ""); err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(f.path, d.names[0]), err)
		}
	}
	if f.only != "" {
		for i := range out.Files {
			out.Files[i].Path = f.path
		}
		for i := range out.Passed {
			out.Passed[i].Path = f.path
		}
	}
	slices.SortFunc(out.Passed, func(a, b Passed) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}
