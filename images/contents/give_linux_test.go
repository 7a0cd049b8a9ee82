package contents_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
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

type xattrs map[string]string

// entry is a file with metadata.
func entry(mode int64, uid, gid int, has xattrs) *contents.Entry {
	e := &contents.Entry{Header: tar.Header{Mode: mode, Uid: uid, Gid: gid, PAXRecords: map[string]string{}}}
	for name, value := range has {
		e.PAXRecords[blob.XattrPrefix+name] = value
	}
	return e
}

// A file gets what the caller may set; the rest is listed, and any other failure is an error.
func TestGive(t *testing.T) {
	imagetest.AsRoot(t, "owners")
	dir := t.TempDir()
	if err := unix.Setxattr(dir, "user.a", []byte("1"), 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("the file system has no extended attributes")
	}
	for _, c := range []struct {
		name     string
		has      xattrs // before
		entry    *contents.Entry
		asNobody bool // the owner of the file
		want     string
		lost     string
		err      string
		got      xattrs
	}{
		{"everything", nil, entry(0o6751, 1234, 5678, xattrs{"security.capability": imagetest.CapNetRaw, "user.a": "1"}), false,
			"106751 1234:5678", "", "", xattrs{"security.capability": imagetest.CapNetRaw, "user.a": "1"}},
		{"another user", nil, entry(0o600, 1234, nobody, nil), false, "100600 1234:65534", "", "", nil},
		{"another group", nil, entry(0o600, nobody, 5678, nil), false, "100600 65534:5678", "", "", nil},
		{"another value", xattrs{"user.a": "1"}, entry(0o600, nobody, nobody, xattrs{"user.a": "2"}), false,
			"100600 65534:65534", "", "", xattrs{"user.a": "2"}},
		{"an unknown kind of attribute", nil, entry(0o600, nobody, nobody, xattrs{"none.a": "1", "user.b": "2"}), false,
			"100600 65534:65534", "none.a", "", xattrs{"user.b": "2"}},
		{"an attribute that is too large", nil, entry(0o600, nobody, nobody, xattrs{"user.a": strings.Repeat("1", 70_000)}), false,
			"", "", "keep xattr user.a: ", nil},
		{"one's own", nil, entry(0o4751, nobody, nobody, xattrs{"user.a": "1"}), true, "104751 65534:65534", "", "", xattrs{"user.a": "1"}},
		{"with an owner", nil, entry(0o751, 0, 0, nil), true, "100751 65534:0", "owner 0:0", "", nil},
		{"setuid with an owner", nil, entry(0o4751, 0, 0, nil), true, "100751 65534:0", "owner 0:0", "", nil},
		{"setgid and sticky with a group", nil, entry(0o3751, nobody, 5678, nil), true, "100751 65534:65534", "group 5678", "", nil},
		{"attributes of root", xattrs{"security.same": "1"}, entry(0o600, nobody, nobody, xattrs{"security.same": "1", "security.other": "1", "user.a": "1"}), true,
			"100600 65534:65534", "security.other", "", xattrs{"security.same": "1", "user.a": "1"}},
		{"a file that cannot be written", nil, entry(0o400, nobody, nobody, xattrs{"user.a": "1"}), true, "100400 65534:65534", "user.a", "", nil},
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
		var lost []string
		var err error
		give := func() { lost, err = c.entry.Give(f) }
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
		if got := modeAndOwner(t, name); err != nil || got != c.want || strings.Join(lost, ", ") != c.lost {
			t.Errorf("%s: got %s, lost %q, %v, want %s, lost %q", c.name, got, lost, err, c.want, c.lost)
		}
		if got, err := contents.OpenedEntry(f); err != nil || !maps.Equal(got.PAXRecords, entry(0, 0, 0, c.got).PAXRecords) {
			t.Errorf("%s: got %q, %v, want %q", c.name, got.PAXRecords, err, c.got)
		}
	}
	// Of a file that is only named, nothing can be set or listed.
	name := imagetest.Write(t, dir+"/root", nil)
	path := imagetest.Must[*os.File](t)(os.OpenFile(name, unix.O_PATH, 0))
	defer path.Close()
	for _, uid := range []int{0, 1} {
		if _, err := entry(0o600, uid, 0, nil).Give(path); !errors.Is(err, unix.EBADF) {
			t.Errorf("a path of user %d: got %v", uid, err)
		}
	}
	// Of another's file, not even the mode can be set.
	f := imagetest.Must[*os.File](t)(os.Open(name))
	imagetest.AsNobody(t, dir, func() {
		if _, err := entry(0o600, 0, 0, nil).Give(f); !errors.Is(err, unix.EPERM) || !strings.HasPrefix(err.Error(), "keep mode 0600: ") {
			t.Errorf("another's file: got %v", err)
		}
	})
	f.Close()
	if _, err := entry(0, 0, 0, nil).Give(f); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: got %v", err)
	}
}

