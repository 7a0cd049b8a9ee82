package contents_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/tests/imagetest"
)

// lyingLayer claims what its fields say.
type lyingLayer struct {
	v1.Layer
	digest, diffID v1.Hash
	size           int64
}

func (l lyingLayer) Digest() (v1.Hash, error) { return l.digest, nil }

func (l lyingLayer) DiffID() (v1.Hash, error) { return l.diffID, nil }

func (l lyingLayer) Size() (int64, error) { return l.size, nil }

func TestLayerLies(t *testing.T) {
	plain := imagetest.TarMembers(t, imagetest.LegacyM("a", "1"), imagetest.FileM("b", imagetest.Noise(100_000)))
	honest := imagetest.BytesLayer(t, plain)
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
		{"diff ID", lyingLayer{honest, digest, wrong, size}, "layer sha256:abababababab: blob " + wrong.String() + ": content does not match its digest: got " + diffID.String()},
		{"size too small", lyingLayer{honest, digest, diffID, size - 1}, fmt.Sprintf("more than %d bytes", size-1)},
		{"size too large", lyingLayer{honest, digest, diffID, size + 1}, fmt.Sprintf("got %d bytes, want %d", size, size+1)},
		{"not gzip but tar", lyingLayer{imagetest.BytesLayer(t, imagetest.GzipOf(t, plain)), digest, diffID, size}, "layer sha256:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			imagetest.Decompressors(t, func(t *testing.T) {
				err := imagetest.TestSession(t).AddLayer(context.Background(), contents.NewTree(), tc.l)
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

func TestBadTar(t *testing.T) {
	good := imagetest.TarMembers(t, imagetest.LegacyM("lib/a", "1"), imagetest.FileM("b", imagetest.Noise(5000)))
	// archive/tar reads the archive up to the damage.
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
		{"not tar", imagetest.Noise(10_000), "not a tar archive"},
		{"text", []byte(strings.Repeat("hello\n", 1000)), "not a tar archive"},
		{"short", []byte("hello"), "tar archive ends early, in member 1"},
		{"empty", nil, ""},
		{"no end mark", bytes.TrimRight(good, "\x00"), ""}, // engines also take it
		{"cut inside a file", good[:1536+20], "lib/a: ends early"},
		{"cut inside its first bytes", good[:1536+10], "lib/a: ends early"},
		{"damaged header", damage(second+2, 'Q'), "damaged tar header of member 2"},
		{"PAX record of 1000 KiB", paxRecord(t, 1000<<10), ""},
		{"PAX record of 3 MiB", paxRecord(t, 3<<20), "a PAX or long-name record of member 1 is too long"},
		{"claims 1 GiB", tarClaims(t, 1<<30), "a: ends early"},
		{"claims 1 TiB", tarClaims(t, 1<<40), "tar archive ends early, in member 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := imagetest.TestSession(t).AddLayer(context.Background(), contents.NewTree(), imagetest.BytesLayer(t, tc.in))
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
	b := imagetest.TarMembers(t, imagetest.FileM("x", []byte(record)), imagetest.FileM("a", nil))
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
	tw.Write(imagetest.LegacyELF("1"))
	return b.Bytes()
}
