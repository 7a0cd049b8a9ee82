// The scan of one folder for files that call the page, with what an earlier index knows.

package ociruntime

import (
	"bytes"
	"errors"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/host/rootfs"
)

// walkers is how many processors a folder is scanned on at most: what a start takes from other work on a
// node is bounded.
const walkers = 4

// tree looks for files that call the page in one folder.
type tree struct {
	spend *budget
	by    *examiner.Group
	old   *known
	// folders has the names in folders, by inode; nil if they are not remembered.
	folders map[[2]uint64][]byte
	// By identity: those that the old index knows.
	oldLegacy map[rootfs.Identity]*legacyFile
	oldBad    map[rootfs.Identity]*unread
	now       time.Time
	parts     []*part

	mu     sync.Mutex
	linked map[rootfs.Identity]*linked
	// clean says that files without call sites are remembered.
	clean bool
	moved atomic.Bool // scanned.Moved
}

// part is what one of several walkers finds.
type part struct {
	*tree
	new   index
	still [][]byte // folders of the old index that have not changed
	known []uint64 // bits: those of the old index that are still there
	fresh int      // files that the old index did not know
	added int      // folders that it did not know
	buf   []byte   // for a part of a file
}

// maxWitnesses is how many files each walker names as a layer's witnesses.
const maxWitnesses = 8

// maxFolders bounds what is remembered of folders by each walker, in bytes.
const maxFolders = 8 << 20

// fewFolders is how many folders are read again faster than an index is written.
const fewFolders = 16

// linked is a file of several names, which the first that comes to it examines.
type linked struct {
	done  bool
	found *legacyFile // once it is done
	names [][]byte    // met before it was done
}

// scanTree examines what is in a folder and not in the old index, which may be nil. changed
// says whether the index that it returns differs from the old one. clean is whether it has the files
// also without call sites; with an error it has them in any case, and what was found before.
func scanTree(root *rootfs.Root, old *index, clean bool, spend *budget, pool *examiner.Pool) (x *index, changed bool, err error) {
	t := &tree{
		clean: clean, spend: spend, by: pool.Group(walkers), now: time.Now(), linked: map[rootfs.Identity]*linked{},
		oldLegacy: map[rootfs.Identity]*legacyFile{}, oldBad: map[rootfs.Identity]*unread{},
	}
	defer t.by.Done()
	if old == nil {
		t.old = newKnown(nil)
	} else {
		t.old = newKnown(old.clean)
		for i := range old.Legacy {
			t.oldLegacy[old.Legacy[i].ID] = &old.Legacy[i]
		}
		for i := range old.Unread {
			t.oldBad[old.Unread[i].ID] = &old.Unread[i]
		}
	}
	if old != nil {
		t.moved.Store(old.Moved)
	}
	if clean && root.Dated() {
		t.folders = map[[2]uint64][]byte{}
		if old != nil {
			t.folders = foldersOf(old.folders)
		}
	}
	if !old.whole() && root.Bare {
		if own, err := root.Alone(); err == nil {
			defer own.Close()
			root = own
		}
	}
	err = root.Walk(min(walkers, runtime.GOMAXPROCS(0)), t.visitor)
	x, same := t.join()
	if err != nil {
		x.remain(old)
		return x, true, err
	}
	added := 0
	for _, p := range t.parts {
		added += p.added
	}
	if !clean {
		x.clean = nil
	}
	same = same && added <= fewFolders && old.whole() && sameNames(old.Legacy, x.Legacy) && len(old.Unread) == len(x.Unread)
	if same {
		x.folders = old.folders
		return x, false, nil
	}
	for _, p := range t.parts {
		x.folders = append(append(x.folders, bytes.Join(p.still, nil)...), p.new.folders...)
	}
	return x, true, nil
}

// remain adds to what a broken-off scan found what was known before and was not reached.
func (x *index) remain(old *index) {
	if old == nil {
		return
	}
	x.clean = inOrder(append(slices.Clone(x.clean), old.clean...))
	for _, h := range old.Legacy {
		if !slices.ContainsFunc(x.Legacy, func(l legacyFile) bool { return l.ID == h.ID }) {
			x.Legacy = append(x.Legacy, h)
		}
	}
	for _, u := range old.Unread {
		if !slices.ContainsFunc(x.Unread, func(v unread) bool { return v.ID == u.ID }) {
			x.Unread = append(x.Unread, u)
		}
	}
}

