package contents_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/hinterr"
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
		hits := tree.Findings().ToPatch()
		l := imagetest.Must[*blob.PackedLayer](t)(contents.NewLayer(t.Context(), tree, hits, c.extras))
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
		if _, err := contents.NewLayer(ended, tree, hits, c.extras); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "added layer: ") {
			t.Errorf("%s: canceled: got %v", c.name, err)
		}
	}
	if _, err := blob.PackLayer(1, func(io.Writer) error { return errors.New("no more") }); err == nil || err.Error() != "no more" {
		t.Errorf("a stream that fails: got %v", err)
	}
	for flag, e := range map[byte]contents.Extra{tar.TypeReg: {Name: "a"}, tar.TypeSymlink: {Name: "a", Link: "b"}} {
		if m := e.Member(); m.Typeflag != flag {
			t.Errorf("%+v: got the kind %c", e, m.Typeflag)
		}
	}
	l := imagetest.Must[*blob.PackedLayer](t)(blob.PackLayer(1, func(w io.Writer) error { _, err := w.Write(make([]byte, 1<<20)); return err }))
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
	file := tree.Find("a").Inode
	got, err := tree.Contents(t.Context(), map[string]*contents.Inode{"a": file, "b": file})
	if err != nil || string(got["a"]) != "text" || string(got["b"]) != "text" {
		t.Errorf("got %q, %v", got, err)
	}
	for what, l := range map[string]v1.Layer{"a link to nothing": layer(imagetest.LinkM("b", "none")), "not an archive": imagetest.BytesLayer(t, imagetest.Noise(2000))} {
		if err := s.AddLayer(t.Context(), tree, l); !errors.Is(err, hinterr.ErrDamaged) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
