package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
)

func open(t *testing.T, limit int64) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "cache"), limit)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, key, content string) string {
	t.Helper()
	path, err := s.Put(key, int64(len(content)), func(f *os.File) error {
		_, err := f.WriteString(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func size(s *Store) (int64, error) {
	all, err := s.List()
	return sum(all), err
}

func old(t *testing.T, path string, age time.Duration) {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Now().Add(-age), fi.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func TestPutAndGet(t *testing.T) {
	s := open(t, 0)
	if _, ok := s.Get("k", 3); ok {
		t.Error("an entry that nobody put")
	}
	path := put(t, s, "k", "abc")
	if got, ok := s.Get("k", 3); !ok || got != path {
		t.Errorf("got %q, %v, want %q", got, ok, path)
	}
	if _, ok := s.Get("k", 4); ok {
		t.Error("an entry of another size was taken")
	}
	failed := errors.New("no")
	if _, err := s.Put("l", 1, func(*os.File) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	if _, err := os.Stat(s.Path("l")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what could not be written is there: %v", err)
	}
}

// Of many processes that need one entry, one writes it.
func TestPutTogether(t *testing.T) {
	s := open(t, 0)
	var writes atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := s.Put("k", 3, func(f *os.File) error {
				writes.Add(1)
				_, err := f.WriteString("abc")
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := writes.Load(); n != 1 {
		t.Errorf("written %d times", n)
	}
}

// The most recently used copies stay; copies in use stay in any case.
func TestPrune(t *testing.T) {
	s := open(t, 0)
	const block = 4096
	for i, age := range []time.Duration{time.Hour, 3 * time.Hour, 0, 2 * time.Hour} {
		old(t, put(t, s, fmt.Sprint(i), string(make([]byte, block))), age)
	}
	gone, err := s.Prune(3 * block)
	if err != nil || len(gone) != 1 || gone[0].Key != "1" {
		t.Errorf("got %v, %v, want 1 gone", gone, err)
	}
	if gone, err = s.Prune(-1); err != nil || len(gone) != 2 || gone[0].Key != "3" || gone[1].Key != "0" {
		t.Errorf("got %v, %v, want 3 and 0 gone", gone, err)
	}
	if n, err := size(s); err != nil || n != block {
		t.Errorf("got %d bytes left, %v, want %d", n, err, block)
	}
}

// A copy that was used after it was listed is not removed: its user relies on it.
func TestRemoveSeesLateUse(t *testing.T) {
	s := open(t, 0)
	path := put(t, s, "k", "abc")
	old(t, path, time.Hour)
	all, err := s.List()
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v, want one entry", all, err)
	}
	if _, ok := s.Get("k", 3); !ok {
		t.Fatal("not there")
	}
	if removed, err := s.Remove(all[0]); removed || err != nil {
		t.Errorf("used since: got %v, %v, want it to stay", removed, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	old(t, path, time.Hour)
	all, _ = s.List()
	if removed, err := s.Remove(all[0]); !removed || err != nil {
		t.Errorf("not used since: got %v, %v, want it gone", removed, err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.Dir, tempDir)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestBound(t *testing.T) {
	const block = 4096
	s := open(t, 3*block)
	for i := range 6 {
		old(t, put(t, s, fmt.Sprint(i), string(make([]byte, block))), time.Duration(10-i)*time.Hour)
		if err := s.Trim(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := size(s); err != nil || n != 3*block {
		t.Errorf("got %d bytes, %v, want %d", n, err, 3*block)
	}
	if _, ok := s.Get("5", block); !ok {
		t.Error("the newest is gone")
	}
}

// Abandoned incomplete files are removed; files that are being written stay.
func TestClean(t *testing.T) {
	s := open(t, 0)
	left := filepath.Join(s.Dir, tempDir, "new-left")
	if err := os.MkdirAll(filepath.Join(s.Dir, tempDir, "new-directory", "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := s.begin()
	if err != nil {
		t.Fatal(err)
	}
	defer p.discard()
	opened := len(files(t, "/proc/self/fd"))
	if _, err := s.Prune(0); err != nil {
		t.Fatal(err)
	}
	if n := len(files(t, "/proc/self/fd")); n > opened {
		t.Errorf("%d files are open, and %d were before", n, opened)
	}
	entries, err := os.ReadDir(filepath.Join(s.Dir, tempDir))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(p.Name()) {
		t.Errorf("got %v, %v, want only %s", entries, err, p.Name())
	}
}

func TestScratch(t *testing.T) {
	s := open(t, 0)
	f, err := s.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("abc"); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.Dir, tempDir)); len(left) != 0 {
		t.Errorf("it has a name: %v", left)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 0); !errors.Is(err, ErrUnsound) {
		t.Errorf("anybody may write: got %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 0); err != nil {
		t.Errorf("the control: got %v", err)
	}
	if _, err := Existing(filepath.Join(dir, "none"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestMeta(t *testing.T) {
	dir := t.TempDir()
	a, err := os.Create(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := os.Chmod(a.Name(), 0o4751|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(a.Name(), time.Unix(1, 2), time.Unix(3, 4)); err != nil {
		t.Fatal(err)
	}
	xattrs := unix.Fsetxattr(int(a.Fd()), "user.vfix", []byte("v"), 0) == nil
	for _, mark := range []string{"user.fsverity.sig", "security.ima", "security.evm", "user.overlay.metacopy"} {
		_ = unix.Fsetxattr(int(a.Fd()), mark, []byte("\x03x"), 0) // not every file system takes them
	}
	m, err := ReadMeta(int(a.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.Create(filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := m.Give(int(b.Fd())); err != nil {
		t.Fatal(err)
	}
	got, err := ReadMeta(int(b.Fd()))
	if err != nil || got.Mode != m.Mode || got.UID != m.UID || got.Mtime != m.Mtime || got.Mtime.Nsec != 4 {
		t.Errorf("got %+v, %v, want %+v", got, err, m)
	}
	if xattrs && (got.Xattrs["user.vfix"] != "v" || len(got.Xattrs) != 1) {
		t.Errorf("xattrs: got %v, want user.vfix alone: the others vouch for another content", got.Xattrs)
	}
	// Each part of the key makes it another one.
	base := m
	keys := map[string]string{}
	add := func(what, key string) {
		if same, ok := keys[key]; ok {
			t.Errorf("%s has the key of %s", what, same)
		}
		keys[key] = what
	}
	sum := sha256.Sum256([]byte("x"))
	add("base", base.Key(sum, "1", ""))
	add("content", base.Key(sha256.Sum256([]byte("y")), "1", ""))
	add("version", base.Key(sum, "2", ""))
	add("id mapping", base.Key(sum, "1", "0 1000 1"))
	for what, change := range map[string]func(*Meta){
		"uid": func(m *Meta) { m.UID++ }, "gid": func(m *Meta) { m.GID++ }, "mode": func(m *Meta) { m.Mode ^= 1 },
		"label": func(m *Meta) { m.Xattrs = nil; m.SetLabel("l") },
	} {
		other := m
		change(&other)
		add(what, other.Key(sum, "1", ""))
	}
	later := m
	later.Mtime.Sec++
	if later.Key(sum, "1", "") != base.Key(sum, "1", "") {
		t.Error("another time makes another key")
	}
}

func TestIndex(t *testing.T) {
	s := open(t, 0)
	if _, err := s.ReadIndex("k"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	for _, text := range []string{"one", "two"} {
		if err := s.WriteIndex("k", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.ReadIndex("k"); err != nil || !bytes.Equal(got, []byte(text)) {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
}

// A lock is only for its key: a slow scan of one image does not block others. Its file is removed when it is
// released, and only one of many has it at a time.
func TestLock(t *testing.T) {
	s := open(t, 0)
	for i := range 1000 { // more than there were locks
		unlock, err := s.Lock("index", fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
	}
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 20 {
				unlock, err := s.Lock("file", "one")
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				inside.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("%d at a time", n)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, locksDir, "file-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A copy that was checked is not read again, but a copy that has changed since is.
func TestSeen(t *testing.T) {
	s := open(t, 0)
	if err := s.Lease(); err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	path := put(t, s, "k", "abc")
	sum := filepath.Join(s.Dir, sumsDir, "k")
	if _, ok := s.Get("k", 3); !ok || s.seen("k", identity(path)) {
		t.Error("written just now: it is gone, or taken for settled")
	}
	settle := func() {
		for deadline := time.Now().Add(time.Minute); identity(path) == "" && time.Now().Before(deadline); {
			time.Sleep(rootfs.Settled / 4)
		}
	}
	settle()
	if _, ok := s.Get("k", 3); !ok {
		t.Fatal("not there")
	}
	if !s.seen("k", identity(path)) {
		if err := unix.Setxattr(sum, seenXattr, []byte("x"), 0); err != nil {
			t.Skip("no extended attributes of users here: ", err)
		}
		t.Fatal("not remembered")
	}
	// The control: the sum is not read again.
	right, err := os.ReadFile(sum)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(sum, []byte("wrong"), privateFile)
	if _, ok := s.Get("k", 3); !ok {
		t.Error("it is read again")
	}
	os.WriteFile(sum, right, privateFile)
	// Another content with the size, mode and times of the old one.
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("abd"), privateFile); err != nil {
		t.Fatal(err)
	}
	os.Chtimes(path, accessTime(fi), fi.ModTime())
	settle()
	if _, ok := s.Get("k", 3); ok {
		t.Error("changed: taken for the copy that was put there")
	}
	// The same file, and what an earlier boot remembered.
	path = put(t, s, "other", "abc")
	settle()
	sum = filepath.Join(s.Dir, sumsDir, "other")
	s.Get("other", 3)
	before := identity(path)
	unix.Setxattr(sum, seenXattr, []byte("another-boot"+before[len(BootID()):]), 0)
	os.WriteFile(sum, []byte("wrong"), privateFile)
	if _, ok := s.Get("other", 3); ok {
		t.Error("seen before the machine was started again: not read")
	}
}

// The private files of starts count: a store within its limit has space for them.
func TestPrivateCopiesCount(t *testing.T) {
	s := open(t, 0)
	for _, key := range []string{"a", "b"} {
		old(t, put(t, s, key, strings.Repeat(key, 10000)), time.Hour)
	}
	if err := s.Lease(); err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if _, err := s.Private("a"); err != nil {
		t.Fatal(err)
	}
	n, err := s.PrivateBytes()
	if err != nil || n < 10000 {
		t.Errorf("got %d bytes, %v", n, err)
	}
	if gone, err := s.Prune(2 * n); err != nil || len(gone) != 1 {
		t.Errorf("got %+v, %v, want one entry gone", gone, err)
	}
}

// A copy that is mounted read-only cannot be written to, even after the flag of its mount is removed.
func TestReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes mounts")
	}
	s := open(t, 0)
	put(t, s, "k", "abc")
	fds, err := s.ReadOnly([]string{"k", "k"})
	if err != nil || len(fds) != 2 {
		t.Fatalf("got %v, %v", fds, err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	path := fmt.Sprintf("/proc/self/fd/%d", fds[0])
	if b, err := os.ReadFile(path); string(b) != "abc" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(fds[0], "", unix.AT_EMPTY_PATH, &attr); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"open": os.WriteFile(path, nil, 0), "chmod": os.Chmod(path, 0o777), "touch": os.Chtimes(path, time.Now(), time.Now())} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if _, err := s.ReadOnly([]string{"none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if b, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(b), s.Dir) {
		t.Error("a mount is seen here")
	}
}
