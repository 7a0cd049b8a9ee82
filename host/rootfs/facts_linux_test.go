package rootfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/internal/thread"
)

// inMemory is a directory on a tmpfs.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "rootfs-")
	var fs unix.Statfs_t
	if err != nil || unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("needs a tmpfs at /dev/shm: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// The properties of a root by its file system.
func TestFileSystems(t *testing.T) {
	opened := descriptors(t)
	for dir, want := range map[string]struct{ dated, stamps, direct bool }{inMemory(t): {true, true, false}, "/proc": {}} {
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if r.Has(Dated) != want.dated || r.Stamps() != want.stamps || r.OnFile() {
			t.Errorf("%s: dated %v, stamps %v, on a file %v", dir, r.Has(Dated), r.Stamps(), r.OnFile())
		}
		if r.Direct = true; r.Stamps() != want.direct {
			t.Errorf("%s: open to others: stamps %v", dir, r.Stamps())
		}
		if id, err := r.Subvolume(); id != "" || err != nil {
			t.Errorf("%s: subvolume %q, %v", dir, id, err)
		}
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil || !r.Within(st.Dev) || r.Within(st.Dev+1) {
			t.Errorf("%s: of another device, %v", dir, err)
		}
		if got, err := r.Stat(); err != nil || got.Ino != st.Ino || got.Mask&unix.STATX_BASIC_STATS != unix.STATX_BASIC_STATS {
			t.Errorf("%s: got %+v, %v", dir, got, err)
		}
		r.Close()
	}
	if _, err := Open("/nonexistent"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("got %v", err)
	}
	if _, err := Open("/proc/self/exe"); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file: got %v", err)
	}
	if _, err := (&Root{fd: -1}).Stat(); !errors.Is(err, unix.EBADF) {
		t.Errorf("the status of none: got %v", err)
	}
	if _, err := Subvolume(-1); err == nil {
		t.Error("of no file: got a subvolume")
	}
	if Stamps(-1, false) || OnFile(-1, unix.Mkdev(8, 1)) || !OnFile(-1, unix.Mkdev(7, 1)) {
		t.Error("no file: got stamps, or an ordinary device on a file, or a loop device on none")
	}
	if n := descriptors(t); n > opened {
		t.Errorf("%d files are open, and %d were before", n, opened)
	}
}

