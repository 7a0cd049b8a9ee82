package contents_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/tests/imagetest"
)

// Wherever a written stream ends early, the error is returned.
func TestWritesThatFail(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	d := imagetest.Must[*contents.Disk](t)(contents.OpenDisk(dir))
	defer d.Close()
	d.Whole = true
	s := imagetest.TestSession(t)
	tree := imagetest.Must[*contents.Tree](t)(d.Tree(t.Context(), s))
	plain := imagetest.TarMembers(t, imagetest.LegacyM("a", "1"), imagetest.FileM("b", imagetest.Noise(3000)))
	tarball := imagetest.Write(t, t.TempDir()+"/x.tar", plain)
	found := imagetest.Must[*contents.Subject](t)(s.OpenSubject(t.Context(), &media.Source{Path: tarball}))
	defer found.Close()
	hits := found.F.ToPatch()
	if len(hits) != 1 {
		t.Fatalf("got %d files to patch", len(hits))
	}
	extras := contents.Members{}
	extras.AddExtras([]contents.Extra{{Name: "d/file", Body: imagetest.Noise(2000)}, {Name: "d/link", Link: "file"}, {Name: "d/e/"}}, contents.NewTree())
	for name, write := range map[string]func(io.Writer) error{
		"members": func(w io.Writer) error { return extras.Write(t.Context(), w, contents.NewTree()) },
		"a directory": func(w io.Writer) error {
			return tree.WriteTar(t.Context(), w, progress.Silent{}, func(string) error { return nil })
		},
		"a tarball": func(w io.Writer) error { return contents.RewriteTarball(t.Context(), w, bytes.NewReader(plain), hits) },
		"a tarball of gz": func(w io.Writer) error {
			return contents.RewriteTarball(t.Context(), w, bytes.NewReader(imagetest.GzipOf(t, plain)), hits)
		},
		"one of zstd": func(w io.Writer) error {
			return contents.RewriteTarball(t.Context(), w, bytes.NewReader(imagetest.ZstdOf(t, plain)), hits)
		},
		"an unchanged": func(w io.Writer) error { return contents.RewriteTarball(t.Context(), w, bytes.NewReader(plain), nil) },
	} {
		all := &imagetest.Room{Left: 1 << 20}
		if err := write(all); err != nil || all.Took == 0 {
			t.Errorf("%s: %d bytes, %v", name, all.Took, err)
		}
		for most := 0; most < all.Took; most += 256 {
			if err := write(&imagetest.Room{Left: most}); !errors.Is(err, imagetest.ErrFull) {
				t.Errorf("%s: %d of %d bytes: got %v", name, most, all.Took, err)
			}
		}
		if err := write(&imagetest.Room{Left: all.Took - 1}); !errors.Is(err, imagetest.ErrFull) {
			t.Errorf("%s: all but one byte: got %v", name, err)
		}
	}
	cut := bytes.Index(plain, imagetest.Noise(3000)) + 1000
	imagetest.WantErr(t, contents.RewriteTarball(t.Context(), io.Discard, bytes.NewReader(plain[:cut]), hits), hinterr.ErrDamaged, "b: ends early: got 1000 bytes, want 3000")
	bad := contents.Members{"x": {Header: &tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: -1}}}
	if err := bad.Write(t.Context(), io.Discard, contents.NewTree()); err == nil || !strings.HasPrefix(err.Error(), "x: ") {
		t.Errorf("a negative size: got %v", err)
	}
	// A content of another size than its header says.
	for size, want := range map[int64]string{2: "write too long", 3: "", 4: "got 3 bytes, want 4"} {
		m := contents.Members{"x": {Header: &tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: size}, Content: func() io.Reader { return strings.NewReader("abc") }}}
		if err := m.Write(t.Context(), io.Discard, contents.NewTree()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "x: ") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got %v, want %q", size, err, want)
		}
	}
}

// failsAt reads n times, and then no more.
type failsAt struct {
	r *bytes.Reader
	n int
}

func (f *failsAt) ReadAt(b []byte, at int64) (int, error) {
	if f.n--; f.n < 0 {
		return 0, fs.ErrPermission
	}
	return f.r.ReadAt(b, at)
}

