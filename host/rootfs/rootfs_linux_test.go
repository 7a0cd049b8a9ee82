package rootfs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/rootpath"
)

// tree makes a root with a secret beside it, and returns it opened in two ways: with openat2, and step by step.
func tree(t *testing.T) (dir string, both map[string]*Root) {
	t.Helper()
	top := t.TempDir()
	dir = filepath.Join(top, "root")
	for _, d := range []string{"usr/lib", "etc", "deep/er"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string) {
		if err := os.WriteFile(name, []byte(filepath.Base(name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(top, "secret"))
	write(filepath.Join(dir, "usr/lib/libc.so.6"))
	for name, target := range map[string]string{
		"lib": "usr/lib", "abs": "/usr/lib", "up": "../../../../..", "out": filepath.Join(top, "secret"),
		"usr/out": "../../secret", "loop": "loop", "a": "b", "b": "a", "etc/libc": "../usr/lib/libc.so.6",
		"gone": "nowhere/x", "top": "/", "magic": "/proc/self/root",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	both = map[string]*Root{}
	for _, kind := range []string{"openat2", "steps"} {
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		r.walk.Store(kind == "steps")
		both[kind] = r
	}
	return dir, both
}

// A path that leads out of the root, or through a symlink, is not opened; a file by its real path is.
func TestOpenFile(t *testing.T) {
	_, both := tree(t)
	for kind, r := range both {
		f, err := r.OpenFile("usr/lib/libc.so.6")
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		var b [4]byte
		if _, err := f.ReadAt(b[:], 0); err != nil || string(b[:]) != "libc" {
			t.Errorf("%s: got %q, %v", kind, b, err)
		}
		if err := f.Unchanged(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		f.Close()
		for _, name := range []string{
			"../secret", "usr/../../secret", "/etc/passwd", "out", "usr/out", "lib/libc.so.6", "abs/libc.so.6", "etc/libc",
			"up/etc/passwd", "loop", "a", "top/usr/lib/libc.so.6", "magic/etc/passwd", "fifo", "usr", "", ".", "none",
			"usr/lib/libc.so.6/x", "usr/lib/libc.so.6/..",
		} {
			if f, err := r.OpenFile(name); err == nil {
				t.Errorf("%s: %q was opened: %d bytes", kind, name, f.Stat.Size)
				f.Close()
			}
		}
		for name, want := range map[string]error{"fifo": ErrNotRegular, "none": unix.ENOENT} {
			if _, err := r.OpenFile(name); !errors.Is(err, want) {
				t.Errorf("%s: %s: got %v", kind, name, err)
			}
		}
	}
}

func TestResolve(t *testing.T) {
	_, both := tree(t)
	for kind, r := range both {
		for name, want := range map[string]string{
			"usr/lib/libc.so.6": "usr/lib/libc.so.6", "lib/libc.so.6": "usr/lib/libc.so.6", "/abs//libc.so.6": "usr/lib/libc.so.6",
			"etc/libc": "usr/lib/libc.so.6", "up": "", "up/etc": "etc", "../../etc": "etc", "top/lib": "usr/lib",
			"gone": "nowhere/x", "nowhere/../etc": "etc", "out": strings.TrimPrefix(filepath.Join(filepath.Dir(r.Path), "secret"), "/"),
			"usr/out": "secret", "usr/lib/libc.so.6/x": "usr/lib/libc.so.6/x", "": "", "magic/x": "proc/self/root/x",
		} {
			got, err := r.Resolve(name)
			if err != nil || got != want {
				t.Errorf("%s: %q: got %q, %v, want %q", kind, name, got, err, want)
			}
		}
		for _, name := range []string{"loop", "a/x"} {
			if got, err := r.Resolve(name); !errors.Is(err, rootpath.ErrLoop) {
				t.Errorf("%s: %q: got %q, %v", kind, name, got, err)
			}
		}
	}
}

func TestWalk(t *testing.T) {
	_, both := tree(t)
	for kind, r := range both {
		var names []string
		err := r.Walk(1, func() Visitor {
			return Visitor{
				File:   func(e *Entry) error { names = append(names, e.Name()); return nil },
				Passed: func(name string, err error) { t.Errorf("%s: %s: %v", kind, name, err) },
			}
		})
		if want := []string{"usr/lib/libc.so.6"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("%s: got %q, %v, want %q", kind, names, err, want)
		}
	}
}

// Several walkers visit the files of one, each once; an error of one ends all.
func TestWalkSideBySide(t *testing.T) {
	dir := t.TempDir()
	want := map[string]int{}
	for i := range 40 {
		for j := range 40 {
			at := fmt.Sprintf("%d/%d/%s", i, j%7, strings.Repeat("d/", j%5))
			if err := os.MkdirAll(filepath.Join(dir, at), 0o755); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s%d", at, j)
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			want[name] = 1
		}
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	open, _ := os.ReadDir("/proc/self/fd")
	for range 20 {
		var visitors []map[string]int
		err := r.Walk(4, func() Visitor {
			mine := map[string]int{}
			visitors = append(visitors, mine)
			return Visitor{
				File:   func(e *Entry) error { mine[e.Name()]++; runtime.Gosched(); return nil },
				Passed: func(name string, err error) { t.Errorf("%s: %v", name, err) },
			}
		})
		got := map[string]int{}
		for _, v := range visitors {
			for name, n := range v {
				got[name] += n
			}
		}
		if err != nil || len(visitors) != 4 || !maps.Equal(got, want) {
			t.Fatalf("%d walkers: got %d files, %v, want %d", len(visitors), len(got), err, len(want))
		}
	}
	enough, n := errors.New("enough"), atomic.Int64{}
	err = r.Walk(4, func() Visitor {
		return Visitor{File: func(*Entry) error {
			if n.Add(1) > 1000 {
				return enough
			}
			return nil
		}}
	})
	if err != enough || n.Load() > 1004 {
		t.Errorf("got %v after %d files, want %v", err, n.Load(), enough)
	}
	if now, _ := os.ReadDir("/proc/self/fd"); len(now) != len(open) {
		t.Errorf("%d files are open, want %d", len(now), len(open))
	}
}

// A walk keeps a part of the names of one directory at a time, not the paths of all future ones: many empty
// directories far down would take gigabytes.
func TestWalkIsSmall(t *testing.T) {
	const dirs, depth = 2000, 12
	dir := t.TempDir()
	deep := dir
	for range depth {
		deep = filepath.Join(deep, strings.Repeat("d", 240))
	}
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range dirs {
		if err := os.Mkdir(filepath.Join(deep, fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, steps := range []bool{false, true} {
		r.walk.Store(steps)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		seen := 0
		err = r.Walk(1, func() Visitor {
			return Visitor{
				File:   func(*Entry) error { return nil },
				Seen:   func() error { seen++; return nil },
				Passed: func(name string, err error) { t.Errorf("%.20s: %v", name, err) },
			}
		})
		runtime.ReadMemStats(&after)
		if err != nil || seen != dirs+depth {
			t.Errorf("got %d names, %v, want %d", seen, err, dirs+depth)
		}
		const most = 1 << 20 // bytes; the paths are 5.5 MiB
		if got := after.TotalAlloc - before.TotalAlloc; got > most {
			t.Errorf("step by step %v: %d bytes allocated, want at most %d", steps, got, most)
		}
	}
}

func TestUnchanged(t *testing.T) {
	dir, both := tree(t)
	f, err := both["openat2"].OpenFile("usr/lib/libc.so.6")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.WriteFile(filepath.Join(dir, "usr/lib/libc.so.6"), []byte("other content"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.Unchanged(); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v, want %v", err, ErrChanged)
	}
}

// FuzzResolve: for any names and links of an image, the result is a real path inside.
func FuzzResolve(f *testing.F) {
	f.Add("a/b", "../x", "/c/../..")
	f.Add("loop", "loop", "//")
	f.Fuzz(func(t *testing.T, name, target, link string) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "d"), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsRune(target, 0) || target == "" || os.Symlink(target, filepath.Join(dir, "d", "l")) != nil {
			return
		}
		if strings.ContainsRune(link, 0) || link == "" || os.Symlink(link, filepath.Join(dir, "m")) != nil {
			return
		}
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, walk := range []bool{false, true} {
			r.walk.Store(walk)
			for _, path := range []string{name, "m/" + name, "d/l/" + name} {
				real, err := r.Resolve(path)
				if err != nil {
					continue
				}
				for _, part := range strings.Split(real, "/") {
					if part == ".." || part == "." || part == "" && real != "" {
						t.Fatalf("%q became %q", path, real)
					}
				}
				if st, err := r.Lstat(real); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
					t.Fatalf("%q became %q, a symlink", path, real)
				}
			}
		}
	})
}

// A change within a tick of the file system's clock, or within a second on one that counts seconds, may be
// followed by an invisible one.
func TestUnsettled(t *testing.T) {
	second := time.Unix(1e9, 0)
	for _, c := range []struct {
		ctime, now time.Duration
		want       bool
	}{
		{5, 5 + Settled/2, true}, {5, 5 + Settled, false}, {5, 5 - Settled, true},
		{0, 900 * time.Millisecond, true}, {0, time.Second + Settled, false},
	} {
		id := Identity{Ctime: second.Add(c.ctime).UnixNano()}
		if got := id.Unsettled(second.Add(c.now)); got != c.want {
			t.Errorf("ctime %v, now %v: got %v", c.ctime, c.now, got)
		}
	}
}

// A root's own mount shows the same files, and opens them directly, but no device; files under other mounts are
// visible.
func TestAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a mount takes root")
	}
	dir, both := tree(t)
	r := both["openat2"]
	if err := unix.Mknod(filepath.Join(dir, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Skip(err)
	}
	walk := func(r *Root) (all []string) {
		err := r.Walk(1, func() Visitor {
			return Visitor{File: func(e *Entry) error {
				if r.alone != (e.file != nil) {
					t.Errorf("%s: opened directly: %v", e.Name(), e.file != nil)
				}
				f, err := e.Open()
				if err != nil {
					return err
				}
				defer f.Close()
				b := make([]byte, f.Stat.Size)
				_, err = f.ReadAt(b, 0)
				all = append(all, fmt.Sprintf("%s %s %v %v", e.Name(), b, f.ID(), f.ID() == IdentityOf(&e.Stat)))
				return err
			}, Passed: func(name string, err error) { t.Errorf("%s: %v", name, err) }}
		})
		if err != nil {
			t.Error(err)
		}
		return all
	}
	before := walk(r)
	own, err := r.Alone()
	if err != nil {
		t.Skip("no mount here, before Linux 5.12 or without CAP_SYS_ADMIN:", err)
	}
	defer own.Close()
	if !own.alone {
		t.Error("not alone")
	}
	if after := walk(own); !slices.Equal(before, after) || len(after) == 0 {
		t.Errorf("got %q, before that %q", after, before)
	}
	if _, err := own.openat(own.fd, []byte("null\x00"), unix.O_RDONLY); !errors.Is(err, unix.EACCES) {
		t.Errorf("a device: got %v, want %v", err, unix.EACCES)
	}
	for _, name := range []string{"null", "fifo", "usr"} { // as if each had just taken a file's place
		e := &Entry{r: own, at: own.fd}
		if err := e.look([]byte(name+"\x00"), unix.DT_REG); err != nil || e.file != nil || e.Stat.Mode&unix.S_IFMT == unix.S_IFREG {
			t.Errorf("%s: got %+v, %v", name, e, err)
		}
	}
}
