package contents_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

const nobody = 65534

// modeAndOwner describes a file, not what a symlink leads to.
func modeAndOwner(t *testing.T, name string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
}

// all lists losses.
func all(lost []contents.Loss) string {
	var text []string
	for _, l := range lost {
		text = append(text, l.String())
	}
	return strings.Join(text, ", ")
}

// A file gets what the caller may set; the rest is listed, and any other failure is an error.
func TestGive(t *testing.T) {
	imagetest.AsRoot(t, "owners")
	dir := t.TempDir()
	if err := unix.Setxattr(dir, "user.a", []byte("1"), 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("the file system has no extended attributes")
	}
	type xattrs map[string]string
	for _, c := range []struct {
		name     string
		has      xattrs // before
		meta     contents.Meta
		asNobody bool // the owner of the file
		want     string
		lost     string
		err      string
		got      xattrs
	}{
		{"everything", nil, contents.Meta{Mode: 0o6751, UID: 1234, GID: 5678, Xattrs: xattrs{"security.capability": imagetest.CapNetRaw, "user.a": "1"}}, false,
			"106751 1234:5678", "", "", xattrs{"security.capability": imagetest.CapNetRaw, "user.a": "1"}},
		{"another user", nil, contents.Meta{Mode: 0o600, UID: 1234, GID: nobody}, false, "100600 1234:65534", "", "", nil},
		{"another group", nil, contents.Meta{Mode: 0o600, UID: nobody, GID: 5678}, false, "100600 65534:5678", "", "", nil},
		{"another value", xattrs{"user.a": "1"}, contents.Meta{Mode: 0o600, UID: nobody, GID: nobody, Xattrs: xattrs{"user.a": "2"}}, false,
			"100600 65534:65534", "", "", xattrs{"user.a": "2"}},
		{"an unknown kind of attribute", nil, contents.Meta{Mode: 0o600, UID: nobody, GID: nobody, Xattrs: xattrs{"none.a": "1", "user.b": "2"}}, false,
			"100600 65534:65534", "none.a", "", xattrs{"user.b": "2"}},
		{"an attribute that is too large", nil, contents.Meta{Mode: 0o600, UID: nobody, GID: nobody, Xattrs: xattrs{"user.a": strings.Repeat("1", 70_000)}}, false,
			"", "", "keep xattr user.a: ", nil},
		{"one's own", nil, contents.Meta{Mode: 0o4751, UID: nobody, GID: nobody, Xattrs: xattrs{"user.a": "1"}}, true, "104751 65534:65534", "", "", xattrs{"user.a": "1"}},
		{"with an owner", nil, contents.Meta{Mode: 0o751, UID: 0, GID: 0}, true, "100751 65534:0", "owner 0:0", "", nil},
		{"setuid with an owner", nil, contents.Meta{Mode: 0o4751, UID: 0, GID: 0}, true, "100751 65534:0", "owner 0:0, setuid/setgid", "", nil},
		{"setgid and sticky with a group", nil, contents.Meta{Mode: 0o3751, UID: nobody, GID: 5678}, true, "100751 65534:65534", "group 5678, setuid/setgid", "", nil},
		{"attributes of root", xattrs{"security.same": "1"}, contents.Meta{Mode: 0o600, UID: nobody, GID: nobody, Xattrs: xattrs{"security.same": "1", "security.other": "1", "user.a": "1"}}, true,
			"100600 65534:65534", "security.other", "", xattrs{"security.same": "1", "user.a": "1"}},
		{"a file that cannot be written", nil, contents.Meta{Mode: 0o400, UID: nobody, GID: nobody, Xattrs: xattrs{"user.a": "1"}}, true, "100400 65534:65534", "user.a", "", nil},
	} {
		name := imagetest.Write(t, dir+"/"+strings.ReplaceAll(c.name, " ", "-"), nil)
		if err := os.Chown(name, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		for k, v := range c.has {
			if err := unix.Setxattr(name, k, []byte(v), 0); err != nil {
				t.Fatal(err)
			}
		}
		f := imagetest.Must[*os.File](t)(os.Open(name))
		defer f.Close()
		var lost []contents.Loss
		var err error
		give := func() { lost, err = c.meta.Give(f) }
		if c.asNobody {
			imagetest.AsNobody(t, dir, give)
		} else {
			give()
		}
		if c.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: got %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if got := modeAndOwner(t, name); err != nil || got != c.want || all(lost) != c.lost {
			t.Errorf("%s: got %s, lost %q, %v, want %s, lost %q", c.name, got, all(lost), err, c.want, c.lost)
		}
		if got, err := contents.FileXattrs(f); err != nil || fmt.Sprint(got) != fmt.Sprint(map[string]string(c.got)) || (got == nil) != (c.got == nil) {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.got)
		}
	}
	// Of a file that is only named, nothing can be set or listed.
	name := imagetest.Write(t, dir+"/root", nil)
	path := imagetest.Must[*os.File](t)(os.OpenFile(name, unix.O_PATH, 0))
	defer path.Close()
	for _, uid := range []uint32{0, 1} {
		if _, err := (&contents.Meta{Mode: 0o600, UID: uid}).Give(path); !errors.Is(err, unix.EBADF) {
			t.Errorf("a path of user %d: got %v", uid, err)
		}
	}
	if _, err := contents.OpenMeta(path); !errors.Is(err, unix.EBADF) {
		t.Errorf("a path: got %v", err)
	}
	// Of another's file, not even the mode can be set.
	f := imagetest.Must[*os.File](t)(os.Open(name))
	imagetest.AsNobody(t, dir, func() {
		if _, err := (&contents.Meta{Mode: 0o600}).Give(f); !errors.Is(err, unix.EPERM) || !strings.HasPrefix(err.Error(), "keep mode 0600: ") {
			t.Errorf("another's file: got %v", err)
		}
	})
	f.Close()
	if _, err := (&contents.Meta{}).Give(f); !errors.Is(err, unix.EBADF) {
		t.Errorf("a closed file: got %v", err)
	}
}