// eager reports the end of a file with its last bytes, as an io.ReaderAt may.
type eager struct{ *bytes.Reader }

func (e eager) ReadAt(b []byte, at int64) (int, error) {
	n, err := e.Reader.ReadAt(b, at)
	if err == nil && at+int64(n) == e.Size() {
		err = io.EOF
	}
	return n, err
}

// Whichever read of a file fails, it does not count as a file without call sites.
func TestReadsThatFail(t *testing.T) {
	legacy, modern := imagetest.LegacyELF("librt.so"), imagetest.ModernELF("libx.so")
	for name, content := range map[string][]byte{
		"a legacy program":      legacy,
		"a modern program":      modern,
		"a zip":                 zipped(t, zip.Deflate, "libx.so", modern),
		"a zip with calls":      zipped(t, zip.Deflate, "librt.so", legacy, "libx.so"),
		"a stored zip in a zip": zipped(t, zip.Store, "x.jar", zipped(t, zip.Store, "libx.so", modern)),
		"a zip behind":          append(bytes.Clone(modern), zipped(t, zip.Deflate, "libx.so", modern)...),
		"a zip behind a script": append([]byte("#!/bin/sh\n"), zipped(t, zip.Deflate, "libx.so", modern)...),
		"an x32 program":        append([]byte("\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00"), make([]byte, 99)...),
		"a script":              []byte("#!/bin/sh\necho and some more text\n"),
		"a text":                []byte(strings.Repeat("text\n", 99)),
		"a squashfs":            []byte("hsqs" + strings.Repeat("x", 99)),
	} {
		for _, keep := range []bool{false, true} {
			s := imagetest.TestSession(t)
			r := &failsAt{bytes.NewReader(content), 1 << 20}
			if err := contents.ExamineAt(s, "x", r, int64(len(content)), keep); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := contents.ExamineAt(s, "x", eager{bytes.NewReader(content)}, int64(len(content)), keep); err != nil {
				t.Errorf("%s: its end with its last bytes: %v", name, err)
			}
			reads := 1<<20 - r.n
			for n := range reads {
				if err := contents.ExamineAt(s, "x", &failsAt{bytes.NewReader(content), n}, int64(len(content)), keep); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("%s: read %d of %d fails: got %v", name, n, reads, err)
				}
			}
		}
	}
}

// A stream that ends early, or whose reading fails, is an error wherever that is.
func TestStreamsThatFail(t *testing.T) {
	plain := imagetest.TarMembers(t, imagetest.LegacyM("lib/a", "1"), imagetest.FileM("b", imagetest.Noise(2000)), imagetest.DirM("d"), imagetest.ModernM("c"))
	ends, noise := len(bytes.TrimRight(plain, "\x00")), bytes.Index(plain, imagetest.Noise(2000))
	for at := 1; at < ends; at += 100 {
		broken := io.MultiReader(bytes.NewReader(plain[:at]), errorReader{})
		if _, err := imagetest.TestSession(t).Exported(t.Context(), broken, "x"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a stream that fails at %d: got %v", at, err)
		}
		if at > 512 && (at <= noise || at >= noise+2000) {
			continue // archive/tar does not need the zeros behind a header or a file
		}
		name := imagetest.Write(t, t.TempDir()+"/x.tar", plain[:at])
		if _, err := imagetest.TestSession(t).Tarball(t.Context(), name, "title"); err == nil || !strings.HasPrefix(err.Error(), "title: ") {
			t.Errorf("a tarball that ends at %d: got %v", at, err)
		}
	}
	// A link to nothing is one as well.
	if _, err := imagetest.TestSession(t).Exported(t.Context(), bytes.NewReader(imagetest.TarMembers(t, imagetest.LinkM("a", "none"))), "x"); !errors.Is(err, hinterr.ErrDamaged) {
		t.Errorf("a link to nothing: got %v", err)
	}
	// Also behind the end of the archive.
	broken := io.MultiReader(bytes.NewReader(plain), bytes.NewReader(make([]byte, 4096)), errorReader{})
	if _, err := imagetest.TestSession(t).Exported(t.Context(), broken, "x"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("behind the end: got %v", err)
	}
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, fs.ErrPermission }

