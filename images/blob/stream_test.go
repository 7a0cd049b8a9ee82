package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func TestDecompress(t *testing.T) {
	a, b := imagetest.Noise(700_000), append(bytes.Repeat([]byte("b"), 5_000_000), imagetest.Noise(100_000)...)
	flipped := imagetest.GzipOf(t, a)
	flipped[300_000] ^= 0x40
	for _, tc := range []struct {
		name string
		in   []byte
		want []byte // nil: an error
		kind blob.Compression
	}{
		{"gzip", imagetest.GzipOf(t, a), a, blob.GzipStream},
		{"gzip, two members", append(imagetest.GzipOf(t, a), imagetest.GzipOf(t, b)...), append(bytes.Clone(a), b...), blob.GzipStream},
		{"gzip, cut off", imagetest.GzipOf(t, a)[:400_000], nil, blob.GzipStream},
		{"gzip, cut off before its checksum", imagetest.GzipOf(t, b)[:len(imagetest.GzipOf(t, b))-8], nil, blob.GzipStream},
		{"gzip, a bit flipped", flipped, nil, blob.GzipStream},
		{"gzip, header alone", imagetest.GzipOf(t, a)[:10], nil, blob.GzipStream},
		{"gzip, header alone behind a member", append(imagetest.GzipOf(t, a), imagetest.GzipOf(t, b)[:10]...), nil, blob.GzipStream},
		{"zstd", imagetest.ZstdOf(t, a), a, blob.ZstdStream},
		{"zstd, two frames", append(imagetest.ZstdOf(t, a), imagetest.ZstdOf(t, b)...), append(bytes.Clone(a), b...), blob.ZstdStream},
		{"zstd, skippable frame first", append([]byte{0x5a, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9}, imagetest.ZstdOf(t, a)...), a, blob.ZstdStream},
		{"zstd, cut off", imagetest.ZstdOf(t, a)[:400_000], nil, blob.ZstdStream},
		{"plain", a, a, blob.PlainStream},
		{"plain, 1 byte", []byte("x"), []byte("x"), blob.PlainStream},
		{"empty", []byte{}, []byte{}, blob.PlainStream},
	} {
		t.Run(tc.name, func(t *testing.T) {
			imagetest.Decompressors(t, func(t *testing.T) {
				r, kind, err := blob.Decompress(context.Background(), bytes.NewReader(tc.in))
				var got []byte
				if err == nil {
					got, err = io.ReadAll(r)
					r.Close()
				}
				switch {
				case tc.want == nil && err == nil:
					t.Errorf("got %d bytes, want an error", len(got))
				case tc.want != nil && (err != nil || !bytes.Equal(got, tc.want)):
					t.Errorf("got %d bytes and error %v, want %d bytes", len(got), err, len(tc.want))
				}
				if kind != tc.kind {
					t.Errorf("got compression %s, want %s", kind, tc.kind)
				}
			})
		})
	}
}

// endless gives the start of a gzip stream and then nothing until it is cancelled.
type endless struct {
	io.Reader
	ctx context.Context
}

func (e endless) Read(p []byte) (int, error) {
	if n, err := e.Reader.Read(p); err != io.EOF {
		return n, err
	}
	<-e.ctx.Done()
	return 0, e.ctx.Err()
}

