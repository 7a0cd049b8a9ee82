package contents_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// The content of each file of a source can be read again, whichever source it is; that of a stream cannot.
func TestContentsAgain(t *testing.T) {
	members := []imagetest.TestMember{imagetest.DirM("d")}
	want := map[string]string{}
	for n := range 12 {
		name, body := fmt.Sprintf("d/%d", n), []byte(fmt.Sprintf("text of %d, which is longer than what shows that it is not a program", n))
		if n%3 == 0 {
			body = imagetest.LegacyELF(name)
		}
		members, want[name] = append(members, imagetest.FileM(name, body)), string(body)
	}
	plain := imagetest.TarMembers(t, members...)
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range want {
		imagetest.Write(t, filepath.Join(dir, name), []byte(text))
	}
	half := members[:6]
	for what, src := range map[string]*source.Source{
		"a directory": {Path: dir}, "a tarball": {Path: imagetest.Write(t, t.TempDir()+"/x.tar", plain)},
		"an image": {Image: imagetest.Stack(t, members), Digest: "d"}, "layers": {Image: imagetest.Stack(t, half, members[6:])},
	} {
		for _, sums := range []bool{false, true} {
			s := imagetest.TestSession(t)
			notes := &imagetest.Notes{}
			s.Sums, s.Progress = sums, notes
			s.Keep = func(string, int64) bool { return sums }
			sub := imagetest.Must[*contents.Subject](t)(s.OpenSubject(t.Context(), src))
			defer sub.Close()
			if len(sub.F.Files) != 4 || sub.F.Digest != src.Digest {
				t.Errorf("%s: got %s, digest %q", what, imagetest.Paths(sub.F.Findings), sub.F.Digest)
			}
			var all []*contents.Inode
			for name := range want {
				all = append(all, sub.T.Find(name).Inode)
			}
			got, err := sub.T.Fetch(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range want {
				i := sub.T.Find(name).Inode
				if b, err := io.ReadAll(got[i]); err != nil || string(b) != text || sums != (i.Sum != nil) || sums && *i.Sum != sha256.Sum256([]byte(text)) {
					t.Errorf("%s: %s: got %q, %v", what, name, b, err)
				}
			}
			read := map[string]string{}
			if err := sub.T.Read(t.Context(), all[:5], func(i *contents.Inode, r io.Reader) error {
				b, err := io.ReadAll(r)
				read[i.Name] = string(b)
				return err
			}); err != nil || len(read) != 5 {
				t.Errorf("%s: got %q, %v", what, read, err)
			}
			for name, text := range read {
				if text != want[name] {
					t.Errorf("%s: %s: got %q", what, name, text)
				}
			}
			failed := errors.New("no more")
			if err := sub.T.Read(t.Context(), all, func(*contents.Inode, io.Reader) error { return failed }); !errors.Is(err, failed) {
				t.Errorf("%s: got %v", what, err)
			}
			if n := notes.Unfinished.Load(); n != 0 {
				t.Errorf("%s: %d tasks have not ended", what, n)
			}
			if found := sub.T.Find("none/x"); found != nil || sub.T.Find("d/0/x") != nil || sub.T.Find("./d//0") != sub.T.Find("d/0") {
				t.Errorf("%s: got %+v", what, found)
			}
		}
	}
	s, notes := imagetest.TestSession(t), &imagetest.Notes{}
	s.Progress = notes
	f := imagetest.Must[*contents.Scanned](t)(s.Exported(t.Context(), strings.NewReader(string(plain)), "title"))
	if n := notes.Unfinished.Load(); n != 0 {
		t.Errorf("a stream: %d tasks have not ended", n)
	}
	if _, err := f.Tree.Fetch(t.Context(), []*contents.Inode{f.Tree.Find("d/1").Inode}); err == nil || len(f.Files) != 4 || f.Source != "title" {
		t.Errorf("a stream: got %v, %s", err, imagetest.Paths(f.Findings))
	}
}

// sizes are those of the tasks that began, -1 for unknown.
type sizes struct {
	progress.Silent
	all *[]int64
}

func (s sizes) Start(_, _ string, size int64) progress.Task {
	*s.all = append(*s.all, size)
	return s.Silent.Start("", "", 0)
}

// The size of a tarball is known before it is read, those of a stream and of a directory are not.
func TestSizesOfTasks(t *testing.T) {
	plain := imagetest.TarMembers(t, imagetest.FileM("a", nil))
	name := imagetest.Write(t, t.TempDir()+"/x.tar", plain)
	var got []int64
	s := imagetest.TestSession(t)
	s.Progress = sizes{all: &got}
	_, tarball := s.Path(t.Context(), name)
	_, dir := s.Path(t.Context(), filepath.Dir(name))
	_, stream := s.Exported(t.Context(), bytes.NewReader(plain), "x")
	if err := errors.Join(tarball, dir, stream); err != nil || !slices.Equal(got, []int64{int64(len(plain)), -1, -1}) {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := s.Path(t.Context(), name+"x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}

// Findings are sorted, however many files are examined at once; what lies beside a root filesystem is listed.
func TestOrderOfFindings(t *testing.T) {
	dir := t.TempDir()
	damaged := imagetest.LegacyELF("d")
	damaged[32+8-1] = 0xff // e_phoff beyond the file
	var found, passed []string
	size := int64(0) // each legacy file is all code
	for n := range 20 {
		legacy := imagetest.LegacyELF(fmt.Sprint(n))
		size += int64(len(legacy))
		found = append(found, imagetest.Write(t, fmt.Sprintf("%s/%02d-legacy", dir, n), legacy))
		passed = append(passed, imagetest.Write(t, fmt.Sprintf("%s/%02d-damaged", dir, n), damaged))
	}
	for jobs := range 5 {
		s := contents.NewSession(jobs, nil, patch.Options{})
		f, err := s.PathOf(t.Context(), &source.Source{Path: dir})
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		var files, not []string
		for _, file := range f.Files {
			files = append(files, filepath.Join(dir, file.Path))
		}
		for _, p := range f.Passed {
			if not = append(not, filepath.Join(dir, p.Path)); !p.Unread {
				t.Errorf("%d at once: got %+v", jobs, p)
			}
		}
		if !slices.Equal(files, found) || !slices.Equal(not, passed) {
			t.Errorf("%d at once: got %q and %q", jobs, files, not)
		}
		if f.ExecBytes != size || f.ELFFiles != 20 {
			t.Errorf("%d at once: got %d files with %d bytes", jobs, f.ELFFiles, f.ExecBytes)
		}
	}
}

// ending calls a function when a task ends.
type ending struct {
	progress.Silent
	do func()
}

func (e ending) Start(string, string, int64) progress.Task { return e }
func (e ending) Done()                                     { e.do() }

// A directory is closed with its subject, or after an error: if the command ends, or if a file to patch is gone when
// its content is wanted.
func TestSubjectIsClosed(t *testing.T) {
	imagetest.CleanTemp(t)
	for _, c := range []struct {
		end, gone bool
		fails     error
	}{{false, false, nil}, {true, false, context.Canceled}, {false, true, fs.ErrNotExist}} {
		dir := t.TempDir()
		name := imagetest.Write(t, dir+"/x", imagetest.LegacyELF("x"))
		ctx, end := context.WithCancel(t.Context())
		s := imagetest.TestSession(t)
		s.Progress = ending{do: func() {
			if c.gone {
				os.Remove(name)
			}
		}}
		if c.end {
			end()
		}
		sub, err := s.OpenSubject(ctx, &source.Source{Path: dir})
		if !errors.Is(err, c.fails) {
			t.Errorf("%+v: got %v", c, err)
		}
		if err == nil {
			sub.Close()
			if f, err := s.Path(ctx, dir); err != nil || len(f.Files) != 1 {
				t.Errorf("got %+v, %v", f, err)
			}
		}
		end()
	}
}

// changing is a layer that becomes another once it was read; ofChanging is an image of it.
type changing struct {
	v1.Layer
	then v1.Layer
	read bool
}

func (l *changing) Compressed() (io.ReadCloser, error) {
	if l.read {
		return l.then.Compressed()
	}
	l.read = true
	return l.Layer.Compressed()
}

type ofChanging struct {
	v1.Image
	l *changing
}

func (c ofChanging) Layers() ([]v1.Layer, error) { return []v1.Layer{c.l}, nil }

// Whole files are verified with all of their layer; parts of a layer that was verified before are not read again.
func TestReadVerifies(t *testing.T) {
	a, b := imagetest.FileM("a", []byte("a")), imagetest.FileM("b", []byte("b"))
	good, damaged := imagetest.TarMembers(t, a, b), imagetest.TarMembers(t, a, b)
	copy(damaged[bytes.LastIndex(damaged, []byte("ustar")):], "xxxxx")
	s := imagetest.TestSession(t)
	var tree *contents.Tree
	var first []*contents.Inode
	for what, then := range map[string][]byte{"another layer": imagetest.TarMembers(t, a, imagetest.FileM("b", []byte("c"))), "a damaged one": damaged} {
		tree = imagetest.Must[*contents.Tree](t)(imagetest.TestSession(t).Image(t.Context(), ofChanging{empty.Image, &changing{Layer: imagetest.BytesLayer(t, good), then: imagetest.BytesLayer(t, then)}}))
		first = []*contents.Inode{tree.Find("a").Inode}
		if got, err := tree.Fetch(t.Context(), first); err != nil || got[first[0]].Size() != 1 {
			t.Errorf("%s, fetched: got %v, %v", what, got, err)
		}
		if err := tree.Read(t.Context(), first, func(*contents.Inode, io.Reader) error { return nil }); !errors.Is(err, hinterr.ErrDamaged) {
			t.Errorf("%s, read: got %v", what, err)
		}
	}
	// The same of a tarball that becomes shorter.
	name := imagetest.Write(t, t.TempDir()+"/x.tar", imagetest.TarMembers(t, a, imagetest.FileM("b", imagetest.Noise(3000))))
	tree = imagetest.Must[*contents.Tree](t)(s.Tarball(t.Context(), name, "title"))
	if err := os.Truncate(name, 5000); err != nil { // in the content of b
		t.Fatal(err)
	}
	first = []*contents.Inode{tree.Find("a").Inode}
	if got, err := tree.Fetch(t.Context(), first); err != nil || got[first[0]].Size() != 1 {
		t.Errorf("a tarball, fetched: got %v, %v", got, err)
	}
	if err := tree.Read(t.Context(), first, func(*contents.Inode, io.Reader) error { return nil }); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, hinterr.ErrDamaged) {
		t.Errorf("a tarball, read: got %v", err)
	}
	// The same of one without the file.
	imagetest.Write(t, name, imagetest.TarMembers(t, a))
	if _, err := tree.Fetch(t.Context(), []*contents.Inode{tree.Find("b").Inode}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a tarball without the file: got %v", err)
	}
	for what, change := range map[string]func() error{
		"another file": func() error { return os.WriteFile(name, imagetest.GzipOf(t, good)[:9], 0o600) }, "no file": func() error { return os.Remove(name) },
	} {
		if err := change(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := tree.Read(t.Context(), first, func(*contents.Inode, io.Reader) error { return nil }); err == nil {
			t.Errorf("%s: no error", what)
		}
		if _, err := s.Tarball(t.Context(), name, "title"); err == nil {
			t.Errorf("%s, as a tarball: no error", what)
		}
	}
}
