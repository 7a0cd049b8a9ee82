// The scan of one directory for files that call the page, with the results of an earlier index.

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

	examiner "vfix.dev/vfix/host/oldexaminer"
	"vfix.dev/vfix/host/rootfs"
)

// walkers is the maximum number of processors for the scan of a directory, which bounds its effect on other work
// on a node.
const walkers = 4

// tree searches one directory for files that call the page.
type tree struct {
	spend *budget
	by    *examiner.Group
	old   known // without call sites
	// dirs has the names in directories, by inode; nil if they are not stored.
	dirs map[[2]uint64][]byte
	// The files of the old index, by identity.
	oldLegacy map[rootfs.Identity]*legacyFile
	oldBad    map[rootfs.Identity]*unread
	now       time.Time
	parts     []*part

	mu sync.Mutex
	// linked are the examined files with several names: nil for one without anything to patch.
	linked map[rootfs.Identity]*legacyFile
	// clean reports that files without call sites are stored.
	clean bool
	root  *rootfs.Root
	moved atomic.Bool // scanned.Moved
}

// part is the result of one of several walkers.
type part struct {
	*tree
	new   index
	still [][]byte // unchanged directories of the old index
	known []uint64 // bits: the identities of the old index that still exist
	fresh int      // files that the old index does not have
	added int      // directories that it does not have
	buf   []byte   // for a part of a file
}

// maxWitnesses is how many witnesses of a layer each walker adds.
const maxWitnesses = 8

// maxDirs is the maximum size of the directory names that each walker stores, in bytes.
const maxDirs = 8 << 20

// fewDirs is the number of directories up to which reading them again is faster than writing an index.
const fewDirs = 16

