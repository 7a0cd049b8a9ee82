package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// decompressors runs a test with each decompressor that is installed.
func decompressors(t *testing.T, f func(t *testing.T)) {
	for _, d := range []struct{ name, noIgzip, noPigz string }{
		{"igzip", "", "1"}, {"unpigz", "1", ""}, {"go", "1", "1"},
	} {
		t.Run(d.name, func(t *testing.T) {
			if _, err := exec.LookPath(d.name); err != nil && d.name != "go" {
				t.Skipf("%s is not installed", d.name)
			}
			t.Setenv("VFIX_DISABLE_IGZIP", d.noIgzip)
			t.Setenv("VFIX_DISABLE_PIGZ", d.noPigz)
			f(t)
		})
	}
}

// noise does not compress, so that a bit of it that is changed is not lost.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint64(88172645463325252) // xorshift64 (Marsaglia 2003)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

func TestDecompress(t *testing.T) {
	a, b := noise(700_000), bytes.Repeat([]byte("b"), 5_000_000)
	flipped := gzipOf(t, a)
	flipped[300_000] ^= 0x40
	for _, tc := range []struct {
		name string
		in   []byte
		want []byte // nil: an error
		kind compression
	}{
		{"gzip", gzipOf(t, a), a, gzipStream},
		{"gzip, two members", append(gzipOf(t, a), gzipOf(t, b)...), append(bytes.Clone(a), b...), gzipStream},
		{"gzip, cut off", gzipOf(t, a)[:400_000], nil, gzipStream},
		{"gzip, cut off before its checksum", gzipOf(t, b)[:len(gzipOf(t, b))-8], nil, gzipStream},
		{"gzip, a bit flipped", flipped, nil, gzipStream},
		{"gzip, header alone", gzipOf(t, a)[:10], nil, gzipStream},
		{"zstd", zstdOf(t, a), a, zstdStream},
		{"zstd, two frames", append(zstdOf(t, a), zstdOf(t, b)...), append(bytes.Clone(a), b...), zstdStream},
		{"zstd, skippable frame first", append([]byte{0x5a, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9}, zstdOf(t, a)...), a, zstdStream},
		{"zstd, cut off", zstdOf(t, a)[:400_000], nil, zstdStream},
		{"plain", a, a, plainStream},
		{"plain, 1 byte", []byte("x"), []byte("x"), plainStream},
		{"empty", []byte{}, []byte{}, plainStream},
	} {
		t.Run(tc.name, func(t *testing.T) {
			decompressors(t, func(t *testing.T) {
				r, kind, err := decompress(context.Background(), bytes.NewReader(tc.in))
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

func TestDecompressCancelled(t *testing.T) {
	decompressors(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		in := endless{bytes.NewReader(gzipOf(t, noise(16<<20))[:8<<20]), ctx}
		r, _, err := decompress(ctx, in)
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
		if c, ok := r.(*childReader); ok && c.cmd.ProcessState == nil {
			t.Error("the child was not waited for")
		}
	})
}

// lyingLayer claims what its fields say.
type lyingLayer struct {
	v1.Layer
	digest, diffID v1.Hash
	size           int64
}

func (l lyingLayer) Digest() (v1.Hash, error) { return l.digest, nil }
func (l lyingLayer) DiffID() (v1.Hash, error) { return l.diffID, nil }
func (l lyingLayer) Size() (int64, error)     { return l.size, nil }

func TestLayerLies(t *testing.T) {
	plain := tarMembers(t, legacyM("a", "1"))
	honest := bytesLayer(t, plain)
	digest, _ := honest.Digest()
	diffID, _ := honest.DiffID()
	size, _ := honest.Size()
	wrong := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("ab", 32)}
	for _, tc := range []struct {
		name string
		l    v1.Layer
		want string
	}{
		{"none", lyingLayer{honest, digest, diffID, size}, ""},
		{"digest", lyingLayer{honest, wrong, diffID, size}, "content does not match its digest: got " + digest.String()},
		{"diff ID", lyingLayer{honest, digest, wrong, size}, "layer sha256:abababababab: content does not match its diff ID: got " + diffID.String()},
		{"size too small", lyingLayer{honest, digest, diffID, size - 1}, "compressed size: got"},
		{"size too large", lyingLayer{honest, digest, diffID, size + 1}, "compressed size: got"},
		{"not gzip but tar", lyingLayer{bytesLayer(t, gzipOf(t, plain)), digest, diffID, size}, "layer sha256:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			decompressors(t, func(t *testing.T) {
				_, err := testSession(t).readLayer(context.Background(), tc.l)
				switch {
				case tc.want == "" && err != nil:
					t.Error(err)
				case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("got error %v, want one with %q", err, tc.want)
				}
			})
		})
	}
}

// plainLayer is a layer that is stored uncompressed, as ggcr knows it.
type plainLayer struct{ data []byte }

func (l plainLayer) DiffID() (v1.Hash, error) {
	h, _, err := v1.SHA256(bytes.NewReader(l.data))
	return h, err
}
func (l plainLayer) Uncompressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.data)), nil
}
func (l plainLayer) MediaType() (types.MediaType, error) { return types.DockerLayer, nil }

