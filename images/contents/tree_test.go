package contents_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// TestMerge: the names of a merged file system, as overlay engines show them: directories end in a slash, hard links of
// one file have the same number behind them.
func TestMerge(t *testing.T) {
	file, dir, sym, link := func(name string) imagetest.TestMember { return imagetest.FileM(name, []byte(name)) }, imagetest.DirM, imagetest.SymM, imagetest.LinkM
	for _, c := range []struct {
		name   string
		layers layers
		want   string
	}{
		{"a file replaces a file", layers{{file("a")}, {file("a"), file("b")}}, "a b"},
		{"a whiteout", layers{{file("d/a"), file("d/b")}, {file("d/.wh.a")}}, "d/ d/b"},
		{"a whiteout of a directory", layers{{file("d/e/a"), file("x")}, {file(".wh.d")}}, "x"},
		{"a whiteout before its name again", layers{{file("d/a"), file("d/b")}, {file(".wh.d"), file("d/c")}}, "d/ d/c"},
		{"a whiteout spares its own layer", layers{{file("d/a")}, {file("d/b"), file("d/.wh.a")}}, "d/ d/b"},
		{"a whiteout behind the names that it hides below", layers{{file("d/a")}, {dir("d"), file("d/b"), file(".wh.d")}}, "d/ d/b"},
		{"a whiteout behind a file of its name", layers{{file("a")}, {file("a"), file(".wh.a")}}, "a"},
		{"a whiteout behind its directory, which comes again", layers{{file("d/a")}, {dir("d"), file(".wh.d"), dir("d")}}, "d/"},
		{"a whiteout behind its directory, and a layer on it", layers{{file("d/a")}, {dir("d"), file("d/b"), file(".wh.d")}, {file("d/c")}}, "d/ d/b d/c"},
		{"opaque", layers{{file("d/a"), file("d/e/b")}, {file("d/.wh..wh..opq"), file("d/c")}}, "d/ d/c"},
		{"opaque behind the files of its layer", layers{{file("d/a")}, {file("d/c"), file("d/.wh..wh..opq")}}, "d/ d/c"},
		{"a directory replaces a file", layers{{file("a")}, {dir("a"), file("a/b")}}, "a/ a/b"},
		{"a file replaces a directory", layers{{file("a/b")}, {file("a")}}, "a"},
		{"a directory again keeps what is in it", layers{{file("d/a")}, {dir("d")}}, "d/ d/a"},
		{"hard links", layers{{file("a"), link("b", "a"), link("c/d", "b")}}, "a=1 b=1 c/ c/d=1"},
		{"a link to a lower layer's file", layers{{file("a")}, {link("b", "a")}}, "a=1 b=1"},
		{"one name of two is replaced", layers{{file("a"), link("b", "a")}, {file("a")}}, "a b"},
		{"a symlink replaces a directory", layers{{file("lib/a"), file("usr/lib/b")}, {sym("lib", "usr/lib")}}, "lib usr/ usr/lib/ usr/lib/b"},
		{"aufs's own files", layers{{file(".wh..wh.plnk/1.2"), link("a", ".wh..wh.plnk/1.2"), link("b", ".wh..wh.plnk/1.2"), file(".wh..wh.aufs")}}, "a=1 b=1"},
		{"a link to nothing", layers{{link("a", "b")}}, "error a: hard link to b, which does not exist"},
		{"a path through a file", layers{{file("a"), file("a/b")}}, "error a is not a directory"},
		{"a whiteout behind a file of its name, in the lowest layer", layers{{file("b"), file("a"), file(".wh.a")}}, "b"},
		{"an opaque marker below a file", layers{{file("a"), file("a/.wh..wh..opq")}}, "a"},
		{"an opaque marker in a loop of symlinks", layers{{sym("a", "b"), sym("b", "a"), file("a/d/.wh..wh..opq")}}, "error too many levels of symbolic links"},
		{"a path through a loop of symlinks", layers{{sym("a", "b"), sym("b", "a"), file("a/c")}}, "error too many levels of symbolic links"},
		{"a whiteout of nothing", layers{{file(".wh.")}}, "error whiteout of nothing"},
		{"a name outside", layers{{file("../a")}}, "error leaves the root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := imagetest.TestSession(t)
			tree, err := s.Image(t.Context(), imagetest.Stack(t, c.layers...))
			if fails, ok := strings.CutPrefix(c.want, "error "); ok {
				if err == nil || !strings.Contains(err.Error(), fails) {
					t.Errorf("got %v, want an error with %q", err, fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(tree); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestLinkSetsMetadata: an engine sets a file's metadata by the header of each of its links, so the last one counts
// (containerd, archive.createTarFile). The kernel drops the capabilities as the owner is set.
func TestLinkSetsMetadata(t *testing.T) {
	const user, capable = blob.XattrPrefix + "user.a", blob.XattrPrefix + "security.capability"
	a, b := imagetest.FileM("a", []byte("a")), imagetest.LinkM("b", "a")
	a.Uid, a.PAXRecords = 1, map[string]string{user: "1", capable: "2"}
	b.Mode, b.Uid, b.Gid, b.Uname, b.Gname, b.ModTime = 0o4711, 2, 3, "user", "group", time.Unix(4, 0)
	for links, want := range map[string]map[string]string{"plain": {user: "1"}, "capable": {user: "1", capable: "3"}} {
		if b.PAXRecords = nil; links == "capable" {
			b.PAXRecords = map[string]string{capable: "3"}
		}
		tree := imagetest.Must[*contents.Tree](t)(imagetest.TestSession(t).Image(t.Context(), imagetest.Stack(t, layers{{a, b}}...)))
		for _, name := range []string{"a", "b"} {
			e := tree.Find(name)
			got := fmt.Sprintf("%o %d:%d %s:%s %d", e.Mode, e.Uid, e.Gid, e.Uname, e.Gname, e.ModTime.Unix())
			if got != "4711 2:3 user:group 4" || !maps.Equal(e.PAXRecords, want) {
				t.Errorf("%s, %s: got %s, %q, want %q", links, name, got, e.PAXRecords, want)
			}
		}
	}
	s := imagetest.SymM("s", "to")
	l := imagetest.LinkM("t", "s")
	tree := imagetest.Must[*contents.Tree](t)(imagetest.TestSession(t).Image(t.Context(), imagetest.Stack(t, layers{{s, l}}...)))
	if e := tree.Find("t"); e == nil || e.Mode != 0o777 {
		t.Errorf("a link of a symlink: got %+v", e)
	}
}

func describe(tree *contents.Tree) string {
	names, count := map[*contents.Inode]int{}, map[*contents.Inode]int{}
	for _, name := range tree.Names() {
		count[tree.At(name).Inode]++
	}
	var all []string
	for _, name := range tree.Names()[1:] {
		k := tree.At(name)
		switch {
		case k.IsDir():
			name += "/"
		case count[k.Inode] > 1:
			if names[k.Inode] == 0 {
				names[k.Inode] = len(names) + 1
			}
			name += fmt.Sprintf("=%d", names[k.Inode])
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

// The content of each file can be read again, of the layer that shows it.
func TestContents(t *testing.T) {
	s := imagetest.TestSession(t)
	tree := imagetest.Must[*contents.Tree](t)(s.Image(t.Context(), imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.FileM("a", []byte("lower")), imagetest.FileM("b", []byte("text")), imagetest.LegacyM("c", "1"), imagetest.LinkM("d", "b")},
		[]imagetest.TestMember{imagetest.FileM("a", []byte("upper"))})))
	want := map[string]string{"a": "upper", "b": "text", "c": string(imagetest.LegacyELF("1")), "d": "text"}
	files := map[string]*contents.Inode{}
	for name := range want {
		files[name] = tree.Find(name).Inode
	}
	got, err := tree.Contents(t.Context(), files)
	if err != nil || !maps.EqualFunc(got, want, func(a []byte, b string) bool { return string(a) == b }) {
		t.Errorf("got %q, %v", got, err)
	}
}

// A layer of two images is read once.
func TestLayerIsReadOnce(t *testing.T) {
	notes := &imagetest.Notes{}
	s := contents.NewSession(0, notes, patch.Options{})
	defer s.Close()
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("c", "1")})
	first := imagetest.Must[*contents.Tree](t)(s.Image(t.Context(), img))
	again := imagetest.Must[*contents.Tree](t)(s.Image(t.Context(), img))
	if first.Layers[0] != again.Layers[0] {
		t.Error("the layer was read again")
	}
}
