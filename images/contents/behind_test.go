package contents_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// An archive behind the end of a tarball is not examined; padding and other bytes there have no files.
func TestBehindTarball(t *testing.T) {
	modern := imagetest.TarMembers(t, imagetest.FileM("a", imagetest.ModernELF("x")))
	legacy := imagetest.TarMembers(t, imagetest.LegacyM("b", "x"))
	name := filepath.Join(t.TempDir(), "x.tar")
	for what, more := range map[string]string{"": "", "padding": strings.Repeat("\x00", 9000), "text": "\x00\x00text", "archive": string(legacy), "archives": strings.Repeat("\x00", 1024) + string(legacy), "archive at an odd place": strings.Repeat("\x00", 1025) + string(legacy)} {
		imagetest.Write(t, name, append(bytes.Clone(modern), more...))
		s := contents.NewSession(1, &imagetest.Notes{}, patch.Options{})
		defer s.Close()
		f, err := s.Path(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		want, passed := contents.NotAffected, 0
		if strings.HasPrefix(what, "archive") {
			want, passed = contents.Incomplete, 1
		}
		if f.Verdict() != want || len(f.Passed) != passed || passed > 0 && f.Passed[0].Path != name {
			t.Errorf("%q: got %v, %+v", what, f.Verdict(), f.Passed)
		}
	}
}

// A sparse file that is too large to be examined is reported if it begins as a program does.
func TestSparseMembers(t *testing.T) {
	dir, name := t.TempDir(), filepath.Join(t.TempDir(), "x.tar")
	for file, begins := range map[string][]byte{"log": []byte("text"), "program": imagetest.LegacyELF("x")} {
		if err := os.Truncate(imagetest.Write(t, filepath.Join(dir, file), begins), contents.MaxELF+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(imagetest.Write(t, filepath.Join(dir, "small"), imagetest.LegacyELF("y")), 1<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "--sparse", "-cf", name, "-C", dir, "log", "program", "small").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for sums, want := range map[bool]string{false: "program", true: "log program"} { // a sum is of all content
		s := imagetest.TestSession(t)
		s.Sums = sums
		f := imagetest.Must[*contents.Scanned](t)(s.Path(t.Context(), name))
		var got []string
		for _, p := range f.Passed {
			if got = append(got, p.Path); !p.Unread {
				t.Errorf("got %+v", p)
			}
		}
		if strings.Join(got, " ") != want || imagetest.Paths(f.Findings) != "small" {
			t.Errorf("got %s, %+v", imagetest.Paths(f.Findings), f.Passed)
		}
	}
	// Of a layer whose files are taken, it is not taken.
	s := imagetest.TestSession(t)
	s.Take = func(_ context.Context, _ v1.Hash, e *contents.Entry, _ io.Reader) error {
		if e.Name != "small" {
			return errors.New("taken")
		}
		return nil
	}
	tree := imagetest.Must[*contents.Tree](t)(s.Image(t.Context(), imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.Must[[]byte](t)(os.ReadFile(name))))))
	if f := imagetest.Must[*contents.Scanned](t)(s.Findings(t.Context(), tree)); len(f.Passed) != 2 {
		t.Errorf("taken: got %+v", f.Passed)
	}
}

// Archives without the magic: of before 1988, and of GNU tar with the name of a volume.
func TestMaybeTar(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.tar")
	for _, flag := range "0V" {
		b := imagetest.TarMembers(t, imagetest.TestMember{Header: tar.Header{Typeflag: byte(flag), Name: "x"}})
		b = b[len(b)-3*512:] // behind a PAX record
		copy(b[257:], "\x00\x00\x00\x00\x00\x00\x00\x00")
		sum := 8 * int(' ')
		for i, c := range b[:512] {
			if i < 148 || i >= 156 {
				sum += int(c)
			}
		}
		copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
		if is, err := contents.MaybeTar(imagetest.Write(t, name, b)); err != nil || !is {
			t.Errorf("type %c: got %t, %v", flag, is, err)
		}
	}
	if is, err := contents.MaybeTar(imagetest.Write(t, name, make([]byte, 4096))); err != nil || is {
		t.Errorf("zeros: got %t, %v", is, err)
	}
}
