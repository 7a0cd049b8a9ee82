package blob_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"vfix.dev/vfix/images/blob"
)

// TestPacker: a stream that was packed before is packed again only for a reader, who gets the same bytes or an error.
func TestPacker(t *testing.T) {
	var p blob.Packer
	content, failure := "first", error(nil)
	layer := func() *blob.PackedLayer {
		t.Helper()
		l, err := p.Layer(6, func(w io.Writer) error {
			_, err := io.WriteString(w, content)
			return errors.Join(err, failure)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		return l
	}
	read := func(l *blob.PackedLayer) (string, error) {
		r, err := l.Uncompressed()
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(r)
		return string(b), err
	}
	first := layer()
	content = "second"
	second := layer()
	if first.Packed == second.Packed {
		t.Error("two streams are one layer")
	}
	for n, l := range []*blob.PackedLayer{second, layer()} {
		if l.Packed != second.Packed {
			t.Errorf("layer %d: got %v, want %v", n, l.Packed, second.Packed)
		}
		for range 2 {
			if got, err := read(l); got != content || err != nil {
				t.Errorf("layer %d: got %q, %v, want %q", n, got, err, content)
			}
		}
	}
	if got, err := read(first); got != "first" || err != nil {
		t.Errorf("first layer: got %q, %v", got, err)
	}

	unread, broken := layer(), layer()
	failure = errors.New("the source is gone")
	if _, err := read(broken); !errors.Is(err, failure) {
		t.Errorf("failing source: got error %v, want %v", err, failure)
	}
	content, failure = "another", nil
	if _, err := read(unread); err == nil || !strings.Contains(err.Error(), second.PackedDigest.String()) {
		t.Errorf("source with another content: got error %v", err)
	}
}
