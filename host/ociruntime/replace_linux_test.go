package ociruntime

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/store"
)

// A file is replaced under all its names, which stay one file, or under none of those that somebody else has changed;
// no temporary name stays.
func TestReplace(t *testing.T) {
	const content, patched = "original", "patched file"
	for name, c := range map[string]struct {
		names []string
		make  func(dir string)
		size  int64
		old   func(*rootfs.Identity)
		want  error // with the text of any other
		left  []string
	}{
		"one name":           {names: []string{"a"}, left: []string{"sub/b"}},
		"all names":          {names: []string{"a", "sub/b"}},
		"another size":       {names: []string{"a"}, old: func(id *rootfs.Identity) { id.Size++ }, want: rootfs.ErrChanged, left: []string{"a", "sub/b"}},
		"another time":       {names: []string{"a"}, old: func(id *rootfs.Identity) { id.Mtime++ }, want: rootfs.ErrChanged, left: []string{"a", "sub/b"}},
		"another ctime":      {names: []string{"a"}, old: func(id *rootfs.Identity) { id.Ctime++ }, left: []string{"sub/b"}},
		"no file":            {names: []string{"none"}, want: unix.ENOENT, left: []string{"a", "sub/b"}},
		"no directory":       {names: []string{"none/a"}, want: unix.ENOENT, left: []string{"a", "sub/b"}},
		"no second name":     {names: []string{"a", "none/b"}, want: unix.ENOENT, left: []string{"a", "sub/b"}},
		"a symlink":          {names: []string{"link"}, make: func(dir string) { _ = os.Symlink("a", dir+"/link") }, want: rootfs.ErrChanged, left: []string{"a", "sub/b"}},
		"a copy of one size": {names: []string{"a"}, size: 1, want: errors.New("got 12 bytes of the copy, want 1"), left: []string{"a", "sub/b"}},
	} {
		dir := t.TempDir()
		if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, dir+"/a", content, 0o751)
		if err := os.Link(dir+"/a", dir+"/sub/b"); err != nil {
			t.Fatal(err)
		}
		if c.make != nil {
			c.make(dir)
		}
		copy := &copied{path: filepath.Join(t.TempDir(), "copy"), size: c.size}
		put(t, copy.path, patched, 0o600)
		if copy.size == 0 {
			copy.size = int64(len(patched))
		}
		root, err := rootfs.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := root.OpenFile("a")
		if err != nil {
			t.Fatal(err)
		}
		old := f.ID()
		if copy.meta, err = store.ReadMeta(f.FD()); err != nil {
			t.Fatal(err)
		}
		if c.old != nil {
			c.old(&old)
		}
		k := &container{root: root, writable: true}
		if err := k.replace(c.names, copy, old); !errors.Is(err, c.want) && (c.want == nil || err == nil || err.Error() != c.want.Error()) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		for _, at := range []string{"a", "sub/b"} {
			got, err := os.ReadFile(filepath.Join(dir, at))
			if want := map[bool]string{true: content, false: patched}[slices.Contains(c.left, at)]; err != nil || string(got) != want {
				t.Errorf("%s: %s: got %q, %v", name, at, got, err)
			}
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(dir, at), &st); err != nil || st.Mode&0o7777 != 0o751 || st.Mtim.Nano() != f.ID().Mtime || st.Nlink != 2 && len(c.left) != 1 {
				t.Errorf("%s: %s: got mode %o, %d names, %v", name, at, st.Mode, st.Nlink, err)
			}
		}
		f.Close()
		root.Close()
		for _, pattern := range []string{"/.vfix*", "/*/.vfix*"} {
			if temps, _ := filepath.Glob(dir + pattern); len(temps) > 0 {
				t.Errorf("%s: left %q", name, temps)
			}
		}
	}
}

// Temporary files of an earlier start are removed in their directories, and nothing else.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "sub/a", "sub/b"} {
		put(t, filepath.Join(dir, name), "", 0o600)
	}
	root, err := rootfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	(&container{root: root}).sweep([]string{"b", "none/b", "sub/b", "sub"})
	left, _ := filepath.Glob(dir + "/*")
	below, _ := filepath.Glob(dir + "/sub/*")
	if len(left) != 2 || len(below) != 1 || filepath.Base(below[0]) != "a" {
		t.Errorf("got %q, %q", left, below)
	}
}

// A truncated copy is shorter, or has zeros in place of whole blocks; the whole copy, another file and a longer one are not.
func TestPartOf(t *testing.T) {
	const block = 512
	whole := []byte(strings.Repeat("x", 3*block+7))
	holed := func(from, to int) []byte {
		b := bytes.Clone(whole)
		clear(b[from:to])
		return b
	}
	dir := t.TempDir()
	root, err := rootfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, c := range map[string]struct {
		content []byte
		want    bool
	}{
		"whole": {whole, false}, "empty": {nil, true}, "shorter": {whole[:block+1], true}, "a block": {whole[:block], true}, "longer": {append(bytes.Clone(whole), 0), false},
		"a block of zeros": {holed(block, 2*block), true}, "zeros at the end": {holed(3*block, len(whole)), true}, "half a block of zeros": {holed(block, block+9), false},
		"another byte": {append(bytes.Clone(whole[:block]), 'y'), false}, "zeros and another byte": {append(holed(0, block), 'y'), false},
	} {
		put(t, dir+"/f", string(c.content), 0o600)
		f, err := root.OpenFile("f")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := partOf(f, bytes.NewReader(whole), int64(len(whole))); got != c.want || err != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		f.Close()
	}
}

// The mark of a copy counts in a later boot, for its original alone.
func TestMark(t *testing.T) {
	if store.BootID() == "" {
		t.Skip("the boot has no name")
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := bytes.Repeat([]byte{7}, 32)
	if markedBefore(int(f.Fd()), sum) {
		t.Error("without a mark: marked")
	}
	if !setMark(int(f.Fd()), &copied{original: sum}) {
		t.Skip("no such attributes here")
	}
	if markedBefore(int(f.Fd()), sum) {
		t.Error("in this boot: marked before")
	}
	mark := make([]byte, 256)
	n, err := unix.Fgetxattr(int(f.Fd()), markXattr, mark)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Fsetxattr(int(f.Fd()), markXattr, append([]byte("earlier"), mark[strings.IndexByte(string(mark[:n]), ' '):n]...), 0); err != nil {
		t.Fatal(err)
	}
	if !markedBefore(int(f.Fd()), sum) || markedBefore(int(f.Fd()), sum[1:]) {
		t.Error("of an earlier boot: not marked, or for another original")
	}
	if setMark(-1, &copied{original: sum}) {
		t.Error("no file: got a mark")
	}
}