// scanTree examines the files of a directory that the old index, which may be nil, does not have. changed reports
// whether the new index differs from the old one; clean selects whether it has files without call sites. With an
// error, x has them in any case, and the results so far.
func scanTree(root *rootfs.Root, old *index, clean bool, spend *budget, pool *examiner.Pool) (x *index, changed bool, err error) {
	t := &tree{
		clean: clean, root: root, spend: spend, by: pool.Group(walkers), now: time.Now(), linked: map[rootfs.Identity]*legacyFile{},
		oldLegacy: map[rootfs.Identity]*legacyFile{}, oldBad: map[rootfs.Identity]*unread{},
	}
	defer t.by.Done()
	if old != nil {
		t.old = old.clean
		t.moved.Store(old.Moved)
		for i := range old.Legacy {
			t.oldLegacy[old.Legacy[i].ID] = &old.Legacy[i]
		}
		for i := range old.Unread {
			t.oldBad[old.Unread[i].ID] = &old.Unread[i]
		}
	}
	if clean && root.Has(rootfs.Dated) {
		t.dirs = map[[2]uint64][]byte{}
		if old != nil {
			t.dirs = dirsOf(old.dirs)
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
	same = same && added <= fewDirs && old.whole() && sameNames(old.Legacy, x.Legacy) && len(old.Unread) == len(x.Unread)
	if same {
		x.dirs = old.dirs
		return x, false, nil
	}
	for _, p := range t.parts {
		x.dirs = append(append(x.dirs, bytes.Join(p.still, nil)...), p.new.dirs...)
	}
	return x, true, nil
}

// remain adds those results of the old index that an interrupted scan did not reach.
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

// visitor returns a new part.
func (t *tree) visitor() rootfs.Visitor {
	const word = 64 // bits
	p := &part{tree: t, known: make([]uint64, t.old.len()/word+1), buf: make([]byte, searchSize)}
	t.parts = append(t.parts, p)
	v := rootfs.Visitor{File: p.file, Opened: p.opened, Seen: t.spend.seen, Passed: func(name string, err error) {
		p.new.Unread = append(p.new.Unread, unread{
			Name: []byte(name), Reason: err.Error(), passing: !errors.Is(err, unix.ENAMETOOLONG), crosses: errors.Is(err, rootfs.ErrMount),
		})
	}}
	if t.dirs != nil {
		v.Known, v.Read = p.knownDir, p.readDir
	}
	return v
}

// opened looks for extended attributes with which overlay shows a directory or its contents elsewhere
// (fs/overlayfs/overlayfs.h, enum ovl_xattr); an attribute that vfix does not know counts as one.
func (p *part) opened(fd int) {
	const usual = 4 << 10 // bytes; a longer list counts as such an attribute
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

// knownDir returns the names in an unchanged directory: a new or removed name changes its ctime.
func (p *part) knownDir(st *unix.Stat_t) []byte {
	var buf [identitySize]byte
	id := rootfs.IdentityOf(st)
	f := p.dirs[[2]uint64{id.Ino, id.Dev}]
	if f == nil || !p.root.Within(id.Dev) || string(f[:identitySize]) != string(appendIdentity(buf[:0], id)) {
		return nil
	}
	p.still = append(p.still, f)
	return f[dirHeader:]
}

// readDir stores the names in a directory, unless it changed so recently that another change might leave no
// trace.
func (p *part) readDir(st *unix.Stat_t, names []byte) {
	if id := rootfs.IdentityOf(st); !id.Unsettled(p.now) && p.root.Within(id.Dev) && len(p.new.dirs)+len(names) < maxDirs {
		p.added++
		p.new.dirs = appendDir(p.new.dirs, id, names)
	}
}

// join combines the parts, in an order that does not depend on the walkers. same reports that the files without
// call sites are those of the old index.
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
	names := map[rootfs.Identity][][]byte{}
	for _, h := range x.Legacy {
		names[h.ID] = append(names[h.ID], h.Names...)
	}
	x.Legacy = slices.DeleteFunc(x.Legacy, func(h legacyFile) bool { // each file once
		all := names[h.ID]
		return len(all) == 0 || string(all[0]) != string(h.Names[0])
	})
	for i := range x.Legacy {
		x.Legacy[i].Names = names[x.Legacy[i].ID]
		slices.SortFunc(x.Legacy[i].Names, bytes.Compare)
	}
	slices.SortFunc(x.Legacy, func(a, b legacyFile) int { return bytes.Compare(a.Names[0], b.Names[0]) })
	slices.SortFunc(x.Unread, func(a, b unread) int { return bytes.Compare(a.Name, b.Name) })
	slices.SortFunc(x.Witnesses, func(a, b witness) int { return bytes.Compare(a.Name, b.Name) })
	x.Witnesses = x.Witnesses[:min(len(x.Witnesses), maxWitnesses)]
	for _, w := range still {
		count += bits.OnesCount64(w)
	}
	if fresh == 0 && count == t.old.len() {
		x.clean = t.old
		return x, true
	}
	for i := range t.old.len() {
		if still[i/64]>>(i%64)&1 != 0 {
			x.clean = append(x.clean, t.old[i*identitySize:(i+1)*identitySize]...)
		}
	}
	for _, p := range t.parts {
		x.clean = append(x.clean, p.new.clean...)
	}
	x.clean = inOrder(x.clean)
	return x, false
}

func sameNames(a, b []legacyFile) bool {
	return slices.EqualFunc(a, b, func(a, b legacyFile) bool {
		return a.ID == b.ID && slices.EqualFunc(a.Names, b.Names, bytes.Equal)
	})
}

// file visits one name in the directory.
func (p *part) file(e *rootfs.Entry) error {
	if isTemp(e.Base) { // or an image's own file, which is also examined
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
	found, bad, err := p.oldLegacy[id], (*unread)(nil), error(nil)
	if found == nil {
		found, bad, err = p.once(id, e)
	}
	switch {
	case bad != nil:
		p.new.Unread = append(p.new.Unread, unread{Name: []byte(e.Name()), ID: id, Reason: bad.Reason, passing: bad.passing})
	case found != nil:
		p.new.Legacy = append(p.new.Legacy, legacyFile{Names: [][]byte{[]byte(e.Name())}, ID: id, SHA256: found.SHA256, Finding: found.Finding, loose: found.loose})
	}
	return err
}

// once calls read for the first name of a file, and returns that result for its other names. A file that could not
// be read is read again by its next name.
func (p *part) once(id rootfs.Identity, e *rootfs.Entry) (*legacyFile, *unread, error) {
	if e.Stat.Nlink == 1 {
		return p.read(id, e)
	}
	p.mu.Lock()
	found, known := p.linked[id]
	p.mu.Unlock()
	if known {
		return found, nil, nil
	}
	found, bad, err := p.read(id, e)
	if bad == nil && err == nil {
		p.mu.Lock()
		p.linked[id] = found
		p.mu.Unlock()
	}
	return found, bad, err
}

// read examines a file that is in no index: it returns a legacyFile if the file needs a patch, or why it was not
// examined.
func (p *part) read(id rootfs.Identity, e *rootfs.Entry) (*legacyFile, *unread, error) {
	p.fresh++
	if err := p.spend.inTime(); err != nil {
		return nil, nil, err
	}
	h, loose, err := p.examine(e, id)
	switch {
	case errors.Is(err, examiner.ErrTime):
		return nil, nil, p.spend.late()
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, rootfs.ErrNotRegular):
		// The file was removed, or replaced by something else. It may still have other names.
		if e.Stat.Nlink > 1 {
			return nil, &unread{Reason: rootfs.ErrChanged.Error(), passing: true}, nil
		}
	case err != nil:
		return nil, &unread{Reason: err.Error(), passing: !errors.Is(err, examiner.ErrTooMuch)}, nil
	case h != nil:
		h.loose = loose
	case !loose:
		p.new.clean = appendIdentity(p.new.clean, id)
	}
	return h, nil, nil
}
