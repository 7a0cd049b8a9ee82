package ociruntime

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/rewriter"
)

// What a file must be to be looked at.
const (
	// minELF is an ELF header and one program header, in bytes (gABI, chapters 4 and 5).
	minELF = 64 + 56
	// maxFile is the largest file that is examined, maxExec the most executable bytes of it.
	maxFile = 4 << 30
	maxExec = 1 << 30
	// maxSparse is the largest file that may consist of holes for the most part.
	maxSparse = 256 << 20
)

// fewFiles are read again faster than an index of them is written: the upper layer of most
// containers holds less.
const fewFiles = 32

// settled is how long ago a file must have changed for its identity to stand for its
// content: the clock of a file system goes by ticks of up to 10 ms, and two changes within
// one look the same.
const settled = 100 * time.Millisecond

func unsettled(id rootfs.Identity, now time.Time) bool {
	return now.Sub(time.Unix(0, id.Ctime)) < settled
}

// tree looks for files that call the page in one folder.
type tree struct {
	root  *rootfs.Root
	old   *index
	known lookup
	new   index
	// By identity: files with several names, and those that the old index knows.
	hits   map[rootfs.Identity]int // in new.Hits
	oldHit map[rootfs.Identity]*hit
	oldBad map[rootfs.Identity]*unread
	linked map[rootfs.Identity]bool // clean, of several names
	now    time.Time
	fresh  int // files that the old index did not know
}

// scanTree examines what is in a folder and not in the old index, which may be nil. changed
// says whether the index that it returns differs from the old one.
func scanTree(root *rootfs.Root, old *index) (x *index, changed bool, err error) {
	t := &tree{
		root: root, old: old, now: time.Now(),
		hits: map[rootfs.Identity]int{}, oldHit: map[rootfs.Identity]*hit{},
		oldBad: map[rootfs.Identity]*unread{}, linked: map[rootfs.Identity]bool{},
	}
	if old != nil {
		t.known.clean = old.clean
		for i := range old.Hits {
			t.oldHit[old.Hits[i].ID] = &old.Hits[i]
		}
		for i := range old.Unread {
			t.oldBad[old.Unread[i].ID] = &old.Unread[i]
		}
	}
	err = root.Walk(rootfs.Visitor{File: t.file, Passed: func(name string, err error) {
		t.new.Unread = append(t.new.Unread, unread{
			Name: []byte(name), Reason: err.Error(), passing: !errors.Is(err, unix.ENAMETOOLONG),
		})
	}})
	if err != nil {
		return nil, false, err
	}
	same := old != nil && t.fresh == 0 && len(old.clean) == len(t.new.clean) &&
		sameNames(old.Hits, t.new.Hits) && len(old.Unread) == len(t.new.Unread)
	return &t.new, !same, nil
}

func sameNames(a, b []hit) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || len(a[i].Names) != len(b[i].Names) {
			return false
		}
		for j := range a[i].Names {
			if string(a[i].Names[j]) != string(b[i].Names[j]) {
				return false
			}
		}
	}
	return true
}

// file is called for each name in the folder.
func (t *tree) file(e *rootfs.Entry) error {
	if isTemp(e.Base) {
		t.new.temps = append(t.new.temps, e.Name())
		return nil
	}
	if e.Stat.Size < minELF {
		return nil
	}
	id := rootfs.IdentityOf(&e.Stat)
	if n, ok := t.hits[id]; ok {
		t.new.Hits[n].Names = append(t.new.Hits[n].Names, []byte(e.Name()))
		return nil
	}
	if t.linked[id] {
		return nil
	}
	if h := t.oldHit[id]; h != nil {
		t.hit(hit{ID: id, SHA256: h.SHA256, Size: h.Size}, e.Name())
		return nil
	}
	if u := t.oldBad[id]; u != nil {
		t.new.Unread = append(t.new.Unread, unread{Name: []byte(e.Name()), ID: id, Reason: u.Reason})
		return nil
	}
	if t.known.has(id) {
		t.clean(id, &e.Stat)
		return nil
	}
	return t.read(id, e)
}

// read examines a file that no index knows.
func (t *tree) read(id rootfs.Identity, e *rootfs.Entry) error {
	name := e.Name()
	t.fresh++
	h, err := examine(t.root, name, id)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, rootfs.ErrNotRegular):
		// Gone, or replaced by what is no regular file.
	case err != nil:
		t.new.Unread = append(t.new.Unread, unread{
			Name: []byte(name), ID: id, Reason: err.Error(), passing: !errors.Is(err, errTooMuch),
		})
	case h != nil:
		t.hit(*h, name)
	default:
		t.clean(id, &e.Stat)
	}
	return nil
}

func (t *tree) hit(h hit, name string) {
	h.Names = [][]byte{[]byte(name)}
	t.hits[h.ID] = len(t.new.Hits)
	t.new.Hits = append(t.new.Hits, h)
}

// clean notes a file without call sites, unless it changed so lately that it might change
// again without a trace.
func (t *tree) clean(id rootfs.Identity, st *unix.Stat_t) {
	if !unsettled(id, t.now) {
		t.new.clean = appendIdentity(t.new.clean, id)
	}
	if st.Nlink > 1 {
		t.linked[id] = true
	}
}

