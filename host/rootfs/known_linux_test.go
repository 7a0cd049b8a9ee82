package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/thread"
)

// A directory whose names are known is not read again: the walk is the same, of a root and of one in a mount of its
// own; a changed one is read.
func TestKnownDirectories(t *testing.T) {
	dir, both := tree(t)
	if err := os.WriteFile(filepath.Join(dir, "deep/er/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	roots := []*Root{both["openat2"], both["steps"]}
	if own, err := both["openat2"].Alone(); err == nil {
		defer own.Close()
		roots = append(roots, own)
	}
	for n, r := range roots {
		opened := descriptors(t)
		kept := map[uint64][]byte{} // by inode
		var log []string
		walk := func(known func(*unix.Stat_t) []byte) error {
			log = nil
			return r.Walk(1, func() Visitor {
				return Visitor{
					File: func(e *Entry) error {
						f, err := e.Open()
						if err != nil {
							return err
						}
						defer f.Close()
						again, err := e.Open() // by its name
						if err != nil || again.ID() != f.ID() {
							return fmt.Errorf("opened again: %w", err)
						}
						again.Close()
						log = append(log, e.Name())
						return nil
					},
					Passed: func(name string, err error) { log = append(log, name+": "+err.Error()) },
					Seen:   func() error { log = append(log, "seen"); return nil },
					Opened: func(fd int) {
						var st unix.Stat_t
						if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
							t.Errorf("%d: opened %o, %v", n, st.Mode, err)
						}
						log = append(log, "read")
					},
					Known: known,
					Read: func(st *unix.Stat_t, names []byte) {
						if _, again := kept[st.Ino]; again {
							t.Errorf("%d: a directory is read twice", n)
						}
						kept[st.Ino] = slices.Clone(names)
					},
				}
			})
		}
		sum := func() string {
			var files []string
			seen, read := 0, 0
			for _, l := range log {
				switch l {
				case "seen":
					seen++
				case "read":
					read++
				default:
					files = append(files, l)
				}
			}
			slices.Sort(files)
			return fmt.Sprintf("%d seen, %d read, %s", seen, read, strings.Join(files, " "))
		}
		const files = "deep/er/file usr/lib/libc.so.6"
		none := func(*unix.Stat_t) []byte { return nil }
		if err := walk(none); err != nil || sum() != "7 seen, 6 read, "+files || len(kept) != 6 {
			t.Errorf("%d: got %s, %d kept, %v", n, sum(), len(kept), err)
		}
		if _, last, _ := strings.Cut(string(kept[inode(t, dir, "usr/lib")]), "\x08"); last != "libc.so.6\x00" { // DT_REG
			t.Errorf("%d: kept %q", n, last)
		}
		all := kept
		kept = map[uint64][]byte{}
		if err := walk(func(st *unix.Stat_t) []byte { return append(all[st.Ino], 0)[:max(len(all[st.Ino]), 1)] }); err != nil || sum() != "7 seen, 0 read, "+files || len(kept) != 0 {
			t.Errorf("%d, known: got %s, %d kept, %v", n, sum(), len(kept), err)
		}
		var root unix.Stat_t
		if err := unix.Stat(dir, &root); err != nil {
			t.Fatal(err)
		}
		some := func(st *unix.Stat_t) []byte {
			if st.Ino == root.Ino {
				return nil
			}
			return append(all[st.Ino], 0)[:max(len(all[st.Ino]), 1)]
		}
		if err := walk(some); err != nil || sum() != "7 seen, 1 read, "+files || len(kept) != 1 {
			t.Errorf("%d, known but the root: got %s, %d kept, %v", n, sum(), len(kept), err)
		}
		if err := walk(func(*unix.Stat_t) []byte { return []byte("\x08name") }); err == nil || !strings.Contains(err.Error(), "a name without an end") {
			t.Errorf("%d, half a name: got %v", n, err)
		}
		gone := func(st *unix.Stat_t) []byte {
			if st.Ino == root.Ino {
				return []byte("\x08gone\x00\x04none\x00\x08fifo\x00\x00usr\x00")
			}
			return nil
		}
		kept = map[uint64][]byte{}
		if err := walk(gone); err != nil || sum() != "6 seen, 2 read, none: "+unix.ENOENT.Error()+" usr/lib/libc.so.6" {
			t.Errorf("%d, names that are gone: got %s, %v", n, sum(), err)
		}
		enough := errors.New("enough")
		if err := r.Walk(1, func() Visitor { return Visitor{Seen: func() error { return enough }} }); err != enough {
			t.Errorf("%d: got %v", n, err)
		}
		if now := descriptors(t); now > opened {
			t.Errorf("%d: %d files are open, and %d were before", n, now, opened)
		}
	}
}

func inode(t *testing.T, path ...string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(path...), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// Names that vanish during a walk, and files that are not understood.
func TestWalkBroken(t *testing.T) {
	dir, both := tree(t)
	r := both["openat2"]
	var passed []string
	removed := inode(t, dir, "deep/er")
	visitor := Visitor{
		File: func(e *Entry) error {
			if e.Name() == "unreadable" {
				return nil
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
			if _, err := e.Open(); !errors.Is(err, unix.ENOENT) {
				t.Errorf("%s, removed: got %v", e.Name(), err)
			}
			return nil
		},
		Passed: func(name string, err error) { passed = append(passed, name+": "+err.Error()) },
		Opened: func(fd int) {
			var st unix.Stat_t
			if unix.Fstat(fd, &st) == nil && st.Ino == removed {
				if err := os.Remove(filepath.Join(dir, "deep/er")); err != nil {
					t.Error(err)
				}
			}
		},
		Known: func(*unix.Stat_t) []byte { return nil },
		Read: func(st *unix.Stat_t, _ []byte) {
			if st.Ino == removed || st.Ino == 0 {
				t.Error("read: a removed directory, or one without a status")
			}
		},
	}
	if err := r.Walk(1, func() Visitor { return visitor }); err != nil || !slices.Equal(passed, []string{"deep/er: " + unix.ENOENT.Error()}) {
		t.Errorf("got %q, %v", passed, err)
	}
	for _, c := range []struct{ entry, err string }{
		{"", ""},
		{"\x13", "of 19 bytes"}, {"\x15\x00\x04", "of 21 bytes"}, {"\x14\x00\x04.", "without an end"},
		{"\x15\x00\x04x\x00", ""}, {"\x14\x00\x04\x00", ""},
	} {
		w := (&group{r: r, start: func() Visitor { return Visitor{} }}).walker()
		entry := make([]byte, direntReclen, 32)
		entry = append(entry, c.entry...)
		if c.entry != "" && len(entry) < direntName+1 { // the rest of a name that is cut
			entry = append(entry, make([]byte, direntName+1-len(entry))...)
		}
		if err := w.entries(&level{}, entry); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: got %v, want %q", entry, err, c.err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	// A directory in which names can be read and no status, as for root in a user namespace.
	shut := filepath.Join(dir, "shut")
	for _, err := range []error{os.Mkdir(shut, 0o755), os.WriteFile(filepath.Join(dir, "unreadable"), nil, 0), os.WriteFile(shut+"/file", nil, 0o644), os.Symlink("x", shut+"/link"), os.Chmod(shut, 0o744), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	passed, visitor.Known, visitor.Opened = nil, nil, nil
	done := make(chan error)
	thread.Go(func() {
		unix.SetfsuidRetUid(65534)
		if _, err := r.OpenFile("unreadable"); !errors.Is(err, unix.EACCES) {
			t.Errorf("a file without permissions: got %v", err)
		}
		done <- r.Walk(1, func() Visitor { return visitor })
	})
	err := <-done
	if slices.Sort(passed); err != nil || !slices.Equal(passed, []string{"shut/file: " + unix.EACCES.Error(), "shut/link: " + unix.EACCES.Error()}) {
		t.Errorf("names without a status: got %q, %v", passed, err)
	}
}

// Directories with too many names to keep, paths that are too long, and other mounts.
func TestWalkLimits(t *testing.T) {
	dir := inMemory(t)
	many := filepath.Join(dir, "many")
	if err := os.Mkdir(many, 0o755); err != nil {
		t.Fatal(err)
	}
	const name = 250
	for n := range maxKept/(name+2) + 2 {
		at := filepath.Join(many, fmt.Sprintf("%0*d", name, n))
		var err error
		if n%2 == 0 {
			err = os.Mkdir(at, 0o755)
		} else {
			err = os.WriteFile(at, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	deep := dir
	for len(deep)+1+200 < maxPath {
		deep = filepath.Join(deep, strings.Repeat("d", 199))
	}
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	at, err := os.Open(deep)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	fits := maxPath - len(deep) - 1
	for _, length := range []int{fits, fits + 1} {
		fd, err := unix.Openat(int(at.Fd()), strings.Repeat("f", length), unix.O_CREAT|unix.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
	walk := func(r *Root) (files, kept int, passed []string, err error) {
		err = r.Walk(1, func() Visitor {
			return Visitor{
				File: func(e *Entry) error {
					_, err := r.Lstat(e.Name())
					files++
					return err
				},
				Passed: func(name string, err error) {
					passed = append(passed, fmt.Sprintf("%.20s…%d %v", name, len(name), err))
				},
				Read:  func(st *unix.Stat_t, names []byte) { kept++ },
				Known: func(*unix.Stat_t) []byte { return nil },
			}
		})
		return files, kept, passed, err
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files, kept, passed, err := walk(r)
	const half = (maxKept/(name+2) + 2) / 2
	dirs := 1 + (maxKept/(name+2)+3)/2 + strings.Count(deep, "/") - strings.Count(dir, "/") // all but the one with many
	if err != nil || files != 1+half || kept != dirs || len(passed) != 1 || passed[0] != strings.Repeat("d", 20)+"…63 file name too long" {
		t.Errorf("got %d files, %d directories kept, want %d, %q, %v", files, kept, dirs, passed, err)
	}
	if os.Geteuid() != 0 {
		return
	}
	done := make(chan []string)
	thread.Go(func() { // with mounts of its own
		var wrong []string
		defer func() { done <- wrong }()
		if unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS) != nil || unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil || unix.Mount("tmpfs", many, "tmpfs", 0, "") != nil {
			return
		}
		for _, steps := range []bool{false, true} {
			r, err := Open(dir)
			if err != nil {
				wrong = append(wrong, err.Error())
				return
			}
			r.walk.Store(steps)
			if _, _, passed, err := walk(r); err != nil || !slices.Contains(passed, "many…4 "+ErrMount.Error()) {
				wrong = append(wrong, fmt.Sprint(passed, err))
			}
			r.Close()
		}
	})
	if wrong := <-done; len(wrong) > 0 {
		t.Errorf("another mount: got %q", wrong)
	}
}