// A layer that is cut off, or is not what its head says, is damaged, whoever unpacks it: the message must not
// send its reader to look for a bug.
func TestDecompressDamaged(t *testing.T) {
	whole := imagetest.GzipOf(t, imagetest.Noise(300_000))
	flipped := bytes.Clone(whole)
	flipped[100_000] ^= 0x40
	for name, in := range map[string][]byte{"cut off": whole[:len(whole)-20], "flipped": flipped, "half a header": whole[:6]} {
		imagetest.Decompressors(t, func(t *testing.T) {
			r, _, err := blob.Decompress(t.Context(), bytes.NewReader(in))
			if err == nil {
				defer r.Close()
				_, err = io.Copy(io.Discard, r)
			}
			if !errors.Is(err, hinterr.ErrDamaged) {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}

// What is behind the last member is an error, as for engines, unless igzip unpacks the layer: it ignores it.
func TestDecompressBehind(t *testing.T) {
	for _, size := range []int{1000, 100_000} {
		for _, behind := range []string{"x", "garbage", "\x00\x00x"} {
			imagetest.Decompressors(t, func(t *testing.T) {
				r, _, err := blob.Decompress(t.Context(), bytes.NewReader(append(imagetest.GzipOf(t, imagetest.Noise(size)), behind...)))
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				got, err := io.ReadAll(r)
				if alone := strings.Contains(t.Name(), "/go") || size == 1000; (err != nil) != alone || !alone && !bytes.Equal(got, imagetest.Noise(size)) {
					t.Errorf("%d bytes and %q: got %d bytes and error %v", size, behind, len(got), err)
				}
			})
		}
	}
}

// A process costs more than the decompression of a small layer, and lists have many.
func TestDecompressSmall(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "igzip"), []byte("#!/bin/sh\necho 'igzip: Error (null) ends' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for size, child := range map[int]bool{1000: false, 60_000: false, 70_000: true} {
		r, _, err := blob.Decompress(t.Context(), bytes.NewReader(imagetest.GzipOf(t, imagetest.Noise(size))))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if child && (err == nil || strings.Contains(err.Error(), "null")) || !child && !bytes.Equal(got, imagetest.Noise(size)) {
			t.Errorf("%d bytes: got %d and error %v; want igzip to be started: %t", size, len(got), err, child)
		}
	}
}

func TestDecompressCancelled(t *testing.T) {
	imagetest.Decompressors(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		in := endless{bytes.NewReader(imagetest.GzipOf(t, imagetest.Noise(16<<20))[:8<<20]), ctx}
		r, _, err := blob.Decompress(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
	})
}

// A decompressor is in a process group of its own, where ^C of a terminal does not reach it.
func TestChildIsApart(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nread pid name state parent group rest </proc/$$/stat\necho $pid $group\n/bin/cat >/dev/null\n"
	if err := os.WriteFile(filepath.Join(dir, "igzip"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	r, _, err := blob.Decompress(t.Context(), bytes.NewReader(imagetest.GzipOf(t, imagetest.Noise(100_000))))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if pid, group, _ := strings.Cut(strings.TrimSpace(string(got)), " "); err != nil || pid == "" || pid != group {
		t.Errorf("got process and group %q, %v", got, err)
	}
}

// Closing a stream ends what unpacks it.
func TestDecompressClosed(t *testing.T) {
	imagetest.Decompressors(t, func(t *testing.T) {
		in := &countingReader{Reader: bytes.NewReader(imagetest.GzipOf(t, imagetest.Noise(16<<20)))}
		r, _, err := blob.Decompress(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		before := in.n
		if _, err := r.Read(make([]byte, 1)); err == nil || before >= 16<<20 {
			t.Errorf("got error %v after %d bytes", err, before)
		}
	})
}

// countingReader counts what is read.
type countingReader struct {
	io.Reader
	n int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// laid is a layer with the content of another.
type laid struct {
	v1.Layer
	content []byte
}

func (l laid) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.content)), nil
}

// A layer is read to its end only if both hashes are its own; of an uncompressed one they are the same.
func TestOpenLayer(t *testing.T) {
	plain := []byte(strings.Repeat("a", 2000))
	packed := imagetest.GzipOf(t, plain)
	whole := static.NewLayer(plain, types.DockerUncompressedLayer)
	for name, c := range map[string]struct {
		layer v1.Layer
		want  string
	}{
		"uncompressed":                       {whole, ""},
		"changed":                            {laid{whole, append([]byte("b"), plain[1:]...)}, "does not match its digest"},
		"compressed, with one hash for both": {static.NewLayer(packed, types.DockerLayer), "does not match its digest"},
	} {
		ls, err := blob.OpenLayer(t.Context(), c.layer, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = ls.Finish()
		ls.Close()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
