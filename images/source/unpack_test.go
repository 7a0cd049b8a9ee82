package source_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vfix.dev/vfix/images/source"
)

// tree lists a directory: names with contents, targets or a slash.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(p, dir+"/")
		switch {
		case err != nil || p == dir:
			return err
		case e.IsDir():
			name += "/"
		case e.Type() == fs.ModeSymlink:
			name += "->" + must(os.Readlink(p))(t)
		default:
			name += "=" + string(must(os.ReadFile(p))(t))
		}
		all = append(all, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Layers are applied as engines apply them.
func TestUnpack(t *testing.T) {
	noEngine(t)
	for name, c := range map[string]struct {
		layers [][]byte
		want   string // "error" for an error
	}{
		"whiteout":          {[][]byte{tarOf(t, "a", "1", "b", "2"), tarOf(t, ".wh.a", "")}, "b=2"},
		"opaque":            {[][]byte{tarOf(t, "d/", "", "d/a", "1"), tarOf(t, "d/", "", "d/b", "2", "d/.wh..wh..opq", "")}, "d/ d/b=2"},
		"opaque first":      {[][]byte{tarOf(t, "d/", "", "d/a", "1"), tarOf(t, "d/.wh..wh..opq", "", "d/b", "2")}, "d/ d/b=2"},
		"file for dir":      {[][]byte{tarOf(t, "d/", "", "d/a", "1"), tarOf(t, "d", "f")}, "d=f"},
		"dir for file":      {[][]byte{tarOf(t, "d", "f"), tarOf(t, "d/", "", "d/a", "1")}, "d/ d/a=1"},
		"dir for symlink":   {[][]byte{tarOf(t, "e/", "", "d", "-> e"), tarOf(t, "d/", "", "d/a", "1")}, "d/ d/a=1 e/"},
		"hard link":         {[][]byte{tarOf(t, "a", "1", "b", "=> a"), tarOf(t, "a", "2")}, "a=2 b=1"},
		"link out":          {[][]byte{tarOf(t, "x", "-> ../../../../tmp", "x/evil", "1")}, "error"},
		"name out":          {[][]byte{tarOf(t, "../evil", "1")}, "error"},
		"absolute link out": {[][]byte{tarOf(t, "x", "-> /tmp", "x/evil", "1")}, "error"},
	} {
		dir := filepath.Join(t.TempDir(), "root")
		_, err := source.Put(t.Context(), source.Ref{Transport: source.Dir, Name: dir}, source.Result{Image: imageOf(t, "linux/amd64", c.layers...)}, fast)
		if c.want == "error" {
			if err == nil {
				t.Errorf("%s: got %s", name, tree(t, dir))
			}
			left(t, filepath.Dir(dir))
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := tree(t, dir); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	full := t.TempDir()
	os.WriteFile(filepath.Join(full, "file"), nil, 0o644)
	if _, err := source.Put(t.Context(), source.Ref{Transport: source.Dir, Name: full}, source.Result{Image: imageOf(t, "linux/amd64")}, fast); err == nil {
		t.Error("a directory that is not empty was written to")
	}
}

// A directory becomes an image with its metadata, and the same directory the same image; unpacked, it is the same again.
func TestRootImage(t *testing.T) {
	noEngine(t)
	dir := filepath.Join(t.TempDir(), "root")
	for _, d := range []string{"", "/bin", "/tmp"} {
		if err := os.MkdirAll(dir+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(dir+"/bin/su", []byte("program"), 0o755)
	os.Chmod(dir+"/bin/su", fs.ModeSetuid|0o755)
	os.Chmod(dir+"/tmp", fs.ModeSticky|0o777)
	os.Link(dir+"/bin/su", dir+"/bin/sudo")
	os.Symlink("bin/su", dir+"/link")
	when := time.Unix(1e9, 5e6)
	os.Chtimes(dir+"/bin/su", when, when)
	var digests []string
	for range 2 {
		src := open(t, dir, fast)
		if src.Image != nil {
			t.Fatalf("got the image %v", src.Ref)
		}
		if err := source.WithRootImage(t.Context(), src, fast); err != nil {
			t.Fatal(err)
		}
		digests = append(digests, must(src.Image.Digest())(t).String())
		out := filepath.Join(t.TempDir(), "out")
		put(t, "dir:"+out, source.Result{Image: src.Image}, fast)
		if got, want := tree(t, out), tree(t, dir); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		a, b := must(os.Stat(out+"/bin/su"))(t), must(os.Stat(out+"/bin/sudo"))(t)
		mode := a.Mode()
		if os.Geteuid() != 0 {
			mode |= fs.ModeSetuid
		}
		if fmt.Sprint(mode) != "urwxr-xr-x" || !a.ModTime().Equal(when) || !os.SameFile(a, b) || must(os.Stat(out+"/tmp"))(t).Mode()&fs.ModeSticky == 0 {
			t.Errorf("got %v, %v, one file: %v", a.Mode(), a.ModTime(), os.SameFile(a, b))
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("got the digests %v of one directory", digests)
	}
	os.WriteFile(dir+"/.wh.x", nil, 0o644)
	if err := source.WithRootImage(t.Context(), open(t, dir, fast), fast); err == nil {
		t.Error("a file that hides another one in a layer was accepted")
	}
	tarball := filepath.Join(t.TempDir(), "root.tar")
	os.WriteFile(tarball, tarOf(t, "bin/", "", "bin/a", "1"), 0o644)
	src := open(t, tarball, fast)
	if err := source.WithRootImage(t.Context(), src, fast); err != nil || len(must(src.Image.Layers())(t)) != 1 {
		t.Errorf("a tarball: %v", err)
	}
	program := filepath.Join(t.TempDir(), "program")
	os.WriteFile(program, append([]byte("\x7fELF"), make([]byte, 1000)...), 0o755)
	if err := source.WithRootImage(t.Context(), open(t, program, fast), fast); err == nil || !strings.Contains(err.Error(), "not an image") {
		t.Errorf("a program: got %v", err)
	}
}

// Devices and owners are kept by root.
func TestUnpackAsRoot(t *testing.T) {
	noEngine(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Uid: 12, Gid: 34, Mode: 0o4755, PAXRecords: map[string]string{"SCHILY.xattr.user.k": "v"}})
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeFifo, Name: "p", Uid: 5, Mode: 0o600})
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "a", Uid: 7, ModTime: time.Unix(9, 0)})
	w.Close()
	dir := filepath.Join(t.TempDir(), "root")
	st := put(t, "dir:"+dir, source.Result{Image: imageOf(t, "linux/amd64", b.Bytes())}, fast)
	a, p := must(os.Stat(dir+"/a"))(t), must(os.Lstat(dir+"/p"))(t)
	if s := a.Sys().(*syscall.Stat_t); s.Uid != 12 || s.Gid != 34 || a.Mode() != fs.ModeSetuid|0o755 {
		t.Errorf("a: got %v of %d", a.Mode(), s.Uid)
	}
	if s := p.Sys().(*syscall.Stat_t); s.Uid != 5 || p.Mode() != fs.ModeNamedPipe|0o600 {
		t.Errorf("p: got %v of %d", p.Mode(), s.Uid)
	}
	l := must(os.Lstat(dir + "/l"))(t)
	if s := l.Sys().(*syscall.Stat_t); s.Uid != 7 || l.ModTime().Unix() != 9 {
		t.Errorf("l: got %v of %d", l.ModTime(), s.Uid)
	}
	for _, text := range st.Warnings {
		t.Log(text) // a file system without extended attributes
	}
}
