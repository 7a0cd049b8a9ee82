package contents_test

import (
	"bytes"
	"context"
	"io"
	"path"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/tests/imagetest"
)

// FuzzTar merges two layers of any bytes and writes the added layer: no panic, no name outside the root, and the
// written layer can be read and needs no patch.
func FuzzTar(f *testing.F) {
	f.Add(imagetest.TarMembers(f, imagetest.LegacyM("lib/a", "1"), imagetest.LinkM("b", "lib/a")), imagetest.TarMembers(f, imagetest.FileM("lib/.wh.a", nil)))
	f.Add([]byte("not tar"), []byte{})
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		ctx := context.Background()
		s := imagetest.TestSession(t)
		tr := contents.NewTree()
		for _, data := range [][]byte{lower, upper} {
			x := contents.NewExaminer(s)
			entries, err := x.ReadEntries(ctx, bytes.NewReader(data))
			x.Close()
			if err != nil {
				return
			}
			if err := tr.Apply(&contents.LayerIndex{Title: "layer", Entries: entries}); err != nil {
				return
			}
		}
		found := tr.Findings()
		for _, h := range found.Files {
			for _, name := range h.Names {
				if name != path.Clean(name) || strings.HasPrefix(name, "/") || strings.HasPrefix(name+"/", "../") {
					t.Fatalf("name %q", name)
				}
			}
		}
		hits := found.ToPatch()
		if len(hits) == 0 {
			return
		}
		added, err := contents.NewLayer(ctx, tr, hits, nil)
		if err != nil {
			return // a header that archive/tar reads and does not write
		}
		defer added.Close()
		plain, err := added.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(plain)
		if err != nil {
			t.Fatal(err)
		}
		if h, _, _ := v1.SHA256(bytes.NewReader(data)); h != added.PlainDigest {
			t.Fatalf("got diff ID %v, want %v", added.PlainDigest, h)
		}
		x := contents.NewExaminer(s)
		defer x.Close()
		entries, err := x.ReadEntries(ctx, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Apply(&contents.LayerIndex{Title: "added", Entries: entries}); err != nil {
			t.Fatal(err)
		}
		if left := tr.Findings().ToPatch(); len(left) > 0 {
			t.Fatalf("still to patch: %q", left[0].Names)
		}
	})
}