// Only what is a tarball is taken for one, and what cannot be read is an error.
func TestIsTarball(t *testing.T) {
	dir := t.TempDir()
	plain := imagetest.TarMembers(t, imagetest.FileM("a", []byte("a")))
	for name, c := range map[string]struct {
		content []byte
		want    bool
	}{
		"tar": {plain, true}, "a block": {plain[:512], true}, "less than a block": {plain[:511], false}, "empty": {nil, false},
		"gzip": {imagetest.GzipOf(t, plain), true}, "zstd": {imagetest.ZstdOf(t, plain), true}, "gzip of text": {imagetest.GzipOf(t, bytes.Repeat([]byte("text"), 500)), false},
		"damaged gzip": {imagetest.GzipOf(t, plain)[:30], true}, "text": {bytes.Repeat([]byte("text"), 500), false},
	} {
		if got, err := contents.IsTarball(imagetest.Write(t, dir+"/"+strings.ReplaceAll(name, " ", ""), c.content)); got != c.want || err != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if got, err := contents.IsTarball(dir); got || err != nil {
		t.Errorf("a directory: got %v, %v", got, err)
	}
	if _, err := contents.IsTarball(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}

// A program of a tarball needs its loader and libraries in a root filesystem around it, or beside it.
func TestMissingLibraries(t *testing.T) {
	program := func(name string) imagetest.TestMember { return imagetest.FileM(name, dynamicELF(t)) }
	loader := func(name string) imagetest.TestMember { return imagetest.ModernM(name) }
	const ld, lib = "lib64/ld-linux-x86-64.so.2", "libneeded.so"
	for _, c := range []struct {
		name    string
		members []imagetest.TestMember
		want    string
	}{
		{"alone", []imagetest.TestMember{program("x")}, "/" + ld + " " + lib},
		{"in a root", []imagetest.TestMember{program("usr/bin/x"), loader(ld)}, ""},
		{"in a root below", []imagetest.TestMember{program("root/usr/bin/x"), loader("root/" + ld)}, ""},
		{"beside another root", []imagetest.TestMember{program("other/x"), loader("root/" + ld)}, lib},
		{"with a library", []imagetest.TestMember{program("x"), loader("opt/" + lib)}, "/" + ld},
		{"with all", []imagetest.TestMember{program("x"), loader("opt/" + lib), loader("opt/ld-linux-x86-64.so.2")}, ""},
		{"beside a call site", []imagetest.TestMember{program("x"), imagetest.LegacyM("y", "1")}, ""},
		{"a library", []imagetest.TestMember{imagetest.FileM("x.so", imagetest.Compiled(t, "", "-shared", "-nostdlib", "-Wl,--no-as-needed", imagetest.WriteLibrary(t, lib)))}, ""},
		{"a library that can be run", []imagetest.TestMember{imagetest.FileM("x.so", dynamicELF(t, "-Wl,-soname,x.so"))}, ""},
		{"a library in an archive", []imagetest.TestMember{imagetest.FileM("x.jar", zipped(t, zip.Store, "libx.so", imagetest.ModernELF("x")))}, ""},
		{"not a program", []imagetest.TestMember{loader("x")}, ""},
		{"a script", []imagetest.TestMember{imagetest.FileM("x", []byte("#!/bin/sh\necho this has no libraries\n"))}, ""},
	} {
		name := imagetest.Write(t, t.TempDir()+"/x.tar", imagetest.TarMembers(t, c.members...))
		f := imagetest.Must[*contents.Scanned](t)(imagetest.TestSession(t).Path(t.Context(), name))
		if got := strings.Join(f.MissingLibraries(), " "); got != c.want || f.Complete() != (c.want == "") {
			t.Errorf("%s: got %q, complete %v, want %q", c.name, got, f.Complete(), c.want)
		}
	}
}

// dynamicELF is a program of this machine that needs libneeded.so.
func dynamicELF(t *testing.T, args ...string) []byte {
	t.Helper()
	return imagetest.Compiled(t, "void _start(void) {}", append(args, "-nostdlib", "-Wl,--no-as-needed", "-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2", imagetest.WriteLibrary(t, "libneeded.so"))...)
}
