package contents

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"vfix.dev/vfix/images/source"
)

// A compressed file counts as a tar archive if it has one, or if it is damaged before this can be determined.
func TestCompressedTar(t *testing.T) {
	pack := map[string]func(string) []byte{
		"gzip": func(s string) []byte {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			w.Write([]byte(s))
			w.Close()
			return b.Bytes()
		},
		"zstd": func(s string) []byte {
			w, _ := zstd.NewWriter(nil)
			return w.EncodeAll([]byte(s), nil)
		},
	}
	archive := func(h *tar.Header) string {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		w.Close()
		return b.String()
	}
	for name, pack := range pack {
		for _, c := range []struct {
			name, content string
			want          bool
		}{
			{"an archive", archive(&tar.Header{Name: "x"}), true},
			{"PAX", archive(&tar.Header{Name: "x", PAXRecords: map[string]string{"A.b": "c"}}), true},
			{"an empty one", string(make([]byte, 1024)), true},
			{"a program", "\x7fELF\x02\x01\x01" + string(bytes.Repeat([]byte("code"), 10_000)), false},
			{"a long text", string(bytes.Repeat([]byte("hello\n"), 1000)), false},
		} {
			for cut := range 2 {
				file := filepath.Join(t.TempDir(), "file")
				b := pack(c.content)
				if cut > 0 {
					b = b[:12]
				}
				if err := os.WriteFile(file, b, 0o600); err != nil {
					t.Fatal(err)
				}
				if got, err := source.IsTarball(file); err != nil || got != (c.want || cut > 0) {
					t.Errorf("%s, %s, cut %d: got %v, %v", name, c.name, cut, got, err)
				}
			}
		}
	}
}