// examine reads one file. A nil hit says that there is nothing to patch in it; an error,
// that it is an ELF file and nobody knows.
func examine(root *rootfs.Root, name string, id rootfs.Identity) (*hit, error) {
	f, err := root.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if elf, err := isELF(f); err != nil || !elf {
		return nil, err
	}
	if err := readable(f); err != nil {
		return nil, err
	}
	plan, _, err := planOf(f, f.Stat.Size)
	if err != nil || plan == nil {
		return nil, errors.Join(err, f.Unchanged())
	}
	h := &hit{ID: f.ID(), Size: plan.Size}
	if h.SHA256, err = sum(f); err != nil {
		return nil, err
	}
	if f.ID() != id {
		return nil, rootfs.ErrChanged
	}
	return h, f.Unchanged()
}

// isELF looks at the head: a 64-bit little-endian ELF file (gABI, e_ident).
func isELF(f *rootfs.File) (bool, error) {
	var b [6]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		if err == io.EOF {
			return false, nil
		}
		return false, err
	}
	return string(b[:]) == "\x7fELF\x02\x01", nil
}

// errTooMuch: a file costs more to read than any program is large.
var errTooMuch = errors.New("not examined")

// readable refuses files that cost more to read than any program is large.
func readable(f *rootfs.File) error {
	switch {
	case f.Stat.Size > maxFile:
		return fmt.Errorf("%d bytes, %w: at most %d", f.Stat.Size, errTooMuch, int64(maxFile))
	case f.Stat.Size > maxSparse && f.Sparse():
		return fmt.Errorf("%d bytes, %w: most of them are holes", f.Stat.Size, errTooMuch)
	}
	return nil
}

// planOf scans a file of size bytes; a nil plan says that there is nothing to patch.
func planOf(f io.ReaderAt, size int64) (*rewriter.Plan, *rewriter.Report, error) {
	r, err := rewriter.ScanCode(f, size, maxExec)
	if err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(r.Skipped, "executable segments") {
		return nil, r, fmt.Errorf("%w: %s", errTooMuch, r.Skipped)
	}
	patchable := false
	for i := range r.Sites {
		patchable = patchable || r.Sites[i].Verdict.Patchable()
	}
	if !patchable {
		return nil, r, nil
	}
	p, err := rewriter.NewPlan(r, rewriter.Options{})
	if err != nil || p.Empty() {
		return nil, r, err
	}
	return p, r, nil
}

func sum(f *rootfs.File) ([]byte, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, f.Stat.Size)); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// A keeper remembers the findings of folders in a store.
type keeper struct {
	store *store.Store
	maker string
}

// layer returns the findings of a folder that nobody changes: it is walked once. Whoever
// else wants it at that time, waits.
func (k *keeper) layer(dir string) (*findings, error) {
	root, err := rootfs.Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	key, err := k.key("layer", root, true)
	if err != nil {
		return nil, err
	}
	if x := k.read(key); x != nil {
		return &x.findings, nil
	}
	unlock, err := k.store.Lock("index", key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if x := k.read(key); x != nil {
		return &x.findings, nil
	}
	x, _, err := scanTree(root, nil)
	if err != nil {
		return nil, err
	}
	x.clean = nil
	if !slices.ContainsFunc(x.Unread, passing) {
		k.write(key, x)
	}
	return &x.findings, nil
}

func passing(u unread) bool { return u.passing }

// folder returns the findings of a folder that may have changed since: every file of it is
// looked at, and what is not known yet is read.
func (k *keeper) folder(root *rootfs.Root) (*findings, error) {
	key, err := k.key("tree", root, false)
	if err != nil {
		return nil, err
	}
	old := k.read(key)
	if old == nil { // one reads it all, and whoever else wants to, waits
		unlock, err := k.store.Lock("index", key)
		if err != nil {
			return nil, err
		}
		defer unlock()
		old = k.read(key)
	}
	now := time.Now()
	x, changed, err := scanTree(root, old)
	if err != nil {
		return nil, err
	}
	few := old == nil && len(x.Hits)+len(x.Unread) == 0 && len(x.clean) <= fewFiles*identitySize
	if !changed || few {
		return &x.findings, nil
	}
	keep := *x
	keep.Hits = slices.DeleteFunc(slices.Clone(x.Hits), func(h hit) bool { return unsettled(h.ID, now) })
	keep.Unread = slices.DeleteFunc(slices.Clone(x.Unread), passing)
	k.write(key, &keep)
	return &x.findings, nil
}

func (k *keeper) read(key string) *index {
	b, err := k.store.ReadIndex(key)
	if err != nil {
		return nil
	}
	x, err := parseIndex(b)
	if err != nil {
		return nil
	}
	return x
}

// write remembers an index. Where that does not work (a full disk), the next start looks for
// itself: no reason not to go on.
func (k *keeper) write(key string, x *index) {
	if b, err := x.bytes(); err == nil {
		_ = k.store.WriteIndex(key, b)
	}
}

// key names the index of a folder: by its place, its inode and when that was made; times
// says whether any change in the folder itself makes it another one.
func (k *keeper) key(kind string, root *rootfs.Root, times bool) (string, error) {
	st, err := root.Stat()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%d:%s\n%d:%d %d %d.%d\n", kind, k.maker, len(root.Path), root.Path,
		st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
	if times {
		fmt.Fprintf(h, "%d.%d %d.%d\n", st.Mtime.Sec, st.Mtime.Nsec, st.Ctime.Sec, st.Ctime.Nsec)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