// Devices, fifos and symlinks, as far as the caller may make them.
func TestGiveNodes(t *testing.T) {
	imagetest.AsRoot(t, "owners and devices")
	dir := t.TempDir()
	root := imagetest.Must[*os.Root](t)(os.OpenRoot(dir))
	defer root.Close()
	if err := errors.Join(os.Mkdir(dir+"/d", 0o777), os.Chmod(dir+"/d", 0o777)); err != nil {
		t.Fatal(err)
	}
	node := func(flag byte, mode int64, owner int) *contents.Entry {
		h := &tar.Header{Typeflag: flag, Mode: mode, Uid: owner, ModTime: imagetest.TestTime, PAXRecords: map[string]string{blob.XattrPrefix + "trusted.a": "1"}}
		if flag == tar.TypeChar || flag == tar.TypeBlock {
			h.Devmajor, h.Devminor = 259, 300
		}
		return &contents.Entry{Kind: contents.KindOther, Flag: flag, Meta: contents.NewMeta(h)}
	}
	for _, c := range []struct {
		name     string
		e        *contents.Entry
		asNobody bool
		want     string // "" for none
		device   uint64
		lost     string
	}{
		{"fifo", node(tar.TypeFifo, 0o6620, 1234), false, "16620 1234:0", 0, "trusted.a"},
		{"char", node(tar.TypeChar, 0o660, 0), false, "20660 0:0", unix.Mkdev(259, 300), "trusted.a"},
		{"block", node(tar.TypeBlock, 0o606, 0), false, "60606 0:0", unix.Mkdev(259, 300), "trusted.a"},
		{"fifo of nobody", node(tar.TypeFifo, 0o4620, nobody), true, "14620 65534:0", 0, "trusted.a"},
		{"fifo of root", node(tar.TypeFifo, 0o4620, 0), true, "10620 65534:0", 0, "owner 0:0, trusted.a"},
		{"char of nobody", node(tar.TypeChar, 0o660, nobody), true, "", 0, "device"},
	} {
		name := "d/" + strings.ReplaceAll(c.name, " ", "-")
		var lost []contents.Loss
		var err error
		do := func() { lost, err = c.e.MakeNode(root, name) }
		if c.asNobody {
			imagetest.AsNobody(t, dir, do)
		} else {
			do()
		}
		if err != nil || all(lost) != c.lost {
			t.Errorf("%s: lost %q, %v, want %q", c.name, all(lost), err, c.lost)
		}
		if c.want == "" {
			if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: got %v", c.name, err)
			}
			continue
		}
		var st unix.Stat_t
		unix.Lstat(dir+"/"+name, &st)
		if got := modeAndOwner(t, dir+"/"+name); got != c.want || uint64(st.Rdev) != c.device || st.Mtim.Nano() != imagetest.TestTime.UnixNano() {
			t.Errorf("%s: got %s, device %#x, time %v, want %s, %#x", c.name, got, st.Rdev, st.Mtim, c.want, c.device)
		}
	}
	_, err := node('Z', 0, 0).MakeNode(root, "z")
	imagetest.WantErr(t, err, hinterr.ErrUnsupported, "tar type 'Z'")
	if _, err := node(tar.TypeFifo, 0, 0).MakeNode(root, "none/fifo"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got %v", err)
	}
	_, err = node(tar.TypeFifo, 0, 0).MakeNode(root, "d/fifo")
	imagetest.WantErr(t, err, fs.ErrExist, "mknod: ")

	for _, name := range []string{"link", "another"} {
		if err := os.Symlink("/nowhere", dir+"/d/"+name); err != nil {
			t.Fatal(err)
		}
	}
	meta := node(tar.TypeSymlink, 0, 1234).Meta
	lost, err := meta.GiveLink(root, "d/link")
	if fi := imagetest.Stat(t, dir+"/d/link"); err != nil || all(lost) != "trusted.a" || modeAndOwner(t, dir+"/d/link") != "120777 1234:0" || !fi.ModTime().Equal(imagetest.TestTime) {
		t.Errorf("a symlink: got %s, %v, lost %q, %v", modeAndOwner(t, dir+"/d/link"), fi.ModTime(), all(lost), err)
	}
	for _, name := range []string{"none/link", "d/none"} {
		if _, err := meta.GiveLink(root, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	imagetest.AsNobody(t, dir, func() {
		if _, err := (&contents.Meta{Mtime: imagetest.TestTime}).GiveLink(root, "d/another"); !errors.Is(err, unix.EPERM) {
			t.Errorf("the time of another's symlink: got %v", err)
		}
	})
}

// A copy has all metadata, a patched one none of the marks; a file that is closed has none.
func TestCopyMeta(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) *os.File {
		f := imagetest.Must[*os.File](t)(os.OpenFile(dir+"/"+name, os.O_RDWR|os.O_CREATE, 0o600))
		t.Cleanup(func() { f.Close() })
		return f
	}
	from := open("from")
	if err := errors.Join(unix.Fsetxattr(int(from.Fd()), "user.a", []byte("1"), 0), unix.Fsetxattr(int(from.Fd()), "user.verity", []byte("1"), 0), from.Chmod(0o741)); err != nil {
		t.Skip(err)
	}
	for patched, want := range map[bool]string{false: "map[user.a:1 user.verity:1]", true: "map[user.a:1]"} {
		to := open(fmt.Sprint("to ", patched))
		dropped, lost, err := contents.CopyMeta(from, to, patched)
		m, merr := contents.OpenMeta(to)
		if err != nil || merr != nil || len(lost) > 0 || fmt.Sprint(m.Xattrs) != want || m.Mode != 0o741 || slices.Equal(dropped, []string{"user.verity"}) != patched || len(dropped) > 1 {
			t.Errorf("patched %t: got %o %v, dropped %q, lost %v, %v, %v", patched, m.Mode, m.Xattrs, dropped, lost, err, merr)
		}
	}
	closed := open("closed")
	closed.Close()
	if _, err := contents.OpenMeta(closed); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: got %v", err)
	}
	for _, pair := range [][2]*os.File{{closed, from}, {from, closed}} {
		if _, _, err := contents.CopyMeta(pair[0], pair[1], true); err == nil {
			t.Errorf("from %s to %s: no error", pair[0].Name(), pair[1].Name())
		}
	}
}

