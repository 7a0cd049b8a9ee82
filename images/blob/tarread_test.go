package blob

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/internal/hinterr"
)

// A tar stream that is cut off anywhere but between two members is damaged, also behind the PAX records or the long name
// of a member, which archive/tar takes for the end.
func TestCutTar(t *testing.T) {
	const size = 7000 - 324 // ends within a block
	const blocks = (size + 511) / 512 * 512
	content := func(w io.Writer) error {
		_, err := w.Write(make([]byte, size))
		return err
	}
	for name, h := range map[string]*tar.Header{
		"PAX":       {Name: "a", Size: size, ModTime: time.Unix(1, 5), Format: tar.FormatPAX},
		"long name": {Name: strings.Repeat("a", 200), Size: size, Format: tar.FormatGNU},
		"plain":     {Name: "a", Size: size, Format: tar.FormatUSTAR},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for range 2 {
			if err := errors.Join(w.WriteHeader(h), content(w)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		whole := b.Bytes()
		one := (len(whole) - 1024) / 2 // bytes of a member
		for cut := 512; cut <= len(whole); cut += 64 {
			var err error
			for m, merr := range Members(bytes.NewReader(whole[:cut])) {
				if err = merr; err == nil {
					_, err = io.Copy(io.Discard, m.Content)
				}
				if err != nil {
					break
				}
			}
			in := cut % one // that many bytes of a member are there
			complete := in == 0 || in >= one-blocks+size || cut > 2*one && cut%512 == 0
			if complete != (err == nil) || err != nil && !errors.Is(err, hinterr.ErrDamaged) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, of %d bytes %d: got %v", name, len(whole), cut, err)
			}
		}
	}
}