// The names of sysfs by which a device is made from a file, at any depth.
func TestOnFile(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"sda/sda1", "loop0/loop", "loop0/loop0p1", "dm-0/slaves/sda", "dm-1/slaves/dm-2/slaves/loop0/loop"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"sda": false, "sda/sda1": false, "loop0": true, "loop0/loop0p1": true, "dm-0": false, "dm-1": true, "none": false} {
		if got := onFile(filepath.Join(dir, name)); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// The facts of the kernel about a descriptor.
func TestFdinfo(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	proc, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	one, err1 := MountOf(int(f.Fd()))
	other, err2 := MountOf(int(proc.Fd()))
	if err := errors.Join(err1, err2); err != nil || one == other || one <= 0 {
		t.Errorf("got mounts %d and %d, %v", one, other, err)
	}
	if _, err := MountOf(-1); !errors.Is(err, unix.ENOENT) {
		t.Errorf("got %v", err)
	}
	file := filepath.Join(t.TempDir(), "info")
	if err := os.WriteFile(file, []byte("pos:\t7\nxmnt_id:\t1\nmnt_id:\t23\nlast: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for member, want := range map[string]string{"pos": "7", "mnt_id": "23", "last": "x", "os": "", "ino": ""} {
		if got, err := Fdinfo(file, member); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v", member, got, err)
		}
	}
}

// A file of a layer in an overlay: with another device, and another upper half of its number.
func TestSameFile(t *testing.T) {
	a := Identity{Dev: 1, Ino: 5, Size: 2, Mtime: 3, Ctime: 4}
	for name, c := range map[string]struct {
		change func(*Identity)
		want   bool
	}{
		"itself": {func(*Identity) {}, true}, "device": {func(b *Identity) { b.Dev++ }, true}, "upper half": {func(b *Identity) { b.Ino += 7 << 32 }, true},
		"number": {func(b *Identity) { b.Ino++ }, false}, "size": {func(b *Identity) { b.Size++ }, false}, "mtime": {func(b *Identity) { b.Mtime++ }, false}, "ctime": {func(b *Identity) { b.Ctime++ }, false},
	} {
		b := a
		if c.change(&b); a.SameFile(b) != c.want || b.SameFile(a) != c.want {
			t.Errorf("%s: got %v", name, !c.want)
		}
	}
}

// Reads beyond the end, holes, and files that somebody has open for writing.
func TestFiles(t *testing.T) {
	dir := inMemory(t)
	write := func(name, text string, size int64) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "abc", 3)
	page := os.Getpagesize()
	data := strings.Repeat("x", 2*page)
	write("holes", data, int64(5*page))
	write("half holes", data, int64(4*page))
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for name, sparse := range map[string]bool{"a": false, "holes": true, "half holes": false} {
		f, err := r.OpenFile(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Sparse() != sparse || !f.Dates() {
			t.Errorf("%s: sparse %v, dates %v", name, f.Sparse(), f.Dates())
		}
		w, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if f.Dates() {
			t.Errorf("%s: open for writing, and dates", name)
		}
		w.Close()
	}
	f, err := r.OpenFile("a")
	if err != nil {
		t.Fatal(err)
	}
	for off, want := range map[int64]string{0: "abc", 1: "bc", 3: "", 9: ""} {
		b := make([]byte, 5)
		if n, err := f.ReadAt(b, off); string(b[:n]) != want || err != io.EOF {
			t.Errorf("from %d: got %q, %v", off, b[:n], err)
		}
	}
	if n, err := f.ReadAt(make([]byte, 3), 0); n != 3 || err != nil {
		t.Errorf("all: got %d, %v", n, err)
	}
	if _, err := f.ReadAt(make([]byte, 1), -1); !errors.Is(err, unix.EINVAL) {
		t.Errorf("before it: got %v", err)
	}
	f.Close()
	if err := f.Unchanged(); !errors.Is(err, unix.EBADF) {
		t.Errorf("closed: got %v", err)
	}
	opened := descriptors(t)
	for _, name := range []string{"a", ".", "none"} {
		at, err := r.Name(name)
		if (err == nil) != (name != "none") {
			t.Errorf("%s: got %v", name, err)
		}
		f, err := r.FileOf(at)
		if (err == nil) != (name == "a") || name == "." && !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: got %v", name, err)
		}
		if err == nil {
			f.Close()
		}
		unix.Close(at)
	}
	if n := descriptors(t); n > opened {
		t.Errorf("%d files are open, and %d were before", n, opened)
	}
}

