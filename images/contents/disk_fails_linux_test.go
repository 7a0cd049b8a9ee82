package contents_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/tests/imagetest"
)

// Devices and other special files are not opened, and are named by their kind.
func TestOpenDisk(t *testing.T) {
	imagetest.AsRoot(t, "devices")
	dir := t.TempDir()
	if err := errors.Join(unix.Mkfifo(dir+"/fifo", 0o600), unix.Mknod(dir+"/block", unix.S_IFBLK|0o600, int(unix.Mkdev(259, 7))), unix.Mknod(dir+"/socket", unix.S_IFSOCK|0o600, 0), os.Mkdir(dir+"/closed", 0)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{dir + "/fifo": "pipe", dir + "/socket": "socket", dir + "/block": "device", os.DevNull: "device"} {
		_, err := contents.OpenDisk(name)
		imagetest.WantErr(t, err, hinterr.ErrUnsupported, fmt.Sprintf("%s is a %s, not a file", name, want))
	}
	if got := contents.SpecialName(fs.ModeIrregular); got != "special file" {
		t.Errorf("got %s", got)
	}
	if _, err := contents.OpenDisk(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	imagetest.AsNobody(t, dir, func() {
		if _, err := contents.OpenDisk(dir + "/closed"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a closed directory: got %v", err)
		}
	})
}

// Files that cannot be read are listed, and everything else is examined; a whole tree needs all of it.
func TestDirOfOthers(t *testing.T) {
	imagetest.AsRoot(t, "files of others")
	damaged := imagetest.LegacyELF("d")
	damaged[32+8-1] = 0xff // e_phoff beyond the file
	for _, name := range []string{"closed", "file"} {
		dir := t.TempDir()
		imagetest.Write(t, dir+"/a", damaged)
		imagetest.Write(t, dir+"/z", damaged)
		imagetest.Write(t, dir+"/open", imagetest.LegacyELF("x"))
		if name == "file" {
			imagetest.Write(t, dir+"/file", imagetest.LegacyELF("y"))
		} else if err := os.Mkdir(dir+"/closed", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir+"/"+name, 0); err != nil {
			t.Fatal(err)
		}
		imagetest.AsNobody(t, dir, func() {
			s := imagetest.TestSession(t)
			f, err := s.Path(t.Context(), dir)
			if err != nil || imagetest.Paths(f.Findings) != "open" || len(f.Passed) != 3 || f.Passed[2].Path != "z" || f.Passed[1] != (contents.Passed{Path: name, Reason: "permission denied", Denied: true, Unread: true}) {
				t.Errorf("%s: got %+v, %v", name, f, err)
			}
			if _, err := s.OpenSubject(t.Context(), &media.Source{Path: dir}); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s, whole: got %v", name, err)
			}
			if is, err := contents.IsTarball(dir + "/file"); name == "file" && !errors.Is(err, fs.ErrPermission) {
				t.Errorf("a tarball: got %v, %v", is, err)
			}
		})
	}
}

// A file that became another one since the tree was read is not read as if it were the same, and a fifo in its place is not
// waited for; a command that has ended reads nothing.
func TestReplacedFiles(t *testing.T) {
	dir := t.TempDir()
	d := imagetest.Must[*contents.Disk](t)(contents.OpenDisk(dir))
	defer d.Close()
	d.Whole = true
	imagetest.Write(t, dir+"/a", []byte("text"))
	tree := imagetest.Must[*contents.Tree](t)(d.Tree(t.Context(), imagetest.TestSession(t)))
	files := []*contents.Inode{tree.Find("a").Inode}
	read := func(ctx context.Context) error {
		return tree.Read(ctx, files, func(_ *contents.Inode, r io.Reader) error { _, err := io.ReadAll(r); return err })
	}
	if id, links := contents.Identify(imagetest.Stat(t, dir+"/a")); files[0].Disk.ID != id || files[0].Disk.Links != links {
		t.Errorf("got %+v, want %v, %d", files[0].Disk, id, links)
	}
	alone := imagetest.Must[*contents.Disk](t)(contents.OpenDisk(imagetest.Write(t, dir+"/alone", nil)))
	defer alone.Close()
	os.Remove(dir + "/alone")
	if _, err := alone.Tree(t.Context(), imagetest.TestSession(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: got %v", err)
	}
	ended, end := context.WithCancelCause(t.Context())
	end(imagetest.ErrFull)
	if err := read(t.Context()); err != nil {
		t.Error(err)
	}
	if err := read(ended); !errors.Is(err, imagetest.ErrFull) {
		t.Errorf("ended: got %v", err)
	}
	if _, err := d.Tree(ended, imagetest.TestSession(t)); !errors.Is(err, imagetest.ErrFull) {
		t.Errorf("a tree: got %v", err)
	}
	imagetest.Write(t, dir+"/b", []byte("text"))
	if err := unix.Mkfifo(dir+"/c", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"/b", "/c"} {
		if err := os.Rename(dir+by, dir+"/a"); err != nil {
			t.Fatal(err)
		}
		imagetest.WantErr(t, read(t.Context()), nil, dir+"/a: replaced while it was read")
		imagetest.WantErr(t, tree.WriteTar(t.Context(), io.Discard, progress.Silent{}, func(string) error { return nil }), nil, "a: replaced while it was read")
		err := tree.EachContent(t.Context(), map[string]*contents.Inode{"a": files[0]}, func(string, []byte) { t.Error("it was read") })
		imagetest.WantErr(t, err, nil, "replaced")
	}
}
