package patch_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// TestPatchKeepsPrivileges: owner, setuid, capabilities, ACLs and user xattrs.
func TestPatchKeepsPrivileges(t *testing.T) {
	imagetest.AsRoot(t, "owners and capabilities")
	dir := imagetest.LegacyDir(t)
	file := dir + "/bin/c"
	// A POSIX ACL of version 2 that gives user 1234 r-x: linux/posix_acl_xattr.h.
	acl := "\x02\x00\x00\x00" + "\x01\x00\x07\x00\xff\xff\xff\xff" + "\x02\x00\x05\x00\xd2\x04\x00\x00" +
		"\x04\x00\x05\x00\xff\xff\xff\xff" + "\x10\x00\x05\x00\xff\xff\xff\xff" + "\x20\x00\x01\x00\xff\xff\xff\xff"
	xattrs := map[string]string{"security.capability": imagetest.CapNetRaw, "user.note": "kept", "system.posix_acl_access": acl}
	if err := os.Chown(file, 1234, 5678); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(file, 0o6751); err != nil {
		t.Fatal(err)
	}
	for k, v := range xattrs {
		if err := unix.Setxattr(file, k, []byte(v), 0); errors.Is(err, unix.ENOTSUP) {
			delete(xattrs, k)
			t.Logf("%s: the file system has none", k)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	os.Chtimes(file, imagetest.TestTime, imagetest.TestTime)
	var want, got unix.Stat_t
	if err := unix.Stat(file, &want); err != nil {
		t.Fatal(err)
	}
	check := func(name string) {
		t.Helper()
		if err := unix.Stat(name, &got); err != nil {
			t.Fatal(err)
		}
		if got.Uid != want.Uid || got.Gid != want.Gid || got.Mode != want.Mode || got.Mtim != want.Mtim {
			t.Errorf("got owner %d:%d mode %#o time %v, want %d:%d %#o %v", got.Uid, got.Gid, got.Mode, got.Mtim, want.Uid, want.Gid, want.Mode, want.Mtim)
		}
		for k, v := range xattrs {
			b := make([]byte, 100)
			n, err := unix.Getxattr(name, k, b)
			if err != nil || string(b[:n]) != v {
				t.Errorf("%s: got %q (error %v), want %q", k, b[:max(n, 0)], err, v)
			}
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	imagetest.Patch(t, patch.Options{Output: out}, dir)
	check(out + "/bin/c")
	imagetest.Patch(t, patch.Options{InPlace: true}, dir)
	check(file)
	imagetest.WantContent(t, file, imagetest.FixedELF("c"))
}

// mount mounts a file system for a test.
func mount(t *testing.T, kind, dir, options string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(kind, dir, kind, 0, options); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

// TestPatchMounts: files on another file system are patched except with -x, and the kernel's own files are not read.
func TestPatchMounts(t *testing.T) {
	imagetest.AsRoot(t, "mounts file systems")
	dir := imagetest.LegacyDir(t)
	mount(t, "sysfs", dir+"/sys", "")
	mount(t, "tmpfs", dir+"/mnt", "size=1m")
	imagetest.Write(t, dir+"/mnt/d", imagetest.LegacyELF("d"))
	for oneFS, want := range map[bool]string{true: "b=lib/a bin/c", false: "b=lib/a bin/c mnt/d"} {
		f := imagetest.Patch(t, patch.Options{DryRun: true, OneFS: oneFS}, dir)
		if got := strings.ReplaceAll(imagetest.Paths(f), dir+"/", ""); got != want || len(f.Passed) > 0 {
			t.Errorf("-x %v: got %s, passed over %v, want %s", oneFS, got, f.Passed, want)
		}
	}
}

// TestPatchDiskFull: a file that does not fit stays as it was, and nothing is left of its copy; a repeated run completes.
func TestPatchDiskFull(t *testing.T) {
	imagetest.AsRoot(t, "mounts a small tmpfs")
	mnt := t.TempDir()
	mount(t, "tmpfs", mnt, "size=3m")
	// A copy of the first fits beside them, one of the second does not.
	small, large := string(imagetest.Noise(200<<10)), string(imagetest.Noise(1600<<10))
	imagetest.Write(t, mnt+"/1", imagetest.LegacyELF(small))
	imagetest.Write(t, mnt+"/2", imagetest.LegacyELF(large))
	_, err := patch.All(context.Background(), []string{mnt + "/2"}, patch.Options{Output: mnt + "/4"})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), mnt+"/2") {
		t.Errorf("a copy: got error %v, want %v with the file's name", err, syscall.ENOSPC)
	}
	imagetest.WantEmpty(t, mnt, "1", "2")
	_, err = patch.All(context.Background(), []string{mnt}, patch.Options{InPlace: true})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), mnt+"/2: ") {
		t.Errorf("got error %v, want %v with the file's name", err, syscall.ENOSPC)
	}
	imagetest.WantContent(t, mnt+"/1", imagetest.FixedELF(small))
	imagetest.WantContent(t, mnt+"/2", imagetest.LegacyELF(large))
	imagetest.WantEmpty(t, mnt, "1", "2")
	if err := unix.Mount("tmpfs", mnt, "tmpfs", unix.MS_REMOUNT, "size=9m"); err != nil {
		t.Fatal(err)
	}
	imagetest.Patch(t, patch.Options{InPlace: true}, mnt)
	imagetest.WantContent(t, mnt+"/2", imagetest.FixedELF(large))
	imagetest.Patch(t, patch.Options{Output: mnt + "/3"}, mnt+"/1")
	imagetest.WantEmpty(t, mnt, "1", "2", "3")
}

// TestPatchRunning: a program that runs is replaced; the running one keeps its old file.
func TestPatchRunning(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	file := dir + "/bin/c"
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, len(imagetest.LegacyELF("c")), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	imagetest.Patch(t, patch.Options{InPlace: true}, file)
	imagetest.WantContent(t, file, imagetest.FixedELF("c"))
	if string(b) != string(imagetest.LegacyELF("c")) {
		t.Error("what is mapped was written to")
	}
}

// TestScanSkipsProc: a mounted proc is not walked into, and a fifo is not waited for.
func TestScanSkipsProc(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	if err := unix.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(dir string) *os.File {
		f := imagetest.Must[*os.File](t)(os.Open(dir))
		t.Cleanup(func() { f.Close() })
		return f
	}
	if !contents.Special(open("/proc")) {
		t.Error("/proc is not recognised as a special file system")
	}
	if contents.Special(open(dir + "/lib")) {
		t.Error("an ordinary directory is taken for a special file system")
	}
	f, err := images.Scan(context.Background(), "dir:"+dir, images.ScanOptions{})
	if err != nil || len(f.Files) != 2 {
		t.Errorf("got %v, error %v", f, err)
	}
}

// TestUnread: what may not be read, or is damaged, may have call sites; what has another content has none.
func TestUnread(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	damaged := imagetest.LegacyELF("d")
	damaged[32+8-1] = 0xff // e_phoff beyond the file
	imagetest.Write(t, dir+"/damaged", damaged)
	if err := os.Mkdir(dir+"/closed", 0o755); err != nil {
		t.Fatal(err)
	}
	imagetest.Write(t, dir+"/closed/file", imagetest.LegacyELF("x"))
	imagetest.Write(t, dir+"/lock", nil)
	for _, name := range []string{"/bin/c", "/lock"} {
		if err := os.Chmod(dir+name, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir+"/closed", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir+"/closed", 0o700) })
	imagetest.AsNobody(t, dir, func() {
		f, err := images.Scan(context.Background(), "dir:"+dir, images.ScanOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		got := map[string]contents.Passed{}
		for _, p := range f.Passed {
			got[p.Path] = p
		}
		for path, want := range map[string]string{"bin/c": "permission denied", "closed": "permission denied", "damaged": "damaged ELF: "} {
			if p, ok := got[path]; !ok || !p.Unread || !strings.HasPrefix(p.Reason, want) {
				t.Errorf("%s: got %+v, want %s", path, p, want)
			}
		}
		if got := f.IncompleteText(); got != "3 parts could not be read" {
			t.Errorf("got %q: %+v", got, f.Passed)
		}
		if f, err := images.Scan(context.Background(), dir+"/text", images.ScanOptions{}); err != nil || strings.Contains(f.IncompleteText(), "read") || len(f.Passed) != 1 {
			t.Errorf("a text file: got %+v, error %v", f, err)
		}
	})
}

// TestPatchCopyOfOthersFile: -o makes the caller's own copy of a file that is root's, without
// the rights that the original gives.
func TestPatchCopyOfOthersFile(t *testing.T) {
	imagetest.AsRoot(t, "files of another owner")
	dir := imagetest.LegacyDir(t)
	if err := unix.Chmod(dir+"/bin/c", 0o6755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(dir+"/lib/a", "security.capability", []byte(imagetest.CapNetRaw), 0); err != nil {
		t.Logf("no capabilities here: %v", err)
	}
	// One's own file in a group that one is not in.
	if err := os.Chown(dir+"/text", 65534, 5678); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := os.Chmod(out, 0o777); err != nil {
		t.Fatal(err)
	}
	imagetest.AsNobody(t, dir, func() {
		for path, want := range map[string]string{
			dir + "/bin/c": dir + "/bin/c: not kept: owner 0:0 (needs root)", dir + "/bin/modern": ": not kept: owner 0:0 (needs root)",
			dir + "/text": ": not kept: group 5678 (needs root)", dir: out + "/root: the copy is yours",
		} {
			f, err := patch.All(context.Background(), []string{path}, patch.Options{Output: filepath.Join(out, filepath.Base(path))})
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], want) {
				t.Errorf("%s: got warnings %q, want %q", path, f.Warnings, want)
			}
		}
		own := imagetest.Write(t, filepath.Join(out, "own"), imagetest.LegacyELF("o"))
		if f := imagetest.Patch(t, patch.Options{Output: own + "2"}, own); len(f.Warnings) != 0 {
			t.Errorf("one's own file: got warnings %q", f.Warnings)
		}
	})
	for name, mode := range map[string]uint32{"/c": 0o755, "/modern": 0o644, "/text": 0o644, "/root/bin/c": 0o755, "/root/lib/a": 0o644} {
		var st unix.Stat_t
		if err := unix.Stat(out+name, &st); err != nil {
			t.Error(err)
		} else if st.Uid != 65534 || st.Mode&0o7777 != mode {
			t.Errorf("%s: got owner %d, mode %#o, want nobody's with %#o", name, st.Uid, st.Mode, mode)
		}
	}
	imagetest.WantContent(t, out+"/c", imagetest.FixedELF("c"))
	imagetest.WantContent(t, out+"/root/lib/a", imagetest.FixedELF("a"))
	// In place the owner is not given up.
	imagetest.AsNobody(t, dir, func() {
		if _, err := patch.All(context.Background(), []string{dir + "/bin/c"}, patch.Options{InPlace: true}); err == nil {
			t.Error("-i of a file of root's: no error")
		}
	})
}

