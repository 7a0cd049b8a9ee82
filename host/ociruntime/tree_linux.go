// The scan of one folder for files that call the page, with what an earlier index knows.

package ociruntime

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/host/rootfs"
)

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
	spend *budget
	by    *examiner.Examiner
	known lookup
	new   index
	// By identity: files with several names, and those that the old index knows.
	legacy    map[rootfs.Identity]int // in new.Legacy
	oldLegacy map[rootfs.Identity]*legacyFile
	oldBad    map[rootfs.Identity]*unread
	linked    map[rootfs.Identity]bool // clean, of several names
	now       time.Time
	fresh     int // files that the old index did not know
}

// scanTree examines what is in a folder and not in the old index, which may be nil. changed
// says whether the index that it returns differs from the old one.
func scanTree(root *rootfs.Root, old *index, spend *budget, by *examiner.Examiner) (x *index, changed bool, err error) {
	t := &tree{
		root: root, old: old, spend: spend, by: by, now: time.Now(),
		legacy: map[rootfs.Identity]int{}, oldLegacy: map[rootfs.Identity]*legacyFile{},
		oldBad: map[rootfs.Identity]*unread{}, linked: map[rootfs.Identity]bool{},
	}
	if old != nil {
		t.known.clean = old.clean
		for i := range old.Legacy {
			t.oldLegacy[old.Legacy[i].ID] = &old.Legacy[i]
		}
		for i := range old.Unread {
			t.oldBad[old.Unread[i].ID] = &old.Unread[i]
		}
	}
	err = root.Walk(rootfs.Visitor{File: t.file, Seen: spend.seen, Passed: func(name string, err error) {
		t.new.Unread = append(t.new.Unread, unread{
			Name: []byte(name), Reason: err.Error(), passing: !errors.Is(err, unix.ENAMETOOLONG),
		})
	}})
	if err != nil {
		return nil, false, err
	}
	same := old != nil && t.fresh == 0 && len(old.clean) == len(t.new.clean) &&
		sameNames(old.Legacy, t.new.Legacy) && len(old.Unread) == len(t.new.Unread)
	return &t.new, !same, nil
}

func sameNames(a, b []legacyFile) bool {
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
	if n, ok := t.legacy[id]; ok {
		t.new.Legacy[n].Names = append(t.new.Legacy[n].Names, []byte(e.Name()))
		return nil
	}
	if t.linked[id] {
		return nil
	}
	if h := t.oldLegacy[id]; h != nil {
		t.add(legacyFile{ID: id, SHA256: h.SHA256, Finding: h.Finding}, e.Name())
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
	if err := t.spend.used(); err != nil {
		return err
	}
	h, err := examine(t.by, t.root, name, id)
	switch {
	case errors.Is(err, examiner.ErrTime):
		return t.spend.late()
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, rootfs.ErrNotRegular):
		// Gone, or replaced by what is no regular file.
	case err != nil:
		t.new.Unread = append(t.new.Unread, unread{
			Name: []byte(name), ID: id, Reason: err.Error(), passing: !errors.Is(err, examiner.ErrTooMuch),
		})
	case h != nil:
		t.add(*h, name)
	default:
		t.clean(id, &e.Stat)
	}
	return nil
}

func (t *tree) add(h legacyFile, name string) {
	h.Names = [][]byte{[]byte(name)}
	t.legacy[h.ID] = len(t.new.Legacy)
	t.new.Legacy = append(t.new.Legacy, h)
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
