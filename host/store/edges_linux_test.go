package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// opened opens the store in a directory, as another process would.
func opened(t *testing.T, s *Store) *Store {
	t.Helper()
	other, err := Open(s.base, 0)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// An unusable directory of the store makes each operation fail that needs it, and a failed operation leaves
// nothing behind.
func TestBrokenDirs(t *testing.T) {
	none := func(*os.File) error { return nil }
	operations := map[string]func(s *Store) error{
		"put":    func(s *Store) error { _, err := s.Put("new", 0, none); return err },
		"get":    func(s *Store) error { _, ok := s.Get("old", 3); return want(ok) },
		"index":  func(s *Store) error { return s.WriteIndex("new", nil) },
		"read":   func(s *Store) error { _, err := s.ReadIndex("old"); return err },
		"lock":   func(s *Store) error { unlock, err := s.Lock("x", "y"); return done(unlock, err) },
		"lease":  func(s *Store) error { defer s.Release(); return s.Lease() },
		"list":   func(s *Store) error { _, err := s.List(); return err },
		"prune":  func(s *Store) error { _, err := s.Prune(0); return err },
		"clean":  func(s *Store) error { _, err := s.Prune(1 << 40); return err }, // has nothing else to remove
		"open":   func(s *Store) error { _, err := Open(s.base, 0); return err },
		"others": func(s *Store) error { _, err := s.Others(); return err },
		"scratch": func(s *Store) error {
			f, err := s.Scratch()
			if err == nil {
				f.Close()
			}
			return err
		},
		"private": func(s *Store) error {
			if s.Lease() != nil {
				return nil
			}
			defer s.Release()
			_, err := s.Private("old")
			return err
		},
		"private-bytes": func(s *Store) error { _, err := s.PrivateBytes(); return err },
		"sum":           func(s *Store) error { return want(s.SHA256("old") != "") },
		"trim":          func(s *Store) error { s.Limit, s.added = 1, true; return s.Trim() },
	}
	needs := map[string]string{ // operations that fail without a directory
		filesDir: "put get list prune clean open private trim", indexDir: "index read list prune clean open trim", locksDir: "put lock prune clean open trim",
		tempDir: "put index scratch prune clean open trim", leaseDir: "lease prune clean open trim", sumsDir: "put get sum open", privateCopies: "prune clean private private-bytes open trim",
	}
	for dir, needed := range needs {
		for name, operation := range operations {
			s := open(t, 0)
			old(t, put(t, s, "old", "abc"), 2*time.Hour)
			if err := s.WriteIndex("old", []byte("x")); err != nil {
				t.Fatal(err)
			}
			s.added = false
			if err := operation(opened(t, s)); err != nil {
				t.Errorf("the control: %s: got %v", name, err)
			}
			s = open(t, 0)
			old(t, put(t, s, "old", "abc"), 2*time.Hour)
			if err := s.WriteIndex("old", []byte("x")); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(s.Dir, dir)
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			err := operation(s)
			isNeeded := slices.Contains(strings.Fields(needed), name)
			if (err != nil) != isNeeded {
				t.Errorf("%s is a file: %s: got %v", dir, name, err)
			}
			if dir == tempDir {
				continue
			}
			if left := files(t, filepath.Join(s.Dir, tempDir)); len(left) > 0 && name != "prune" && name != "trim" {
				t.Errorf("%s is a file: %s: left %v", dir, name, left)
			}
		}
	}
}

func want(ok bool) error {
	if !ok {
		return errors.New("none")
	}
	return nil
}

func done(unlock func(), err error) error {
	if err == nil {
		unlock()
	}
	return err
}

// Directories of the store that have another type are not used.
func TestOpenUnsound(t *testing.T) {
	s := open(t, 0)
	path := filepath.Join(s.Dir, sumsDir)
	if err := errors.Join(os.RemoveAll(path), os.Symlink("/tmp", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.base, 0); !errors.Is(err, ErrUnsound) {
		t.Errorf("a symlink in place of a directory: got %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, 0); !errors.Is(err, ErrUnsound) {
		t.Errorf("a file in place of the store: got %v", err)
	}
	if os.Geteuid() == 0 {
		dir := t.TempDir()
		if err := os.Chown(dir, 1234, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, 0); !errors.Is(err, ErrUnsound) {
			t.Errorf("another user's: got %v", err)
		}
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o720); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 0); !errors.Is(err, ErrUnsound) {
		t.Errorf("a group may write: got %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.base, link); err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	if got, err := Open(link, 0); err != nil || got.Dir != s.Dir {
		t.Errorf("a symlink to the store: got %v, %v", got, err)
	}
	for _, name := range []string{"", filesDir, indexDir, locksDir, tempDir, leaseDir, sumsDir, privateCopies, emptyDir} {
		fi, err := os.Lstat(filepath.Join(s.Dir, name))
		if err != nil || fi.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: got %v, %v", name, fi, err)
		}
	}
}

// A copy that is truncated, changed, longer, a symlink or without its sum is not valid, and Put makes it again.
func TestDamagedCopies(t *testing.T) {
	for name, harm := range map[string]func(s *Store, path string) error{
		"cut off":       func(_ *Store, path string) error { return os.Truncate(path, 2) },
		"changed":       func(_ *Store, path string) error { return os.WriteFile(path, []byte("abd"), 0) },
		"without a sum": func(s *Store, _ string) error { return os.Remove(filepath.Join(s.Dir, sumsDir, "k")) },
		"a symlink": func(_ *Store, path string) error {
			return errors.Join(os.Rename(path, path+".x"), os.Symlink(path+".x", path))
		},
		"a FIFO": func(_ *Store, path string) error {
			return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600))
		},
	} {
		s := open(t, 0)
		path := put(t, s, "k", "abc")
		if got := s.SHA256("k"); got != fmt.Sprintf("%x", sha256.Sum256([]byte("abc"))) {
			t.Errorf("sum: got %s", got)
		}
		if err := harm(s, path); err != nil {
			t.Fatal(err)
		}
		if _, ok := s.Get("k", 3); ok {
			t.Errorf("%s: taken", name)
		}
		if name == "a FIFO" || name == "a symlink" {
			os.Remove(path)
		}
		put(t, s, "k", "abc")
		b, err := os.ReadFile(path)
		if _, ok := s.Get("k", 3); !ok || err != nil || string(b) != "abc" {
			t.Errorf("%s, put again: got %q, %v, %v", name, b, ok, err)
		}
	}
}