// TestPatchTarballMarks: a mark that vouches for a tarball's old bytes is not on the patched one, and that is said.
func TestPatchTarballMarks(t *testing.T) {
	dir := t.TempDir()
	in := imagetest.Write(t, dir+"/in.tar", imagetest.TarMembers(t, imagetest.LegacyM("bin/c", "1")))
	for _, name := range []string{"user.verity", "user.note"} {
		if err := unix.Setxattr(in, name, []byte("1"), 0); errors.Is(err, unix.ENOTSUP) {
			t.Skip("the file system has no extended attributes")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []patch.Options{{Output: dir + "/out.tar"}, {InPlace: true}} { // in place comes last
		out := cmp.Or(o.Output, in)
		f := imagetest.Patch(t, o, in)
		if !strings.Contains(strings.Join(f.Warnings, "\n"), "user.verity dropped") {
			t.Errorf("%s: warnings %q", out, f.Warnings)
		}
		for name, want := range map[string]bool{"user.verity": false, "user.note": true} {
			if _, err := unix.Getxattr(out, name, nil); (err == nil) != want {
				t.Errorf("%s: %s is there: %v", out, name, err == nil)
			}
		}
	}
}

// A path without anything to patch is closed at once: a shell expands * to more paths than a process may have open.
func TestPatchManyPaths(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	open := imagetest.Must[[]os.DirEntry](t)(os.ReadDir("/proc/self/fd"))
	few := syscall.Rlimit{Cur: uint64(len(open) + 30), Max: was.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)
	file := imagetest.LegacyDir(t) + "/bin/modern"
	if _, err := patch.All(t.Context(), slices.Repeat([]string{file}, 100), patch.Options{InPlace: true}); err != nil {
		t.Error(err)
	}
}