// visitor begins a part.
func (t *tree) visitor() rootfs.Visitor {
	const word = 64 // bits
	p := &part{tree: t, known: make([]uint64, t.old.len()/word+1), buf: make([]byte, searchSize)}
	t.parts = append(t.parts, p)
	v := rootfs.Visitor{File: p.file, Opened: p.opened, Seen: t.spend.seen, Passed: func(name string, err error) {
		p.new.Unread = append(p.new.Unread, unread{
			Name: []byte(name), Reason: err.Error(), passing: !errors.Is(err, unix.ENAMETOOLONG),
		})
	}}
	if t.folders != nil {
		v.Known, v.Read = p.knownFolder, p.readFolder
	}
	return v
}

// opened looks for the extended attributes with which overlay shows a directory, or what is in it, elsewhere
// (fs/overlayfs/overlayfs.h, enum ovl_xattr): of those that vfix does not know, any may.
func (p *part) opened(fd int) {
	const usual = 4 << 10 // bytes; one with more counts as one that moves
	n, err := unix.Flistxattr(fd, p.buf[:usual])
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		p.moved.Store(true)
	}
	for name := range bytes.SplitSeq(p.buf[:max(n, 0)], []byte{0}) {
		rest, of := bytes.CutPrefix(name, []byte("trusted.overlay."))
		if !of {
			rest, of = bytes.CutPrefix(name, []byte("user.overlay."))
		}
		if of && !slices.Contains([]string{"opaque", "impure", "origin", "upper", "nlink", "uuid"}, string(rest)) {
			p.moved.Store(true)
		}
	}
}

// knownFolder returns the names in a folder that has not changed: each that appears or goes moves its
// ctime.
func (p *part) knownFolder(st *unix.Stat_t) []byte {
	var buf [identitySize]byte
	id := rootfs.IdentityOf(st)
	f := p.folders[[2]uint64{id.Ino, id.Dev}]
	if f == nil || string(f[:identitySize]) != string(appendIdentity(buf[:0], id)) {
		return nil
	}
	p.still = append(p.still, f)
	return f[folderHeader:]
}

// readFolder remembers the names in a folder, unless it changed so lately that it might change again
// without a trace.
func (p *part) readFolder(st *unix.Stat_t, names []byte) {
	if id := rootfs.IdentityOf(st); !id.Unsettled(p.now) && len(p.new.folders)+len(names) < maxFolders {
		p.added++
		p.new.folders = appendFolder(p.new.folders, id, names)
	}
}

