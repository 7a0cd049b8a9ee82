// Indexes of directories from earlier starts.

package ociruntime

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	examiner "vfix.dev/vfix/host/oldexaminer"
	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/store"
)

// fewFiles is the number of files other than ELF files up to which a scan is faster than writing an index: the
// upper layer of most containers has fewer.
const fewFiles = 32

// indexes are the stored indexes of directories.
type indexes struct {
	store *store.Store
	maker string
	spend *budget
	pool  *examiner.Pool
	// machine has the mounts of this machine: one may cover a part of a layer's directory.
	machine []mount
}

// layer returns the result for a directory that nobody changes. It is scanned once, and again if a file that
// matters has changed, even only its metadata. Other starts that need it meanwhile wait.
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

// holds reports whether the files that matter are unchanged in the directory. Each change of their metadata
// changes their ctime: by restorecon, chmod, or a backup with hard links.
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

// file returns the result for a single file at an O_PATH descriptor, with the name "".
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
	// A file that is not ELF is as fast to recognize as to look up.
	if stamps && k.pool.Examined.Load() > before && !f.ID().Unsettled(time.Now()) && !slices.ContainsFunc(x.Unread, passing) {
		k.write(key, x)
	}
	return &x.scanned, nil
}

// dir returns the result for a directory that may have changed: it checks the identity of each file and
// examines the unknown ones.
func (k *indexes) dir(root *rootfs.Root) (*scanned, error) {
	if !root.Stamps() || root.OnFile() {
		return k.fresh(root)
	}
	key, err := k.key("tree", root, false)
	if err != nil {
		return nil, err
	}
	old := k.read(key)
	if !old.whole() { // one start examines all of it, and the others wait
		unlock, err := k.store.Lock("index", key)
		if err != nil {
			return nil, err
		}
		defer unlock()
		old = k.read(key)
	}
	whole := old.whole()
	examined := k.pool.Examined.Load()
	scan := k.scan
	if whole { // a whole index is not replaced by a partial one
		scan = func(_ string, root *rootfs.Root, old *index, clean bool) (*index, bool, error) {
			return scanTree(root, old, clean, k.spend, k.pool)
		}
	}
	x, changed, err := scan(key, root, old, true)
	if err != nil {
		return nil, err
	}
	few := old == nil && examined == k.pool.Examined.Load() && len(x.Legacy)+len(x.Unread) == 0 && len(x.clean) <= fewFiles*identitySize
	if !changed || few {
		return &x.scanned, nil
	}
	keep := *x
	keep.Legacy = slices.DeleteFunc(slices.Clone(x.Legacy), func(h legacyFile) bool { return h.loose })
	keep.Unread = slices.DeleteFunc(slices.Clone(x.Unread), passing)
	k.write(key, &keep)
	return &x.scanned, nil
}

// fresh returns the result for a directory that cannot have an index.
func (k *indexes) fresh(root *rootfs.Root) (*scanned, error) {
	x, _, err := scanTree(root, nil, false, k.spend, k.pool)
	if err != nil {
		return nil, err
	}
	return &x.scanned, nil
}

// firstStep is the duration of a scan until its results are stored for the first time.
var firstStep = 2 * time.Second

// scan runs scanTree in steps, each twice as long as the previous one: a start that is killed loses at most half
// of the work.
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
		k.spend.names.Store(names) // the next step counts them again
	}
}

// keepPart stores the results of a scan that exceeded the time or another limit: the next start continues there.
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

// write stores an index. An error (a full disk) is ignored: the next start scans again.
func (k *indexes) write(key string, x *index) {
	if b, err := x.bytes(); err == nil {
		_ = k.store.WriteIndex(key, b)
	}
}

// key returns the name of the index of a directory: from its path, its inode and the inode's creation time; times
// adds the times that change with the directory itself.
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
