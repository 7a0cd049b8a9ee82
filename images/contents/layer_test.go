package contents_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/imagetest"
)

type layers = [][]imagetest.TestMember

// The members of an added layer, in their order: engines that follow the symlinks of the layers below get the same file as
// before.
func TestNewLayer(t *testing.T) {
	usr := []imagetest.TestMember{imagetest.DirM("usr/lib"), imagetest.SymM("lib", "usr/lib")}
	extras := []contents.Extra{{Name: "etc/x", Body: []byte("x"), Mode: 0o640}, {Name: "new/link", Link: "../etc/x"}}
	for _, c := range []struct {
		name   string
		layers layers
		extras []contents.Extra
		want   string
	}{
		{"by name", layers{{imagetest.LegacyM("b", "1"), imagetest.LegacyM("a", "2")}}, nil, "a b"},
		{"extras", layers{{imagetest.DirM("etc"), imagetest.LegacyM("b", "1")}}, extras, "b etc/ etc/x=x new/ new/link"},
		{"a symlink that would be", layers{append(usr, imagetest.LegacyM("usr/lib/a", "1")), {imagetest.SymM("lib/a", "x")}}, nil, "usr/lib/ usr/lib/a"},
		{"a directory that would be", layers{append(usr, imagetest.LegacyM("usr/lib/a", "1")), {imagetest.DirM("lib/a"), imagetest.FileM("lib/a/x", nil)}}, nil, "usr/lib/ usr/lib/a"},
		{"a link of a lower layer's file", layers{{imagetest.DirM("d"), imagetest.LegacyM("d/a", "1")}, {imagetest.LinkM("b", "d/a")}}, nil, "b d/ d/a"},
		{"a directory that only other engines make again", layers{{imagetest.DirM("d"), imagetest.DirM("d/e")}, {imagetest.DirM("d/e"), imagetest.FileM("d/.wh.e", nil), imagetest.LegacyM("d/e/g", "1")}}, nil, "d/e/ d/e/g"},
	} {
		s := imagetest.TestSession(t)
		tree := imagetest.Must[*contents.Tree](t)(s.Image(t.Context(), imagetest.Stack(t, c.layers...)))
		hits := imagetest.Must[*contents.Scanned](t)(s.Findings(t.Context(), tree)).ToPatch()
		l := imagetest.Must[*contents.AddedLayer](t)(s.NewLayer(t.Context(), tree, hits, c.extras))
		defer l.Close()
		r := imagetest.Must[io.ReadCloser](t)(l.Uncompressed())
		defer r.Close()
		var got []string
		for _, m := range imagetest.ReadTar(t, r) {
			if legacy, fixed := imagetest.LegacyText(m.Body); legacy != "" {
				m.Name += " unpatched"
			} else if len(m.Body) > 0 && fixed == "" {
				m.Name += "=" + string(m.Body)
			}
			got = append(got, m.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %s", c.name, got, c.want)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := s.NewLayer(ended, tree, hits, c.extras); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "added layer: ") {
			t.Errorf("%s: canceled: got %v", c.name, err)
		}
	}
	if _, err := contents.PackLayer(func(io.Writer) error { return errors.New("no more") }); err == nil || !strings.HasPrefix(err.Error(), "added layer: no more") {
		t.Errorf("a stream that fails: got %v", err)
	}
	for flag, e := range map[byte]contents.Extra{tar.TypeReg: {Name: "a"}, tar.TypeSymlink: {Name: "a", Link: "b"}, tar.TypeDir: {Name: "a/"}} {
		if m := e.Member(); m.Typeflag != flag {
			t.Errorf("%+v: got the kind %c", e, m.Typeflag)
		}
	}
	l := imagetest.Must[*contents.AddedLayer](t)(contents.PackLayer(func(w io.Writer) error { _, err := w.Write(make([]byte, 1<<20)); return err }))
	defer l.Close()
	if l.PackedSize > 1<<14 {
		t.Errorf("1 MiB of zeros: packed in %d bytes", l.PackedSize)
	}
}

// A layer is applied to a tree with its contents; one that cannot be read or applied is an error.
func TestAddLayer(t *testing.T) {
	s := imagetest.TestSession(t)
	tree := contents.NewTree()
	layer := func(members ...imagetest.TestMember) v1.Layer {
		return imagetest.BytesLayer(t, imagetest.TarMembers(t, members...))
	}
	if err := s.AddLayer(t.Context(), tree, layer(imagetest.FileM("a", []byte("text")))); err != nil {
		t.Fatal(err)
	}
	if err := tree.Read(t.Context(), []*contents.Inode{tree.Find("a").Inode}, func(_ *contents.Inode, r io.Reader) error {
		if b, err := io.ReadAll(r); err != nil || string(b) != "text" {
			t.Errorf("got %q, %v", b, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for what, l := range map[string]v1.Layer{"a link to nothing": layer(imagetest.LinkM("b", "none")), "not an archive": imagetest.BytesLayer(t, imagetest.Noise(2000))} {
		if err := s.AddLayer(t.Context(), tree, l); !errors.Is(err, hinterr.ErrDamaged) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// A rewritten tarball has the patched files without their marks, in their new sizes, and everything else as before.
func TestRewriteTarball(t *testing.T) {
	marked := imagetest.LegacyM("a", "1")
	marked.PAXRecords = map[string]string{blob.XattrPrefix + "security.ima": "1", blob.XattrPrefix + "user.a": "2", "VENDOR.note": "3"}
	kept := imagetest.FileM("c", []byte("text"))
	kept.PAXRecords = map[string]string{blob.XattrPrefix + "security.ima": "1"}
	volume, list := imagetest.TestMember{Header: tar.Header{Typeflag: 'V', Name: "volume"}}, imagetest.TestMember{Header: tar.Header{Typeflag: 'D', Name: "list", Size: 3}, Body: []byte("Yx\x00")}
	plain := imagetest.TarMembers(t, volume, list, imagetest.DirM("d"), marked, imagetest.FileM("libjvm.so", imagetest.JVMLibrary(t)), kept)
	name := imagetest.Write(t, t.TempDir()+"/x.tar", plain)
	s := contents.NewSession(1, nil, patch.Options{Fixes: find.Fixes})
	defer s.Close()
	sub := imagetest.Must[*contents.Subject](t)(s.OpenSubject(t.Context(), &source.Source{Path: name}))
	defer sub.Close()
	unfixed := imagetest.Must[*contents.Scanned](t)(imagetest.TestSession(t).Path(t.Context(), name))
	hits := sub.F.ToPatch()
	if len(unfixed.Hazards) != 1 || len(unfixed.Files) != 1 || len(hits) != 2 || len(sub.F.Hazards) != 0 || hits[1].Plan.Size <= hits[1].Size {
		t.Fatalf("got %d files to patch, hazards %+v", len(hits), sub.F.Hazards)
	}
	var out bytes.Buffer
	if err := contents.RewriteTarball(t.Context(), &out, bytes.NewReader(plain), hits); err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{"volume": 0, "list": 3, "d/": 0, "a": hits[0].Plan.Size, "libjvm.so": hits[1].Plan.Size, "c": 4}
	members := imagetest.ReadTar(t, bytes.NewReader(out.Bytes()))
	for _, m := range members {
		_, ima := m.PAXRecords[blob.XattrPrefix+"security.ima"]
		_, user := m.PAXRecords[blob.XattrPrefix+"user.a"]
		if size, has := sizes[m.Name]; !has || m.Size != size || int64(len(m.Body)) != size || ima != (m.Name == "c") || user != (m.Name == "a") || (m.PAXRecords["VENDOR.note"] == "3") != (m.Name == "a") {
			t.Errorf("%s: got %d bytes of %d, attributes %q", m.Name, len(m.Body), m.Size, m.PAXRecords)
		}
	}
	if len(members) != len(sizes) || !bytes.Equal(members[3].Body, imagetest.FixedELF("1")) {
		t.Errorf("got %d members, want %d", len(members), len(sizes))
	}
	if w := strings.Join(hits[0].Plan.Warnings, "; "); !strings.HasPrefix(w, "security.ima dropped") || len(hits[1].Plan.Warnings) > 0 {
		t.Errorf("got warnings %q", w)
	}
	if sum, err := contents.TarballSum(t.Context(), name, hits); err != nil || sum != sha256.Sum256(out.Bytes()) {
		t.Errorf("its sum: got %x, %v", sum, err)
	}
	if _, err := contents.TarballSum(t.Context(), name+"x", hits); err == nil {
		t.Error("the sum of no file: no error")
	}
	var packed bytes.Buffer
	if err := contents.RewriteTarball(t.Context(), &packed, bytes.NewReader(imagetest.GzipOf(t, plain)), hits); err != nil || packed.Len() > out.Len()/4 {
		t.Errorf("compressed: got %d bytes of %d, %v", packed.Len(), out.Len(), err)
	}
}

// The differences between the metadata of two files are named.
func TestMetaDiffers(t *testing.T) {
	of := func(change func(h *tar.Header)) *contents.Meta {
		h := &tar.Header{Mode: 0o644, Uid: 1, Gid: 2, ModTime: imagetest.TestTime, Devmajor: 3, Devminor: 4, PAXRecords: map[string]string{blob.XattrPrefix + "user.a": "1"}}
		change(h)
		m := contents.NewMeta(h)
		return &m
	}
	same := of(func(*tar.Header) {})
	for want, change := range map[string]func(h *tar.Header){
		"":                           func(*tar.Header) {},
		"mode: got 0644, want 04644": func(h *tar.Header) { h.Mode = 0o4644 },
		"owner: got 1:2, want 3:2":   func(h *tar.Header) { h.Uid = 3 },
		"owner: got 1:2, want 1:3":   func(h *tar.Header) { h.Gid = 3 },
		"device: got 3:4, want 3:5":  func(h *tar.Header) { h.Devminor = 5 },
		"mtime: got " + imagetest.TestTime.UTC().String():  func(h *tar.Header) { h.ModTime = h.ModTime.Add(1) },
		"xattrs: got [user.a], want []":                    func(h *tar.Header) { h.PAXRecords = nil },
		"mode: got 0644, want 0, owner: got 1:2, want 0:2": func(h *tar.Header) { h.Mode, h.Uid = 0, 0 },
	} {
		if got := same.Differs(of(change)); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Without a directory for temporary files, what needs one fails.
func TestNoTemp(t *testing.T) {
	text, legacy := imagetest.FileM("a", []byte("text")), imagetest.LegacyM("b", "1")
	s := imagetest.TestSession(t)
	tree := imagetest.Must[*contents.Tree](t)(s.Image(t.Context(), imagetest.Stack(t, []imagetest.TestMember{text})))
	keeps := imagetest.TestSession(t)
	keeps.Keep = func(string, int64) bool { return true }
	image := func(s *contents.Session, m imagetest.TestMember) error {
		_, err := s.Image(t.Context(), imagetest.Stack(t, []imagetest.TestMember{m}))
		return err
	}
	dir := t.TempDir()
	imagetest.Write(t, dir+"/b", legacy.Body)
	t.Setenv("TMPDIR", dir+"/none")
	_, fetched := tree.Fetch(t.Context(), []*contents.Inode{tree.Find("a").Inode})
	_, packed := s.NewLayer(t.Context(), tree, nil, []contents.Extra{{Name: "x"}})
	for what, err := range map[string]error{
		"a file to patch": image(s, legacy), "a large file": image(s, imagetest.FileM("c", append(imagetest.ModernELF("c"), make([]byte, 3<<20)...))),
		"a file that is kept": image(keeps, text), "a file that is read again": fetched, "an added layer": packed,
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if err := image(s, imagetest.ModernM("d")); err != nil {
		t.Errorf("a file in memory: got %v", err)
	}
	if f, err := s.Path(t.Context(), dir); err != nil || len(f.Files) != 1 {
		t.Errorf("a file on disk: got %+v, %v", f, err)
	}
}