// Names that are not real paths, other mounts, and interrupted calls; nothing stays open.
func TestOpenIsStrict(t *testing.T) {
	dir, both := tree(t)
	for kind, r := range both {
		opened := descriptors(t)
		for name, want := range map[string]error{"../secret": unix.EXDEV, "usr/../../secret": unix.EXDEV, "/etc": unix.EXDEV, "lib/x": unix.ELOOP, "usr/lib/libc.so.6/x": unix.ENOTDIR, "none/x": unix.ENOENT} {
			if fd, err := r.openReal(name, unix.O_PATH, false); fd != -1 || !errors.Is(err, want) && !(name == "lib/x" && errors.Is(err, unix.ENOTDIR)) {
				t.Errorf("%s: %s: got %d, %v, want %v", kind, name, fd, err, want)
			}
		}
		for name, want := range map[string]uint32{"": unix.S_IFDIR, "usr": unix.S_IFDIR, "lib": unix.S_IFLNK, "fifo": unix.S_IFIFO, "usr/lib/libc.so.6": unix.S_IFREG, "none": 0} {
			if st, err := r.Lstat(name); st.Mode&unix.S_IFMT != want || (err == nil) != (want != 0) {
				t.Errorf("%s: %q: got %o, %v", kind, name, st.Mode, err)
			}
		}
		for name, want := range map[string]error{"usr": nil, "": nil, "usr/lib/libc.so.6": unix.ENOTDIR, "none": unix.ENOENT} {
			fd, err := r.OpenDir(name)
			if !errors.Is(err, want) {
				t.Errorf("%s: %q: got %v", kind, name, err)
			}
			unix.Close(fd)
		}
		for name, want := range map[string]error{"lib": nil, "usr": rootpath.ErrNoLink, "none": unix.ENOENT} {
			if got, err := r.readlink(name); !errors.Is(err, want) || want == nil && got != "usr/lib" {
				t.Errorf("%s: %q: got %q, %v", kind, name, got, err)
			}
		}
		if n := descriptors(t); n > opened {
			t.Errorf("%s: %d files are open, and %d were before", kind, n, opened)
		}
	}
	calls := 0
	for _, c := range []struct{ fails, want int }{{0, 1}, {100, 101}, {101, 101}} {
		calls = 0
		_, err := retry(func() (int, error) {
			if calls++; calls <= c.fails {
				return -1, []error{unix.EINTR, unix.EAGAIN}[calls%2]
			}
			return 7, nil
		})
		if calls != c.want || (err == nil) != (c.fails < 101) {
			t.Errorf("%d failures: %d calls, %v", c.fails, calls, err)
		}
	}
	calls = 0
	if _, err := retry(func() (int, error) { calls++; return -1, unix.ENOENT }); calls != 1 || !errors.Is(err, unix.ENOENT) {
		t.Errorf("an error that stays: %d calls, %v", calls, err)
	}
	if os.Geteuid() != 0 {
		return
	}
	done := make(chan []string)
	thread.Go(func() { // with mounts of its own
		var wrong []string
		defer func() { done <- wrong }()
		if unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS) != nil || unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil || unix.Mount("tmpfs", dir+"/deep", "tmpfs", 0, "") != nil {
			return
		}
		for _, steps := range []bool{false, true} {
			r, err := Open(dir)
			if err != nil {
				wrong = append(wrong, err.Error())
				return
			}
			r.walk.Store(steps)
			for _, c := range []struct {
				name  string
				oneFS bool
				want  error
			}{{"deep", false, nil}, {"deep", true, unix.EXDEV}, {"usr/lib", true, nil}, {"deep/x", true, unix.EXDEV}, {"", true, nil}} {
				fd, err := r.openReal(c.name, unix.O_PATH, c.oneFS)
				if !errors.Is(err, c.want) {
					wrong = append(wrong, c.name+": "+err.Error())
				}
				unix.Close(fd)
			}
			for _, open := range []func(string) (int, error){r.Name, r.OpenDir} { // also in other mounts
				fd, err := open("deep")
				if err != nil {
					wrong = append(wrong, err.Error())
				}
				unix.Close(fd)
			}
			r.Close()
		}
	})
	if wrong := <-done; len(wrong) > 0 {
		t.Errorf("got %s", strings.Join(slices.Compact(wrong), "; "))
	}
}

// Seccomp filters of engines that do not know openat2: the path is opened step by step.
func TestOpenIsFiltered(t *testing.T) {
	dir, _ := tree(t)
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM, unix.EACCES} {
		done := make(chan error)
		thread.Go(func() {
			const number = 0 // offset in struct seccomp_data
			filter := []unix.SockFilter{
				{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
				{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT2, Jf: 1},
				{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
				{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
			}
			program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
			if err := errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
				unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)); err != nil {
				done <- err
				return
			}
			r, err := Open(dir)
			if err == nil {
				defer r.Close()
				_, err = r.Lstat("usr/lib/libc.so.6")
				if err == nil && !r.walk.Load() {
					err = errors.New("the next path is tried again")
				}
			}
			done <- err
		})
		if err := <-done; errno == unix.EACCES && !errors.Is(err, errno) || errno != unix.EACCES && err != nil {
			t.Errorf("%v: got %v", errno, err)
		}
	}
}