// A new file that does not get its name is an error.
func TestNamesThatFail(t *testing.T) {
	dir := t.TempDir()
	root := imagetest.Must[*os.Root](t)(os.OpenRoot(dir))
	defer root.Close()
	gone := imagetest.Must[*os.Root](t)(os.OpenRoot(dir))
	gone.Close()
	f := imagetest.Must[*os.File](t)(os.Open(imagetest.Write(t, dir+"/a", nil)))
	defer f.Close()
	if err := errors.Join(os.Chtimes(dir+"/a", imagetest.TestTime, imagetest.TestTime), os.WriteFile(dir+"/b", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := contents.KeepTimes(root, "b", f); err != nil || !imagetest.Stat(t, dir+"/b").ModTime().Equal(imagetest.TestTime) {
		t.Errorf("times: got %v", err)
	}
	if err := contents.Link(root, "a", root, "c"); err != nil || !os.SameFile(imagetest.Stat(t, dir+"/a"), imagetest.Stat(t, dir+"/c")) {
		t.Errorf("a link: got %v", err)
	}
	if err := contents.SyncDir(root, "."); err != nil {
		t.Errorf("a directory: got %v", err)
	}
	closed := imagetest.Must[*os.File](t)(os.Open(dir + "/a"))
	closed.Close()
	for what, c := range map[string]struct {
		err  error
		want error
	}{
		"times of a closed file":    {contents.KeepTimes(root, "b", closed), unix.EBADF},
		"times for no file":         {contents.KeepTimes(root, "none", f), fs.ErrNotExist},
		"a link from no directory":  {contents.Link(gone, "a", root, "d"), os.ErrClosed},
		"a link to no directory":    {contents.Link(root, "a", gone, "d"), os.ErrClosed},
		"a link of no file":         {contents.Link(root, "none", root, "d"), fs.ErrNotExist},
		"a link over another file":  {contents.Link(root, "a", root, "b"), fs.ErrExist},
		"a directory that is not":   {contents.SyncDir(root, "none"), fs.ErrNotExist},
		"a directory without names": {contents.SyncDir(gone, "."), os.ErrClosed},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: got %v, want %v", what, c.err, c.want)
		}
	}
	if contents.Special(root, "none") {
		t.Error("a directory that is not there is special")
	}
}