// Copies in a lease stay, whatever the limit is; the lease's private files are removed with it, and so are those
// of a lease whose process has died.
func TestLeases(t *testing.T) {
	s := open(t, 0)
	old(t, put(t, s, "k", "abc"), 2*time.Hour)
	s.Release() // none: nothing happens
	if err := s.Lease(); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Get("k", 3); !ok {
		t.Fatal("not there")
	}
	old(t, s.Path("k"), 2*time.Hour)
	var private []string
	for range 2 {
		path, err := s.Private("k")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); string(b) != "abc" || err != nil {
			t.Errorf("got %q, %v", b, err)
		}
		private = append(private, path)
	}
	if private[0] == private[1] {
		t.Error("two starts have one copy")
	}
	if _, err := s.Private("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a copy of nothing: got %v", err)
	}
	other := opened(t, s)
	all, _ := other.List()
	if removed, err := other.Remove(all[0]); removed || err != nil {
		t.Errorf("leased: removed %v, %v", removed, err)
	}
	var before, after unix.Stat_t
	if err := unix.Stat(s.Path("k"), &before); err != nil {
		t.Fatal(err)
	}
	if gone, err := other.Prune(-1); len(gone) != 0 || err != nil {
		t.Errorf("leased: got %v, %v gone", gone, err)
	}
	if err := unix.Stat(s.Path("k"), &after); err != nil || before.Ctim != after.Ctim {
		t.Errorf("leased: it was away for a moment: %v", err)
	}
	flags, err := unix.FcntlInt(uintptr(s.lease.fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		t.Errorf("the lease ends when the runtime is executed: flags %d, %v", flags, err)
	}
	fd, keys := s.lease.fd, s.lease.keys
	s.Release()
	if err := keys.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its file of keys is open: %v", err)
	}
	if s.lease != nil || len(files(t, filepath.Join(s.Dir, leaseDir))) != 0 || len(files(t, filepath.Join(s.Dir, privateCopies))) != 0 {
		t.Errorf("left after a release: %v, %v", files(t, filepath.Join(s.Dir, leaseDir)), files(t, filepath.Join(s.Dir, privateCopies)))
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("its descriptor is left: %v", err)
	}
	// One whose process has died.
	old(t, s.Path("k"), 2*time.Hour)
	dead := filepath.Join(s.Dir, leaseDir, "dead")
	if err := errors.Join(os.WriteFile(dead, []byte("k\n"), 0o600), os.MkdirAll(filepath.Join(s.Dir, privateCopies, "dead"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if gone, err := other.Prune(-1); len(gone) != 1 || err != nil {
		t.Errorf("a dead one: got %v, %v gone", gone, err)
	}
	if left := append(files(t, filepath.Join(s.Dir, leaseDir)), files(t, filepath.Join(s.Dir, privateCopies))...); len(left) != 0 {
		t.Errorf("a dead one: left %v", left)
	}
	if left := files(t, filepath.Join(s.Dir, sumsDir)); len(left) != 0 {
		t.Errorf("sums of no copies are left: %v", left)
	}
}

// A copy has all metadata of the original except its marks.
func TestPrivateMeta(t *testing.T) {
	s := open(t, 0)
	if err := s.Lease(); err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	path, err := s.Put("k", 3, func(f *os.File) error {
		_, err := f.WriteString("abc")
		return errors.Join(err, f.Chmod(0o755|fs.ModeSetuid), os.Chtimes(f.Name(), time.Unix(1, 2), time.Unix(3, 4)))
	})
	if err != nil {
		t.Fatal(err)
	}
	private, err := s.Private("k")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, private} {
		fi, err := os.Stat(p)
		if err != nil || fi.Mode() != 0o755|fs.ModeSetuid || !fi.ModTime().Equal(time.Unix(3, 4)) {
			t.Errorf("%s: got %v, %v", p, fi, err)
		}
	}
}

// Each attribute is a part of the key, in any order.
func TestKeyOfAttributes(t *testing.T) {
	sum := sha256.Sum256(nil)
	keys := map[string]string{}
	for what, attributes := range map[string]map[string]string{
		"none": nil, "a": {"user.a": "1"}, "value": {"user.a": "2"}, "b": {"user.b": "1"}, "both": {"user.a": "1", "user.b": "1"}, "swapped": {"user.a": "1user.b", "": "1"},
	} {
		m := Meta{Xattrs: attributes}
		first := m.Key(sum, "", "")
		for range 20 {
			if m.Key(sum, "", "") != first {
				t.Fatalf("%s: two keys", what)
			}
		}
		if same, ok := keys[first]; ok {
			t.Errorf("%s has the key of %s", what, same)
		}
		keys[first] = what
	}
	m := Meta{}
	m.SetLabel("l")
	if m.Label() != "l" || m.Xattrs[LabelXattr] != "l\x00" {
		t.Errorf("got %q", m.Xattrs)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fd := int(w.Fd())
	w.Close()
	if _, err := ReadMeta(fd); err == nil {
		t.Error("metadata of no file: got no error")
	}
	if err := m.Give(fd); err == nil {
		t.Error("metadata for no file: got no error")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for what, m := range map[string]Meta{
		"xattr none.of.these": {Xattrs: map[string]string{"none.of.these": "x"}},
		"times":               {Mtime: unix.Timespec{Nsec: 2e9}},
	} {
		if err := m.Give(int(f.Fd())); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// A copy whose key the lease cannot keep is not used: another process might remove it.
func TestLeaseCannotKeep(t *testing.T) {
	s := open(t, 0)
	put(t, s, "k", "abc")
	if err := s.Lease(); err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	s.lease.keys.Close()
	if _, ok := s.Get("k", 3); ok {
		t.Error("used")
	}
	if _, err := s.Put("new", 0, func(*os.File) error { return nil }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("put: got %v", err)
	}
	if left := append(files(t, filepath.Join(s.Dir, tempDir)), files(t, filepath.Join(s.Dir, filesDir))...); len(left) != 1 {
		t.Errorf("got %q, want k alone", left)
	}
}

// A copy with the times of its original counts as used now; what is in its place and cannot be replaced is an error.
func TestPutInPlace(t *testing.T) {
	s := open(t, 0)
	path, err := s.Put("k", 0, func(f *os.File) error { return os.Chtimes(f.Name(), time.Now().Add(2*time.Hour), time.Unix(3, 0)) })
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || time.Since(accessTime(fi)).Abs() > time.Hour || !fi.ModTime().Equal(time.Unix(3, 0)) {
		t.Errorf("used at %v, %v", accessTime(fi), err)
	}
	if err := os.MkdirAll(s.Path("dir")+"/x", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put("dir", 0, func(*os.File) error { return nil }); err == nil {
		t.Error("a directory is in the place of the copy: got no error")
	}
	// A sum that a power failure truncated is not that of a copy that cannot be read.
	if err := os.Truncate(filepath.Join(s.Dir, sumsDir, "k"), 0); err != nil {
		t.Fatal(err)
	}
	if s.whole("k", s.Path("none")) {
		t.Error("no copy and no sum: got unchanged")
	}
}

// The size of an entry is its space on the disk.
func TestSizeOnDisk(t *testing.T) {
	s := open(t, 0)
	for size, write := range map[int64]func(f *os.File) error{
		0:    func(f *os.File) error { return f.Truncate(1 << 20) }, // of holes
		4096: func(f *os.File) error { _, err := f.WriteString("abc"); return err },
	} {
		key := fmt.Sprint(size)
		if _, err := s.Put(key, size, write); err != nil {
			t.Fatal(err)
		}
		if e, err := s.entry(filesDir, key); err != nil || e.Size != size {
			t.Errorf("got %d bytes, %v, want %d", e.Size, err, size)
		}
	}
	if _, err := s.entry(filesDir, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// The times of use: a look at a copy or an index is a use; under a lease the time may be an hour old.
func TestUse(t *testing.T) {
	s := open(t, 0)
	path := put(t, s, "k", "abc")
	age := func(path string) time.Duration {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return time.Since(accessTime(fi))
	}
	modified := func() time.Time {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return fi.ModTime()
	}
	before := modified()
	old(t, path, 30*time.Minute)
	if s.Get("k", 3); age(path) > time.Minute {
		t.Errorf("used: last used %v ago", age(path))
	}
	if !modified().Equal(before) {
		t.Errorf("used: modified at %v, was %v", modified(), before)
	}
	if err := s.Lease(); err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	changed := func() unix.Timespec {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ctim
	}
	old(t, path, 30*time.Minute)
	ctime := changed()
	if s.Get("k", 3); changed() != ctime {
		t.Error("leased: the copy is changed, so its content will be read again")
	}
	old(t, path, 61*time.Minute)
	if s.Get("k", 3); age(path) > time.Minute {
		t.Errorf("leased: last used %v ago", age(path))
	}
	if err := s.WriteIndex("i", []byte("x")); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(s.Dir, indexDir, "i")
	old(t, index, time.Hour)
	if _, err := s.ReadIndex("i"); err != nil || age(index) > time.Minute {
		t.Errorf("index: last used %v ago, %v", age(index), err)
	}
	if fi, err := os.Stat(index); err != nil || fi.Mode() != 0o600 {
		t.Errorf("index: got %v, %v", fi, err)
	}
	if left := files(t, filepath.Join(s.Dir, tempDir)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Trim does nothing unless something was added and the store has a limit.
func TestTrimOnlyWhatGrew(t *testing.T) {
	for _, c := range []struct {
		limit int64
		added bool
		gone  bool
	}{{1, true, true}, {1, false, false}, {0, true, false}, {-1, true, false}} {
		s := open(t, c.limit)
		old(t, put(t, s, "k", "abc"), 2*time.Hour)
		s.added = c.added
		err := s.Trim()
		if _, there := os.Lstat(s.Path("k")); (there != nil) != c.gone || err != nil {
			t.Errorf("%+v: got %v, %v", c, there, err)
		}
		if c.limit > 0 && s.added {
			t.Errorf("%+v: would be trimmed again", c)
		}
	}
	s := open(t, 1)
	if err := s.WriteIndex("i", []byte("x")); err != nil || !s.added {
		t.Errorf("an index: added %v, %v", s.added, err)
	}
}

// Indexes are removed like copies, unless they were used since; a lease of a copy's key does not keep an index.
func TestPruneIndexes(t *testing.T) {
	s := open(t, 0)
	path := put(t, s, "k", "abc")
	if err := s.WriteIndex("k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(s.Dir, indexDir, "k")
	if err := s.Lease(); err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	s.Get("k", 3)
	old(t, path, 2*time.Hour)
	old(t, index, time.Hour)
	gone, err := opened(t, s).Prune(-1)
	if err != nil || len(gone) != 1 || !gone[0].Index || gone[0].Size == 0 {
		t.Errorf("got %+v, %v gone", gone, err)
	}
	if s.SHA256("k") == "" {
		t.Error("the sum of the copy went with its index")
	}
	if removed, err := s.Remove(Entry{Key: "none"}); !removed || err != nil {
		t.Errorf("what is not there: got %v, %v", removed, err)
	}
	held, err := hold(path, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if removed, err := s.Remove(Entry{Key: "k"}); removed || err != nil {
		t.Errorf("what another removes: got %v, %v", removed, err)
	}
}

// Other files in the directory of a store are not a layout of another version.
func TestOthersAreLayouts(t *testing.T) {
	s := open(t, 0)
	for _, name := range []string{"v1", "v3", "v0", "vx", "v2", "w3"} {
		if err := os.MkdirAll(filepath.Join(s.base, name, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.base, "v4"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := s.Others()
	if err != nil || len(all) != 2 || all[0].Name != "v2" || all[1].Name != "v3" {
		t.Errorf("got %+v, %v, want v2 and v3", all, err)
	}
	if all, err := At(filepath.Join(s.base, "none")).Others(); err != nil || all != nil {
		t.Errorf("no store: got %v, %v", all, err)
	}
}

// No other user can read or enter anything in a cache.
func TestNothingIsForOthers(t *testing.T) {
	s := opened(t, open(t, 0))
	if err := s.Lease(); err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	put(t, s, "k", "abc")
	private, err := s.Private("k")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteIndex("i", []byte("x")); err != nil {
		t.Fatal(err)
	}
	unlock, err := s.Lock("index", "i")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	seen := 0
	err = filepath.WalkDir(s.base, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		seen++
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if fi, err := e.Info(); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want %v", name, fi.Mode(), err, want)
		}
		return nil
	})
	if err != nil || seen < 12 {
		t.Errorf("%d entries, %v", seen, err)
	}
	if _, err := os.Stat(private); err != nil {
		t.Error(err)
	}
}

// An index that is read counts as used.
func TestIndexIsUsed(t *testing.T) {
	s := open(t, 0)
	if err := s.WriteIndex("i", []byte("x")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir, indexDir, "i")
	// A file system that notes some reads notes none of this one: it was read after it was changed (relatime).
	if err := os.Chtimes(path, time.Now().Add(2*time.Hour), time.Now().Add(-3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadIndex("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if b, err := s.ReadIndex("i"); err != nil || string(b) != "x" {
		t.Errorf("got %q, %v", b, err)
	}
	if fi, err := os.Stat(path); err != nil || time.Since(accessTime(fi)).Abs() > time.Hour {
		t.Errorf("last used at %v, %v", accessTime(fi), err)
	}
}

// Only the store can remove a protected copy; files other than copies are not protected.
func TestProtect(t *testing.T) {
	s := open(t, 0)
	if err := s.Protect("none"); err != nil {
		t.Errorf("a copy that is missing: %v", err)
	}
	if err := os.Symlink("/dev/null", s.Path("link")); err != nil {
		t.Fatal(err)
	}
	if err := s.Protect("link"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link: %v", err)
	}
	if err := unix.Mkfifo(s.Path("pipe"), 0o600); err != nil { // has no such flag
		t.Fatal(err)
	}
	if err := s.Protect("pipe"); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("a pipe: %v", err)
	}
	if err := setImmutable(s.Path("pipe"), false); err != nil {
		t.Error(err)
	}
	path := put(t, s, "k", "abc")
	flags := func() int {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		n, _ := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		return int(n)
	}
	before := flags()
	if err := s.Protect("k"); errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
		t.Skip("no immutable files here: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { setImmutable(path, false) })
	if got := flags() ^ before; got != 0x10 { // FS_IMMUTABLE_FL alone
		t.Errorf("flags %#x are changed", got)
	}
	for range 2 { // once more changes nothing
		if err := os.Remove(path); !errors.Is(err, unix.EPERM) {
			t.Fatalf("a protected copy is removed: %v", err)
		}
		if err := s.Protect("k"); err != nil {
			t.Error(err)
		}
	}
	if err := setImmutable(path, false); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Error(err)
	}
}

// TestServersACL: a copy does without the ACL that only a server's file system has, and not without another attribute.
func TestServersACL(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string]bool{"system.nfs4_acl": true, "system.posix_acl_access": false, "unknown.x": false} {
		m := Meta{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Mode: 0o755, Xattrs: map[string]string{name: "x"}}
		if err := m.Give(int(f.Fd())); (err == nil) != want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