// TestPlainLayer: what ggcr would compress to know its digest is read as it is.
func TestPlainLayer(t *testing.T) {
	l := must[v1.Layer](t)(partial.UncompressedToLayer(plainLayer{tarMembers(t, legacyM("a", "1"))}))
	if !isPlain(l) {
		t.Error("an uncompressed layer of ggcr is not recognised")
	}
	if isPlain(bytesLayer(t, nil)) {
		t.Error("a compressed layer is taken for an uncompressed one")
	}
	ls := must[*layerStream](t)(openLayer(context.Background(), l, nil))
	defer ls.Close()
	if ls.packed != nil || ls.size != -1 {
		t.Error("the layer was compressed to be read")
	}
	if err := ls.finish(); err != nil {
		t.Error(err)
	}
}

func TestBadTar(t *testing.T) {
	good := tarMembers(t, legacyM("lib/a", "1"), fileM("b", noise(5000)))
	// archive/tar reads the archive up to where it is damaged.
	damage := func(at int, b ...byte) []byte {
		d := bytes.Clone(good)
		copy(d[at:], b)
		return d
	}
	second := bytes.Index(good, []byte("PaxHeaders.0/b"))
	if second < 0 {
		t.Fatal("the second member has no PAX header")
	}
	for _, tc := range []struct {
		name string
		in   []byte
		want string // "" for no error
	}{
		{"good", good, ""},
		{"not tar", noise(10_000), "not a tar archive"},
		{"text", []byte(strings.Repeat("hello\n", 1000)), "not a tar archive"},
		{"short", []byte("hello"), "tar archive ends early, after 0 members"},
		{"empty", nil, ""},
		{"no end mark", bytes.TrimRight(good, "\x00"), ""}, // engines take it, too
		{"cut inside a file", good[:1536+20], "lib/a: ends early"},
		{"damaged header", damage(second+2, 'Q'), "damaged tar header after 1 members"},
		{"PAX record of 1000 KiB", paxRecord(t, 1000<<10), ""},
		{"PAX record of 3 MiB", paxRecord(t, 3<<20), "a PAX or long-name record is too long, after 0 members"},
		{"claims 1 GiB", tarClaims(t, 1<<30), "a: ends early"},
		{"claims 1 TiB", tarClaims(t, 1<<40), "tar archive ends early, after 1 members"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := testSession(t).readLayer(context.Background(), bytesLayer(t, tc.in))
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// paxRecord is an archive of one member with a PAX header of size bytes.
func paxRecord(t *testing.T, size int) []byte {
	t.Helper()
	record := fmt.Sprintf("%d VENDOR.x=%s", size, strings.Repeat("x", size))
	record = record[:size-1] + "\n"
	b := tarMembers(t, fileM("x", []byte(record)), fileM("a", nil))
	// The member x becomes the extended header of a: type flag and checksum (POSIX pax,
	// ustar interchange format).
	const typeFlag, checksum = 156, 148
	i := bytes.Index(b, []byte("ustar\x0000")) - 257
	for b[i+typeFlag] != '0' { // behind x's own PAX header
		i += 512
	}
	b[i+typeFlag] = 'x'
	copy(b[i+checksum:], "        ")
	sum := 0
	for _, c := range b[i : i+512] {
		sum += int(c)
	}
	copy(b[i+checksum:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// tarClaims is an archive whose only member, an ELF file, claims size bytes.
func tarClaims(t *testing.T, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	if err := tw.WriteHeader(&tar.Header{Name: "a", Size: size}); err != nil {
		t.Fatal(err)
	}
	tw.Write(legacyELF("1"))
	return b.Bytes()
}

// TestSparse: GNU tar's three sparse formats, as GNU tar writes them.
func TestSparse(t *testing.T) {
	gnutar, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("tar is not installed")
	}
	dir := t.TempDir()
	write(t, dir+"/lib.so", legacyELF("1"))
	if err := os.Truncate(dir+"/lib.so", 20<<20); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/huge", legacyELF("2"))
	if err := os.Truncate(dir+"/huge", maxELF+1); err != nil {
		t.Fatal(err)
	}
	for _, format := range [][]string{{"--format=gnu"}, {"--format=pax", "--sparse-version=0.0"}, {"--format=pax", "--sparse-version=0.1"}, {"--format=pax", "--sparse-version=1.0"}} {
		t.Run(strings.Join(format, " "), func(t *testing.T) {
			out, err := exec.Command(gnutar, append(format, "-S", "-C", dir, "-c", "lib.so", "huge")...).Output()
			if err != nil {
				t.Fatal(err)
			}
			if len(out) > 1<<20 {
				t.Fatalf("got an archive of %d bytes: not sparse", len(out))
			}
			f, _, err := scanImage(t, imageOf(t, bytesLayer(t, out)))
			if err != nil {
				t.Fatal(err)
			}
			if len(f.hits) != 1 || f.Files[0].Path != "lib.so" || f.Files[0].Size != 20<<20 {
				t.Errorf("got %+v, want lib.so of 20 MiB", f.Files)
			}
			if len(f.Passed) != 1 || f.Passed[0].Path != "huge" || !strings.Contains(f.Passed[0].Reason, "sparse file of 4294967297 bytes") {
				t.Errorf("got passed %+v, want huge", f.Passed)
			}
		})
	}
}