// join puts the parts together, in an order that does not depend on who found what. same says that
// the files without call sites are those of the old index.
func (t *tree) join() (x *index, same bool) {
	x = &index{}
	fresh, count := 0, 0
	still := make([]uint64, len(t.parts[0].known))
	for _, p := range t.parts {
		fresh += p.fresh
		x.Legacy = append(x.Legacy, p.new.Legacy...)
		x.Unread = append(x.Unread, p.new.Unread...)
		x.temps = append(x.temps, p.new.temps...)
		x.Witnesses = append(x.Witnesses, p.new.Witnesses...)
		for i, w := range p.known {
			still[i] |= w
		}
	}
	x.Moved = t.moved.Load()
	for id, l := range t.linked {
		if l.found != nil {
			x.Legacy = append(x.Legacy, legacyFile{Names: l.names, ID: id, SHA256: l.found.SHA256, Finding: l.found.Finding})
		}
	}
	for _, h := range x.Legacy {
		slices.SortFunc(h.Names, bytes.Compare)
	}
	slices.SortFunc(x.Legacy, func(a, b legacyFile) int { return bytes.Compare(a.Names[0], b.Names[0]) })
	slices.SortFunc(x.Unread, func(a, b unread) int { return bytes.Compare(a.Name, b.Name) })
	slices.SortFunc(x.Witnesses, func(a, b witness) int { return bytes.Compare(a.Name, b.Name) })
	x.Witnesses = x.Witnesses[:min(len(x.Witnesses), maxWitnesses)]
	for _, w := range still {
		count += bits.OnesCount64(w)
	}
	if fresh == 0 && count == t.old.len() {
		x.clean = t.old.clean
		return x, true
	}
	for i := range t.old.len() {
		if still[i/64]>>(i%64)&1 != 0 {
			x.clean = append(x.clean, t.old.clean[i*identitySize:(i+1)*identitySize]...)
		}
	}
	for _, p := range t.parts {
		x.clean = append(x.clean, p.new.clean...)
	}
	x.clean = inOrder(x.clean)
	return x, false
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
func (p *part) file(e *rootfs.Entry) error {
	if isTemp(e.Base) { // or an image's own file: it is looked at like the others
		p.new.temps = append(p.new.temps, e.Name())
	}
	id := rootfs.IdentityOf(&e.Stat)
	if !p.clean && len(p.new.Witnesses) < maxWitnesses {
		p.new.Witnesses = append(p.new.Witnesses, witness{[]byte(e.Name()), id})
	}
	if e.Stat.Size < minELF {
		return nil
	}
	if i := p.old.find(id); i >= 0 {
		p.known[i/64] |= 1 << (i % 64)
		return nil
	}
	if u := p.oldBad[id]; u != nil {
		p.new.Unread = append(p.new.Unread, unread{Name: []byte(e.Name()), ID: id, Reason: u.Reason})
		return nil
	}
	if e.Stat.Nlink > 1 && !p.first(id, e) {
		return nil
	}
	found, bad, err := p.oldLegacy[id], (*unread)(nil), error(nil)
	if found == nil {
		found, bad, err = p.read(id, e)
	}
	names := [][]byte{[]byte(e.Name())}
	if e.Stat.Nlink > 1 {
		names = p.met(id, found, bad != nil || err != nil, names)
	}
	switch {
	case bad != nil:
		for _, name := range names {
			p.new.Unread = append(p.new.Unread, unread{Name: name, ID: id, Reason: bad.Reason, passing: bad.passing})
		}
	case found != nil && e.Stat.Nlink == 1:
		p.new.Legacy = append(p.new.Legacy, legacyFile{Names: names, ID: id, SHA256: found.SHA256, Finding: found.Finding})
	}
	return err
}

// first reports whether this is the first name of a file that any walker comes to. The names of files
// without call sites are forgotten.
func (p *part) first(id rootfs.Identity, e *rootfs.Entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.linked[id]
	if l == nil {
		p.linked[id] = &linked{}
		return true
	}
	if !l.done || l.found != nil {
		l.names = append(l.names, []byte(e.Name()))
	}
	return false
}

// met notes what a file of several names is, and returns those that it was met by, behind the given ones. One
// that was not read is read again by its next name.
func (p *part) met(id rootfs.Identity, found *legacyFile, bad bool, names [][]byte) [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.linked[id]
	l.done, l.found = true, found
	names, l.names = append(names, l.names...), nil
	switch {
	case bad:
		delete(p.linked, id)
	case found != nil:
		l.names = names
	}
	return names
}

// read examines a file that no index knows: a legacyFile, if there is something to patch in it, or
// why it was not examined.
func (p *part) read(id rootfs.Identity, e *rootfs.Entry) (*legacyFile, *unread, error) {
	p.fresh++
	if err := p.spend.inTime(); err != nil {
		return nil, nil, err
	}
	h, err := p.examine(e, id)
	switch {
	case errors.Is(err, examiner.ErrTime):
		return nil, nil, p.spend.late()
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, rootfs.ErrNotRegular):
		// Gone, or replaced by something else than a regular file. It may still have other names.
		if e.Stat.Nlink > 1 {
			return nil, &unread{Reason: rootfs.ErrChanged.Error(), passing: true}, nil
		}
	case err != nil:
		return nil, &unread{Reason: err.Error(), passing: !errors.Is(err, examiner.ErrTooMuch)}, nil
	case h == nil && !id.Unsettled(p.now):
		// One that changed so lately might change again without a trace.
		p.new.clean = appendIdentity(p.new.clean, id)
	}
	return h, nil, nil
}
