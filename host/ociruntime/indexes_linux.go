// Knowledge of a folder from earlier starts.

package ociruntime

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/store"
)

// fewFiles that are not ELF files are read again faster than an index of them is written: the upper
// layer of most containers holds less.
const fewFiles = 32

// indexes are what is remembered of folders, in a store.
type indexes struct {
	store *store.Store
	maker string
	spend *budget
	pool  *examiner.Pool
	// machine is what is mounted on this machine: of a layer's directory that covers a part.
	machine []mount
}

// layer returns what is found in a folder that nobody changes: it is walked once, and again
// if a file that matters is not what it was, if only in its metadata. Whoever else needs it
// at that time, waits.
func (k *indexes) layer(root *rootfs.Root) (*scanned, error) {
	if !root.Stamps() {
		return k.fresh(root)
	}
	key, err := k.key("layer", root, true)
	if err != nil {
		return nil, err
	}
	if x := k.read(key); x.whole() && x.holds(root) {
		return &x.scanned, nil
	}
	unlock, err := k.store.Lock("index", key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	old := k.read(key)
	if old.whole() {
		if old.holds(root) {
			return &old.scanned, nil
		}
		old = nil
	}
	x, _, err := k.scan(key, root, old, false)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(x.Unread, passing) {
		k.write(key, x)
	}
	return &x.scanned, nil
}

// holds reports whether the files that matter are still what they were in the folder. Their
// ctime changes with any of their metadata: by restorecon, chmod, or a backup that links them.
func (x *scanned) holds(root *rootfs.Root) bool {
	is := func(name []byte, id rootfs.Identity) bool {
		st, err := root.Lstat(string(name))
		return err == nil && rootfs.IdentityOf(&st) == id
	}
	for _, h := range x.Legacy {
		for _, name := range h.Names {
			if !is(name, h.ID) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(x.Unread, func(u unread) bool {
		return u.ID != (rootfs.Identity{}) && !is(u.Name, u.ID)
	})
}

func passing(u unread) bool { return u.passing }

// file returns what a single file is that is open as a mere name: its names are one, "".
func (k *indexes) file(root *rootfs.Root, fd int) (*scanned, error) {
	f, err := root.FileOf(fd)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Stat.Size < minELF {
		return &scanned{}, nil
	}
	subvolume, err := rootfs.Subvolume(f.FD())
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "file\n%s\n%+v%s", k.maker, f.ID(), subvolume)))
	stamps := rootfs.Stamps(f.FD(), true) && !rootfs.OnFile(f.FD(), f.ID().Dev) && f.Dates()
	if x := k.read(key); x != nil && stamps {
		return &x.scanned, nil
	}
	by, x := k.pool.Group(1), &index{}
	defer by.Done()
	before := k.pool.Examined.Load()
	h, err := examineFile(by, f, make([]byte, searchSize))
	switch {
	case errors.Is(err, examiner.ErrTime):
		return nil, k.spend.late()
	case err != nil:
		x.Unread = []unread{{ID: f.ID(), Reason: err.Error(), passing: !errors.Is(err, examiner.ErrTooMuch)}}
	case h != nil:
		h.Names = [][]byte{nil}
		x.Legacy = []legacyFile{*h}
	}
	// Seeing that a file is not ELF is as fast as remembering it.
	if stamps && k.pool.Examined.Load() > before && !f.ID().Unsettled(time.Now()) && !slices.ContainsFunc(x.Unread, passing) {
		k.write(key, x)
	}
	return &x.scanned, nil
}

// folder returns what is found in a folder that may have changed since: every file of it is
// looked at, and what is not known yet is read.
func (k *indexes) folder(root *rootfs.Root) (*scanned, error) {
	if !root.Stamps() || root.OnFile() {
		return k.fresh(root)
	}
	key, err := k.key("tree", root, false)
	if err != nil {
		return nil, err
	}
	old := k.read(key)
	if !old.whole() { // one reads it all, and the others wait
		unlock, err := k.store.Lock("index", key)
		if err != nil {
			return nil, err
		}
		defer unlock()
		old = k.read(key)
	}
	whole := old.whole()
	asked := k.pool.Examined.Load()
	scan := k.scan
	if whole { // it is not exchanged for a part
		scan = func(_ string, root *rootfs.Root, old *index, clean bool) (*index, bool, error) {
			return scanTree(root, old, clean, k.spend, k.pool)
		}
	}
	x, changed, err := scan(key, root, old, true)
	if err != nil {
		return nil, err
	}
	few := old == nil && asked == k.pool.Examined.Load() && len(x.Legacy)+len(x.Unread) == 0 && len(x.clean) <= fewFiles*identitySize
	if !changed || few {
		return &x.scanned, nil
	}
	keep := *x
	keep.Legacy = slices.DeleteFunc(slices.Clone(x.Legacy), func(h legacyFile) bool { return h.loose })
	keep.Unread = slices.DeleteFunc(slices.Clone(x.Unread), passing)
	k.write(key, &keep)
	return &x.scanned, nil
}

// fresh returns what is found in a folder of which nothing can be remembered.
func (k *indexes) fresh(root *rootfs.Root) (*scanned, error) {
	x, _, err := scanTree(root, nil, false, k.spend, k.pool)
	if err != nil {
		return nil, err
	}
	return &x.scanned, nil
}

// firstStep is how long a folder is scanned until what was found is kept for the first time.
var firstStep = 2 * time.Second

// scan is scanTree in steps, each twice as long as the one before: whoever is killed has lost half of the work at
// most.
func (k *indexes) scan(key string, root *rootfs.Root, old *index, clean bool) (x *index, changed bool, err error) {
	defer func() { k.spend.pause = time.Time{} }()
	for step := firstStep; ; step *= 2 {
		names := k.spend.names.Load()
		k.spend.pause = time.Now().Add(step)
		if x, changed, err = scanTree(root, old, clean, k.spend, k.pool); err == nil {
			return x, changed, nil
		}
		k.keepPart(key, x)
		if !errors.Is(err, errPause) {
			return nil, false, err
		}
		old = x
		k.spend.names.Store(names) // they are counted again
	}
}

// keepPart remembers what was found in a folder before the time or something else was up: the next start goes on
// there, and does not begin again.
func (k *indexes) keepPart(key string, x *index) {
	if x == nil {
		return
	}
	x.Part = true
	x.Legacy = slices.DeleteFunc(x.Legacy, func(h legacyFile) bool { return h.loose })
	x.Unread = slices.DeleteFunc(x.Unread, passing)
	k.write(key, x)
}

func (x *index) whole() bool { return x != nil && !x.Part }

func (k *indexes) read(key string) *index {
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

// write remembers an index. If that does not work (a full disk), the next start looks for
// itself: no reason not to go on.
func (k *indexes) write(key string, x *index) {
	if b, err := x.bytes(); err == nil {
		_ = k.store.WriteIndex(key, b)
	}
}

// key names the index of a folder: by its place, its inode and when that was made; times
// says whether any change in the folder itself makes it another one.
func (k *indexes) key(kind string, root *rootfs.Root, times bool) (string, error) {
	st, err := root.Stat()
	if err != nil {
		return "", err
	}
	subvolume, err := root.Subvolume()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%d:%s\n%d:%d%s %d %d.%d\n", kind, k.maker, len(root.Path), root.Path,
		st.Dev_major, st.Dev_minor, subvolume, st.Ino, st.Btime.Sec, st.Btime.Nsec)
	if times {
		fmt.Fprintf(h, "%d.%d %d.%d\n", st.Mtime.Sec, st.Mtime.Nsec, st.Ctime.Sec, st.Ctime.Nsec)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
