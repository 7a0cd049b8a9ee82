package blob

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/hinterr"
)

func hashOf(text string) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}
}

type closes struct {
	io.Reader
	open *int
}

func (c *closes) Close() error { *c.open--; return nil }

// A content is handed on to its end only with its digest and length; behind an error there is nothing.
func TestVerified(t *testing.T) {
	const text = "some text of a blob"
	n := int64(len(text))
	for _, c := range []struct {
		name string
		hash v1.Hash
		size int64
		want string // of the error; "" for none
		got  string
	}{
		{"as stated", hashOf(text), n, "", text},
		{"without a length", hashOf(text), -1, "", text},
		{"shorter", hashOf(text), n + 1, fmt.Sprintf("got %d bytes, want %d", n, n+1), text},
		{"longer", hashOf(text), n - 1, fmt.Sprintf("more than %d bytes", n-1), text[:n-1]},
		{"not empty", hashOf(""), 0, "more than 0 bytes", ""},
		{"another", hashOf("other"), n, "content does not match its digest: got " + hashOf(text).String() + " of its 19 bytes", text},
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "the end with the last bytes": iotest.DataErrReader,
		} {
			r, err := Verified(io.NopCloser(wrap(strings.NewReader(text))), c.hash, c.size)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if string(got) != c.got || (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%s, %s: got %q, %v, want %q, %q", c.name, how, got, err, c.got, c.want)
			}
			if k, again := r.Read(make([]byte, 1)); k != 0 || err != nil && again != err || err == nil && again != io.EOF {
				t.Errorf("%s, %s: behind the end: got %d bytes, %v", c.name, how, k, again)
			}
		}
	}
	open := 1
	if _, err := Verified(&closes{strings.NewReader(text), &open}, v1.Hash{Algorithm: "md5", Hex: "x"}, n); err == nil || open != 0 {
		t.Errorf("another algorithm: got %v, %d open", err, open)
	}
}

// The stream of a layer is checked against its digest once: it is hashed again only for another digest or size.
func TestVerifiedTwice(t *testing.T) {
	const text = "some text of a blob"
	once, _ := Verified(io.NopCloser(strings.NewReader(text)), hashOf(text), -1)
	for _, c := range []struct {
		hash v1.Hash
		size int64
		same bool
	}{{hashOf(text), -1, true}, {hashOf(text), int64(len(text)), false}, {hashOf("other"), -1, false}} {
		if again, err := Verified(once, c.hash, c.size); err != nil || (again == once) != c.same {
			t.Errorf("%v, %d bytes: got the same stream: %v, %v", c.hash, c.size, again == once, err)
		}
	}
}

func TestDetectCompression(t *testing.T) {
	for head, want := range map[string]Compression{
		"": PlainStream, "\x1f": PlainStream, "\x1f\x8b": GzipStream, "\x1f\x8b\x08": GzipStream, "\x1f\x8c": PlainStream, "\x1e\x8b": PlainStream,
		"\x28\xb5\x2f\xfd": ZstdStream, "\x28\xb5\x2f": PlainStream,
		"\x50\x2a\x4d\x18": ZstdStream, "\x5f\x2a\x4d\x18": ZstdStream, "\x60\x2a\x4d\x18": PlainStream, "\x50\x2b\x4d\x18": PlainStream,
		"\x50\x2a\x4e\x18": PlainStream, "\x50\x2a\x4d\x19": PlainStream, "\x50\x2a\x4d": PlainStream, "\x51\x2a\x4d\x18x": ZstdStream,
	} {
		if got := DetectCompression([]byte(head)); got != want {
			t.Errorf("%q: got %v, want %v", head, got, want)
		}
	}
}

func TestCleanName(t *testing.T) {
	long := strings.Repeat("x", MaxName)
	for name, want := range map[string]string{
		"a": "a", "/a": "a", "//a": "a", "./a/": "a", "a/../b": "b", "..a": "..a", "...": "...", ".": "", "": "", "/": "", "a/..": "", long: long,
	} {
		if got, err := CleanName(name); err != nil || got != want {
			t.Errorf("%.20q: got %.20q, %v, want %.20q", name, got, err, want)
		}
	}
	for _, name := range []string{"..", "../a", "/../a", "a/../../b", "\x00", "a\x00b", "\x00a", long + "x"} {
		if got, err := CleanName(name); err == nil {
			t.Errorf("%.20q: got %.20q", name, got)
		}
	}
	for key, want := range map[string]bool{"GNU.sparse.major": true, "GNU.other": false, "path": false} {
		if got := IsSparse(&tar.Header{PAXRecords: map[string]string{key: "1"}}); got != want {
			t.Errorf("%s: got %v", key, got)
		}
	}
	for flag, want := range map[byte]bool{tar.TypeReg: true, 0: true, 1: false, tar.TypeGNUSparse: true, tar.TypeCont: true, tar.TypeDir: false, tar.TypeLink: false} {
		if got := (&TarMember{Header: &tar.Header{Typeflag: flag}}).IsRegular(); got != want {
			t.Errorf("%q: got %v", flag, got)
		}
	}
}

func TestShortHash(t *testing.T) {
	for hex, want := range map[string]string{"": "sha256:", "abc": "sha256:abc", "0123456789ab": "sha256:0123456789ab", "0123456789abc": "sha256:0123456789ab"} {
		if got := ShortHash(v1.Hash{Algorithm: "sha256", Hex: hex}); got != want {
			t.Errorf("%q: got %s", hex, got)
		}
	}
}

// A counting reader keeps the error of reading, which is then nobody's fault.
func TestCountingReader(t *testing.T) {
	broken := errors.New("broken")
	for _, end := range []error{io.EOF, broken} {
		c := &CountingReader{R: io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(end))}
		io.ReadAll(c)
		if c.N != 3 || (c.Err == broken) != (end == broken) {
			t.Errorf("%v: got %d bytes, %v", end, c.N, c.Err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := CopyTo(ctx, io.Discard, strings.NewReader("x"), nil); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %d, %v", n, err)
	}
	dir := t.TempDir()
	for name, want := range map[string]error{dir: hinterr.ErrDamaged, dir + "/none": hinterr.ErrNotFound} {
		if _, _, err := OpenRegular(name); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}
