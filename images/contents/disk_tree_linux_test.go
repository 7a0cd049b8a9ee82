package contents_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/tests/imagetest"
)

// anyDir is a directory with each kind of file, also on another file system.
func anyDir(t *testing.T) string {
	t.Helper()
	imagetest.AsRoot(t, "devices and mounts")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	old := time.Unix(1_000_000_001, 5000)
	legacy := string(imagetest.LegacyELF("one"))
	do := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	do(os.Mkdir(at("dir"), 0o750), os.Mkdir(at("empty"), 0o1777), os.Mkdir(at("mnt"), 0o700))
	do(unix.Mount("tmpfs", at("mnt"), "tmpfs", 0, ""))
	t.Cleanup(func() { unix.Unmount(at("mnt"), unix.MNT_DETACH) })
	do(os.Mkdir(at("mnt/below"), 0o755))
	for name, content := range map[string]string{
		"dir/file": "text", "dir/none": "", "dir/large": strings.Repeat("0123456789", 50_000), "dir/program": legacy,
		"modern": string(imagetest.ModernELF("m")), "damaged": "\x7fELF" + strings.Repeat("x", 200), "mnt/program": legacy + "2",
		"mnt/below/program": legacy + "3",
	} {
		do(os.WriteFile(at(name), []byte(content), 0o640))
	}
	do(os.Link(at("dir/program"), at("also")), os.Link(at("dir/program"), at("dir/z")), os.Link(at("dir/file"), at("dir/a")))
	do(os.Symlink("dir/program", at("symlink")), os.Symlink("nowhere", at("dir/symlink")), os.Link(at("symlink"), at("symlink2")))
	do(unix.Mkfifo(at("fifo"), 0o620), unix.Mknod(at("char"), unix.S_IFCHR|0o660, int(unix.Mkdev(1, 300))))
	do(unix.Mknod(at("block"), unix.S_IFBLK|0o600, int(unix.Mkdev(259, 7))), unix.Mknod(at("socket"), unix.S_IFSOCK|0o600, 0))
	do(os.Lchown(at("dir/file"), 1234, 5678), os.Chmod(at("dir/file"), 0o4751|fs.ModeSetuid), os.Lchown(at("symlink"), 12, 34))
	for _, name := range []string{"dir", "dir/large"} {
		do(unix.Setxattr(at(name), "trusted.vfix-test", []byte("of "+name), 0))
	}
	for _, name := range []string{"dir/file", "fifo", "dir"} {
		do(os.Chtimes(at(name), old, old))
	}
	return dir
}

// diskMember is a file in an archive.
type diskMember struct {
	kind         byte
	link         string
	mode         int64
	uid, gid     int
	mtime        int64
	major, minor int64
	xattr        string
	content      string
}

