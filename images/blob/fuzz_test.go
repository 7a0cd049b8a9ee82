package blob_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"

	"vfix.dev/vfix/images/blob"
)

// FuzzDecompress: what the standard library reads of a stream to its end is what a layer has, and before an
// error the bytes are the same.
func FuzzDecompress(f *testing.F) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(bytes.Repeat([]byte("layer "), 100))
	w.Close()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	packed := e.EncodeAll([]byte("layer"), nil)
	f.Add(z.Bytes())
	f.Add(append(bytes.Clone(z.Bytes()), z.Bytes()...))
	f.Add(append(bytes.Clone(z.Bytes()), 0, 0, 0))
	f.Add(z.Bytes()[:z.Len()-3])
	f.Add(append(packed, packed...))
	f.Add([]byte("plain"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		const most = 1 << 20
		r, kind, err := blob.Decompress(context.Background(), bytes.NewReader(raw))
		var got []byte
		if err == nil {
			defer r.Close()
			got, err = io.ReadAll(io.LimitReader(r, most))
		}
		if kind == blob.PlainStream && (err != nil || !bytes.Equal(got, raw) && len(raw) <= most) {
			t.Errorf("plain: got %d bytes, %v, want all %d", len(got), err, len(raw))
		}
		zr, zerr := gzip.NewReader(bytes.NewReader(raw))
		if kind != blob.GzipStream || zerr != nil {
			return
		}
		want, zerr := io.ReadAll(io.LimitReader(zr, most))
		// The reserved bits of a header must be zero (RFC 1952, section 2.3.1.2); the standard library ignores them.
		if zerr == nil && !errors.Is(err, gzip.ErrHeader) && (err != nil || !bytes.Equal(got, want)) {
			t.Errorf("gzip: got %d bytes, %v, want %d", len(got), err, len(want))
		}
		if !bytes.HasPrefix(want, got[:min(len(got), len(want))]) {
			t.Errorf("gzip: the bytes before the error %v differ", zerr)
		}
	})
}