// A patched copy has all metadata but the marks; a file that is closed has none.
func TestCopyMeta(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) *os.File {
		f := imagetest.Must[*os.File](t)(os.OpenFile(dir+"/"+name, os.O_RDWR|os.O_CREATE, 0o600))
		t.Cleanup(func() { f.Close() })
		return f
	}
	from, to := open("from"), open("to")
	if err := errors.Join(unix.Fsetxattr(int(from.Fd()), "user.a", []byte("1"), 0), unix.Fsetxattr(int(from.Fd()), "user.verity", []byte("1"), 0), from.Chmod(0o741)); err != nil {
		t.Skip(err)
	}
	_, dropped, lost, err := contents.CopyMeta(from, to, true)
	e, eerr := contents.OpenedEntry(to)
	if err != nil || eerr != nil || len(lost) > 0 || !maps.Equal(e.PAXRecords, entry(0, 0, 0, xattrs{"user.a": "1"}).PAXRecords) || e.Mode != 0o741 || !slices.Equal(dropped, []string{"user.verity"}) {
		t.Errorf("got %o %v, dropped %q, lost %v, %v, %v", e.Mode, e.PAXRecords, dropped, lost, err, eerr)
	}
	closed := open("closed")
	closed.Close()
	for _, pair := range [][2]*os.File{{closed, from}, {from, closed}} {
		if _, _, _, err := contents.CopyMeta(pair[0], pair[1], true); err == nil {
			t.Errorf("from %s to %s: no error", pair[0].Name(), pair[1].Name())
		}
	}
}

// Each name of a file with capabilities has them in the tar stream of a directory: setting the owner of a link removes
// those that its header does not have.
func TestWriteDirectoryLinks(t *testing.T) {
	imagetest.AsRoot(t, "capabilities")
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(dir+"/a", []byte("text"), 0o755), os.Link(dir+"/a", dir+"/b")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(dir+"/a", "security.capability", []byte(imagetest.CapNetRaw), 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("the file system has no extended attributes")
	} else if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := contents.WriteDirectory(t.Context(), &b, dir); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range imagetest.ReadTar(t, &b) {
		capable := m.PAXRecords[blob.XattrPrefix+"security.capability"] == imagetest.CapNetRaw
		got = append(got, fmt.Sprintf("%s %c %s %t %s", m.Name, m.Typeflag, m.Linkname, capable, m.Body))
	}
	if want := []string{"./ 5  false ", "a 0  true text", "b 1 a true "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A tree is written with what the caller may set, and says if there is more: here an owner, a device or an xattr.
func TestWriteLosses(t *testing.T) {
	imagetest.AsRoot(t, "owners")
	own := func(m imagetest.TestMember) imagetest.TestMember {
		m.Uid = nobody
		return m
	}
	device, marked := own(imagetest.FileM("d", nil)), own(imagetest.SymM("s", "a"))
	device.Typeflag, marked.PAXRecords = tar.TypeChar, map[string]string{blob.XattrPrefix + "trusted.a": "1"}
	device.Devmajor = 1
	for name, c := range map[string]struct {
		member imagetest.TestMember
		lost   bool
		want   string // of the member's name; "" if it is omitted
	}{
		"own":              {own(imagetest.FileM("a", nil)), false, "100644 65534:0"},
		"another's":        {imagetest.FileM("a", nil), true, "100644 65534:0"},
		"own symlink":      {own(imagetest.SymM("s", "a")), false, "120777 65534:0"},
		"another's link":   {imagetest.SymM("s", "a"), true, "120777 65534:0"},
		"device":           {device, true, ""},
		"symlink and more": {marked, true, "120777 65534:0"},
	} {
		tree := imagetest.Must[*contents.Tree](t)(imagetest.TestSession(t).Image(t.Context(), imagetest.Stack(t, []imagetest.TestMember{own(imagetest.DirM(".")), c.member})))
		dir := t.TempDir()
		if err := os.Chown(dir, nobody, 0); err != nil {
			t.Fatal(err)
		}
		var lost bool
		var err error
		imagetest.AsNobody(t, dir, func() { lost, err = tree.Write(t.Context(), dir) })
		if err != nil || lost != c.lost {
			t.Errorf("%s: got lost %v, %v", name, lost, err)
		}
		path := dir + "/" + c.member.Name
		if _, err := os.Lstat(path); c.want == "" && err == nil || c.want != "" && modeAndOwner(t, path) != c.want {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