// A directory becomes an archive of the same files with their metadata: a file under its first name, no sockets.
func TestDirToArchive(t *testing.T) {
	dir := anyDir(t)
	want := map[string]diskMember{}
	first, size := map[uint64]string{}, int64(0)
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err = errors.Join(err, unix.Lstat(path, &st)); err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		kinds := map[uint32]byte{unix.S_IFREG: tar.TypeReg, unix.S_IFDIR: tar.TypeDir, unix.S_IFLNK: tar.TypeSymlink,
			unix.S_IFIFO: tar.TypeFifo, unix.S_IFCHR: tar.TypeChar, unix.S_IFBLK: tar.TypeBlock}
		kind := kinds[st.Mode&unix.S_IFMT]
		if name == "." || kind == 0 {
			return nil
		}
		m := diskMember{kind: kind, mode: int64(st.Mode & 0o7777), uid: int(st.Uid), gid: int(st.Gid), mtime: st.Mtim.Nano()}
		value := make([]byte, 100)
		if n, err := unix.Lgetxattr(path, "trusted.vfix-test", value); err == nil {
			m.xattr = string(value[:n])
		}
		switch kind {
		case tar.TypeDir:
			name += "/"
		case tar.TypeReg:
			data, err := os.ReadFile(path)
			if m.content = string(data); err != nil {
				return err
			}
		case tar.TypeSymlink:
			m.link, _ = os.Readlink(path)
		case tar.TypeChar, tar.TypeBlock:
			m.major, m.minor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
		}
		key := st.Dev<<32 | st.Ino
		if was, ok := first[key]; ok && kind != tar.TypeDir {
			m.kind, m.link, m.content = tar.TypeLink, was, ""
		} else {
			first[key] = name
		}
		if want[name] = m; m.kind == tar.TypeReg {
			size += st.Size
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	for _, sums := range []bool{false, true} {
		d, err := contents.OpenDisk(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		d.Whole, d.OneFS = true, true
		s, notes := imagetest.TestSession(t), &imagetest.Notes{}
		s.Sums, s.Progress = sums, notes
		tree, err := d.Tree(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := tree.WriteTar(context.Background(), &b, progress.Silent{}, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(notes.Text, "; "); text != "socket: a socket is not copied" || notes.Done.Load() != size || notes.Unfinished.Load() != 0 {
			t.Errorf("notes %q, and read %d bytes, want %d", text, notes.Done.Load(), size)
		}
		got := map[string]diskMember{}
		r := tar.NewReader(&b)
		for {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			data := imagetest.Must[[]byte](t)(io.ReadAll(r))
			got[h.Name] = diskMember{h.Typeflag, h.Linkname, h.Mode, h.Uid, h.Gid, h.ModTime.UnixNano(), h.Devmajor, h.Devminor,
				h.PAXRecords["SCHILY.xattr.trusted.vfix-test"], string(data)}
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			e := tree.Entries()[strings.TrimSuffix(name, "/")]
			if sums && want[name].kind == tar.TypeReg && (e.Sum == nil || *e.Sum != sha256.Sum256([]byte(want[name].content))) {
				t.Errorf("%s: got the sum %x", name, e.Sum)
			}
			if got[name] != want[name] {
				t.Errorf("%s: got %.200s, want %.200s", name, fmt.Sprintf("%+v", got[name]), fmt.Sprintf("%+v", want[name]))
			}
			delete(got, name)
		}
		for name := range got {
			t.Errorf("%s is in the archive", name)
		}
		refused := errors.New("refused")
		if err := tree.WriteTar(context.Background(), io.Discard, progress.Silent{}, func(name string) error {
			if name == "dir/large" {
				return refused
			}
			return nil
		}); !errors.Is(err, refused) {
			t.Errorf("a name that is refused: %v", err)
		}
		if err := os.Truncate(filepath.Join(dir, "dir/large"), 10); err != nil {
			t.Fatal(err)
		}
		err = tree.WriteTar(context.Background(), io.Discard, progress.Silent{}, func(string) error { return nil })
		imagetest.WantErr(t, err, nil, "dir/large: became shorter")
		if err := os.WriteFile(filepath.Join(dir, "dir/large"), []byte(want["dir/large"].content), 0o640); err != nil {
			t.Fatal(err)
		}
		m := want["dir/large"]
		var st unix.Stat_t
		unix.Lstat(filepath.Join(dir, "dir/large"), &st)
		m.mtime = st.Mtim.Nano()
		want["dir/large"] = m
	}
}

// The findings in a directory depend on the options.
func TestDirFindings(t *testing.T) {
	dir := anyDir(t)
	big := filepath.Join(dir, "big")
	if err := errors.Join(os.WriteFile(big, imagetest.LegacyELF("big"), 0o644), os.Truncate(big, contents.MaxELF+1)); err != nil {
		t.Fatal(err)
	}
	exact := filepath.Join(dir, "exact") // a file of the largest size that is examined
	if err := errors.Join(os.WriteFile(exact, imagetest.LegacyELF("exact"), 0o644), os.Truncate(exact, contents.MaxELF)); err != nil {
		t.Fatal(err)
	}
	proc := filepath.Join(dir, "proc") // nothing of it is looked into
	if err := errors.Join(os.Mkdir(proc, 0o755), unix.Mount("proc", proc, "proc", 0, "")); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(proc, unix.MNT_DETACH)
	bound := imagetest.Write(t, filepath.Join(dir, "bound"), nil) // a file alone of another file system
	if err := unix.Mount(filepath.Join(dir, "mnt/program"), bound, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(bound, unix.MNT_DETACH)
	const here, below, tooLarge = "also bound dir/program dir/z exact", " mnt/below/program mnt/program", "big: file of 4294967297 bytes"
	for name, c := range map[string]struct {
		set           func(d *contents.Disk)
		found, passed string
		file          string // "" for the directory
	}{
		"all":           {func(*contents.Disk) {}, here + below, tooLarge, ""},
		"one system":    {func(d *contents.Disk) { d.OneFS = true }, here, tooLarge, ""},
		"since later":   {func(d *contents.Disk) { d.Since = time.Now().Add(time.Hour) }, "", "", ""},
		"since earlier": {func(d *contents.Disk) { d.Since = time.Unix(1_500_000_000, 0) }, here + below, tooLarge, ""},
		"unexamined":    {func(d *contents.Disk) { d.Unexamined = true }, "", "", ""},
		"whole":         {func(d *contents.Disk) { d.Whole = true }, here + below, tooLarge, ""},
		"whole, later":  {func(d *contents.Disk) { d.Whole, d.Since = true, time.Now().Add(time.Hour) }, here + below, tooLarge, ""},
		"whole, of one": {func(d *contents.Disk) { d.Whole, d.OneFS = true, true }, here, tooLarge, ""},
		"bare":          {func(d *contents.Disk) { d.Whole, d.Unexamined = true, true }, "", "", ""},
		"a program":     {func(*contents.Disk) {}, "dir/program", "", "dir/program"},
		"by a link":     {func(*contents.Disk) {}, "symlink", "", "symlink"},
		"another one":   {func(*contents.Disk) {}, "", "", "modern"},
		"text":          {func(*contents.Disk) {}, "", "dir/file: not an ELF file", "dir/file"},
		"empty":         {func(*contents.Disk) {}, "", "dir/none: not an ELF file", "dir/none"},
		"32-bit":        {func(*contents.Disk) {}, "", "", "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := contents.OpenDisk(filepath.Join(dir, c.file))
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			c.set(d)
			s, notes := imagetest.TestSession(t), &imagetest.Notes{}
			s.Progress = notes
			tree, err := d.Tree(context.Background(), s)
			if err != nil {
				t.Fatal(err)
			}
			if k := tree.At("proc"); d.Whole != (k != nil) || k != nil && len(k.Kids) > 0 {
				t.Errorf("got %+v", k)
			}
			f, err := s.Findings(context.Background(), tree)
			if err != nil {
				t.Fatal(err)
			}
			var found, passed []string
			for _, one := range f.Files {
				found = append(append(found, one.Path), one.Links...)
			}
			for i := range found {
				found[i] = strings.TrimPrefix(found[i], dir+"/")
			}
			slices.Sort(found)
			for _, p := range f.Passed {
				reason, _, _ := strings.Cut(p.Reason, ",")
				passed = append(passed, strings.TrimPrefix(p.Path, dir+"/")+": "+reason)
			}
			if got := strings.Join(found, " "); got != c.found {
				t.Errorf("found %s, want %s", got, c.found)
			}
			if got := strings.Join(passed, "; "); got != c.passed {
				t.Errorf("passed %s, want %s", got, c.passed)
			}
			if text := strings.Join(notes.Text, "; "); strings.Contains(text, "it cannot call the vsyscall page") != (name == "32-bit") {
				t.Errorf("got notes %q", text)
			}
		})
	}
}
