package images

import (
	"bytes"
	"context"
	"io"
	"path"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// FuzzTar puts two layers of any bytes together and writes the added layer. Whatever they
// hold: no panic, no name outside the root, and what is written can be read again and shows
// nothing left to patch.
func FuzzTar(f *testing.F) {
	for _, tc := range visibleCases {
		two := [2][]byte{}
		for i, l := range tc.layers {
			two[min(i, 1)] = tarMembers(f, l...)
		}
		f.Add(two[0], two[1])
	}
	f.Add([]byte("not tar"), []byte{})
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		ctx := context.Background()
		s := testSession(t)
		tr := newMerged()
		for n, data := range [][]byte{lower, upper} {
			x := &examiner{s: s, whiteouts: true}
			entries, err := x.readEntries(ctx, bytes.NewReader(data))
			x.Close()
			if err != nil {
				return
			}
			if err := tr.apply(&layerIndex{title: "layer", entries: entries}, n); err != nil {
				return
			}
		}
		found, err := s.findings(ctx, tr)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range found.hits {
			for _, name := range h.names {
				if name != path.Clean(name) || strings.HasPrefix(name, "/") || strings.HasPrefix(name+"/", "../") {
					t.Fatalf("name %q", name)
				}
			}
		}
		hits := found.affected()
		if len(hits) == 0 {
			return
		}
		added, err := s.newLayer(ctx, tr, hits, nil)
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
		if h, _, _ := v1.SHA256(bytes.NewReader(data)); h != added.diffID {
			t.Fatalf("got diff ID %v, want %v", added.diffID, h)
		}
		x := &examiner{s: s, whiteouts: true}
		defer x.Close()
		entries, err := x.readEntries(ctx, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.apply(&layerIndex{title: "added", entries: entries}, 2); err != nil {
			t.Fatal(err)
		}
		again, err := s.findings(ctx, tr)
		if err != nil {
			t.Fatal(err)
		}
		if left := again.affected(); len(left) > 0 {
			t.Fatalf("still to patch: %q", left[0].names)
		}
	})
}
