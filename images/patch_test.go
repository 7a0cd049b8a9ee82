package images

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// legacyFolder makes a folder with legacy files lib/a (with hard link b) and bin/c, and
// others.
func legacyFolder(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	for _, d := range []string{"lib", "bin", "usr"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir+"/lib/a", legacyELF("a"))
	write(t, dir+"/bin/c", legacyELF("c"))
	write(t, dir+"/bin/modern", modernELF("m"))
	write(t, dir+"/text", []byte("text\n"))
	for _, err := range []error{
		os.Link(dir+"/lib/a", dir+"/b"),
		os.Symlink("../lib/a", dir+"/bin/link"),
		os.Symlink(dir, dir+"/usr/loop"),
		os.Chmod(dir+"/bin/c", 0o751),
		os.Chtimes(dir+"/lib/a", testTime, testTime),
		os.Chtimes(dir+"/bin/c", testTime, testTime),
		os.Chtimes(dir+"/lib", testTime, testTime),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func patch(t testing.TB, o PatchOptions, paths ...string) *Findings {
	t.Helper()
	f, err := Patch(context.Background(), paths, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func paths(f *Findings) string {
	var all []string
	for _, file := range f.Files {
		all = append(all, strings.Join(append([]string{file.Path}, file.Links...), "="))
	}
	return strings.Join(all, " ")
}

// listing is every name of a folder with its kind, mode, size, mtime and link target.
func listing(t testing.TB, dir string) string { return list(t, dir, true) }

// fileListing is listing without the folders, whose times change with every temporary file.
func fileListing(t testing.TB, dir string) string { return list(t, dir, false) }

func list(t testing.TB, dir string, folders bool) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && !folders {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		b.WriteString(rel + " " + fi.Mode().String() + " " + fi.ModTime().UTC().Format(time.RFC3339Nano))
		if d.Type().IsRegular() {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			b.WriteString(" " + string(content))
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, _ := os.Readlink(name)
			b.WriteString(" -> " + target)
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func stat(t testing.TB, name string) fs.FileInfo { return must[fs.FileInfo](t)(os.Lstat(name)) }

func TestPatchInPlace(t *testing.T) {
	dir := legacyFolder(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := os.Link(dir+"/bin/c", outside); err != nil {
		t.Fatal(err)
	}
	n := &notes{}
	f := patch(t, PatchOptions{InPlace: true, Progress: n}, dir)
	if got, want := paths(f), strings.ReplaceAll("D/b=D/lib/a D/bin/c", "D", dir); got != want {
		t.Errorf("got findings %s, want %s", got, want)
	}
	wantContent(t, dir+"/lib/a", fixedELF("a"))
	wantContent(t, dir+"/bin/c", fixedELF("c"))
	wantContent(t, dir+"/bin/modern", modernELF("m"))
	if !os.SameFile(stat(t, dir+"/b"), stat(t, dir+"/lib/a")) {
		t.Error("b and lib/a are no longer hard links of one file")
	}
	// A package cache keeps its own copy.
	wantContent(t, outside, legacyELF("c"))
	if len(n.text) != 1 || !strings.Contains(n.text[0], "bin/c: 1 more hard link") {
		t.Errorf("got notes %q, want one about bin/c", n.text)
	}
	if fi := stat(t, dir+"/bin/c"); fi.Mode() != 0o751 || !fi.ModTime().Equal(testTime) {
		t.Errorf("bin/c: got mode %v and time %v", fi.Mode(), fi.ModTime())
	}
	if fi := stat(t, dir+"/bin/link"); fi.Mode()&fs.ModeSymlink == 0 {
		t.Error("bin/link is no longer a symlink")
	}
	before := listing(t, dir)
	if f := patch(t, PatchOptions{InPlace: true}, dir); len(f.Files) != 0 || f.ELFFiles != 3 {
		t.Errorf("again: got %s, %d ELF files", paths(f), f.ELFFiles)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("patching again changed something:\n%s\nwas\n%s", after, before)
	}
}

// TestPatchSeveralPaths: hard links of one file in two paths stay hard links; the same
// file named twice is patched once.
func TestPatchSeveralPaths(t *testing.T) {
	dir := legacyFolder(t)
	n := &notes{}
	patch(t, PatchOptions{InPlace: true, Progress: n}, dir+"/b", dir+"/lib", dir+"/bin/link", dir)
	if !os.SameFile(stat(t, dir+"/b"), stat(t, dir+"/lib/a")) {
		t.Error("b and lib/a are no longer hard links of one file")
	}
	for name, want := range map[string][]byte{"b": fixedELF("a"), "lib/a": fixedELF("a"), "bin/c": fixedELF("c")} {
		wantContent(t, filepath.Join(dir, name), want)
	}
	if strings.Contains(listing(t, dir), tempPrefix) {
		t.Errorf("left over: %s", listing(t, dir))
	}
	if len(n.text) != 0 {
		t.Errorf("got notes %q, want none: all names were given", n.text)
	}
}

func TestPatchDryRun(t *testing.T) {
	dir := legacyFolder(t)
	before := listing(t, dir)
	if f := patch(t, PatchOptions{DryRun: true}, dir); len(f.Files) != 2 {
		t.Errorf("got %s, want two files", paths(f))
	}
	if listing(t, dir) != before {
		t.Error("a dry run changed something")
	}
}

func TestPatchFolderElsewhere(t *testing.T) {
	dir := legacyFolder(t)
	before := listing(t, dir)
	out := filepath.Join(t.TempDir(), "out")
	patch(t, PatchOptions{Output: out}, dir)
	if listing(t, dir) != before {
		t.Error("the input was changed")
	}
	want := strings.NewReplacer(string(legacyELF("a")), string(fixedELF("a")), string(legacyELF("c")), string(fixedELF("c"))).Replace(before)
	if got := listing(t, out); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !os.SameFile(stat(t, out+"/b"), stat(t, out+"/lib/a")) {
		t.Error("b and lib/a are not hard links of one file")
	}
	_, err := Patch(context.Background(), []string{dir}, PatchOptions{Output: out})
	if err == nil || !strings.Contains(err.Error(), out+": exists") {
		t.Errorf("existing output: got error %v", err)
	}
	_, err = Patch(context.Background(), []string{dir}, PatchOptions{Output: dir + "/lib/new"})
	if err == nil || !strings.Contains(err.Error(), "inside of") {
		t.Errorf("output inside of the input: got error %v", err)
	}
	wantEmpty(t, filepath.Dir(out), "out")
}

func TestPatchFileElsewhere(t *testing.T) {
	dir := legacyFolder(t)
	out := filepath.Join(t.TempDir(), "c2")
	f := patch(t, PatchOptions{Output: out}, dir+"/bin/c")
	if got := paths(f); got != dir+"/bin/c" {
		t.Errorf("got %s, want the path as typed", got)
	}
	wantContent(t, out, fixedELF("c"))
	wantContent(t, dir+"/bin/c", legacyELF("c"))
	if fi := stat(t, out); fi.Mode() != 0o751 || !fi.ModTime().Equal(testTime) {
		t.Errorf("got mode %v and time %v", fi.Mode(), fi.ModTime())
	}
	patch(t, PatchOptions{Output: out}, dir+"/text")
	wantContent(t, out, []byte("text\n"))
	if _, err := Patch(context.Background(), []string{out}, PatchOptions{Output: out}); err == nil {
		t.Error("input as output: got no error")
	}
	wantEmpty(t, filepath.Dir(out), "c2")
}

func TestPatchTarball(t *testing.T) {
	plain := tarMembers(t, dirM("lib"), legacyM("lib/a", "a"), linkM("b", "lib/a"), fileM(".wh.x", []byte("x")), fileM("big", noise(600_000)), symM("s", "lib"))
	want := readTar(t, bytes.NewReader(plain))
	want[1].body = fixedELF("a")
	for name, data := range map[string][]byte{"t.tar": plain, "t.tgz": gzipOf(t, plain), "t.tar.zst": zstdOf(t, plain)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			in := write(t, filepath.Join(dir, name), data)
			out := filepath.Join(dir, "out")
			patch(t, PatchOptions{Output: out}, in)
			wantContent(t, in, data)
			check := func(path string) {
				t.Helper()
				b := must[[]byte](t)(os.ReadFile(path))
				if got, want := detectCompression(b), detectCompression(data); got != want {
					t.Errorf("got compression %s, want %s", got, want)
				}
				r, _, err := decompress(context.Background(), bytes.NewReader(b))
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				got := readTar(t, r)
				if len(got) != len(want) {
					t.Fatalf("got %d members, want %d", len(got), len(want))
				}
				for i := range want {
					g, w := got[i].Header, want[i].Header
					if g.Name != w.Name || g.Mode != w.Mode || g.Typeflag != w.Typeflag || g.Linkname != w.Linkname || !g.ModTime.Equal(w.ModTime) || !bytes.Equal(got[i].body, want[i].body) {
						t.Errorf("member %d: got %+v, want %+v", i, g, w)
					}
				}
			}
			check(out)
			patch(t, PatchOptions{InPlace: true}, in)
			check(in)
			wantEmpty(t, dir, name, "out")
		})
	}
}

// TestPatchFails: the input is untouched and nothing is left, whatever goes wrong.
func TestPatchFails(t *testing.T) {
	cut := tarMembers(t, legacyM("a", "1"))
	for _, tc := range []struct {
		name string
		file []byte
		want string
	}{
		{"tarball cut off", cut[:len(cut)-3*512+50], "ends early"},
		{"tarball that leaves the root", tarMembers(t, legacyM("a", "1"), fileM("../b", nil)), "../b: name leaves"},
		{"gzip cut off", gzipOf(t, noise(100_000))[:5000], ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cleanTemp(t)
			dir := t.TempDir()
			in := write(t, filepath.Join(dir, "in"), tc.file)
			for _, o := range []PatchOptions{{Output: filepath.Join(dir, "out")}, {InPlace: true}} {
				_, err := Patch(context.Background(), []string{in}, o)
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), in) {
					t.Errorf("got error %v, want one with %q and %s", err, tc.want, in)
				}
			}
			wantContent(t, in, tc.file)
			wantEmpty(t, dir, "in")
		})
	}
}

// TestPatchCancelled cancels at every place where progress is told.
func TestPatchCancelled(t *testing.T) {
	for _, inPlace := range []bool{true, false} {
		dir := legacyFolder(t)
		before := fileListing(t, dir)
		for n := 0; ; n++ {
			out := filepath.Join(t.TempDir(), "out")
			ctx, cancel := context.WithCancel(context.Background())
			p := &countdown{cancel: cancel}
			p.left.Store(int64(n))
			o := PatchOptions{Progress: p, Jobs: 1, InPlace: inPlace}
			if !inPlace {
				o.Output = out
			}
			_, err := Patch(ctx, []string{dir}, o)
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled at %d: got error %v", n, err)
			}
			if fileListing(t, dir) != before {
				t.Fatalf("cancelled at %d: the input was changed", n)
			}
			wantEmpty(t, filepath.Dir(out))
		}
	}
}

func TestScanFolder(t *testing.T) {
	dir := legacyFolder(t)
	damaged := legacyELF("d")
	damaged[32+8-1] = 0xff // e_phoff beyond the file
	write(t, dir+"/damaged", damaged)
	write(t, dir+"/empty", nil)
	f, err := Scan(context.Background(), "dir:"+dir, ScanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := paths(f), "b=lib/a bin/c"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(f.Passed) != 1 || f.Passed[0].Path != "damaged" {
		t.Errorf("got passed %+v, want the damaged file", f.Passed)
	}
	for name, want := range map[string]string{"text": "not an ELF file", "empty": "not an ELF file", "damaged": "damaged ELF"} {
		f, err := Scan(context.Background(), dir+"/"+name, ScanOptions{})
		if err != nil || len(f.Passed) != 1 || f.Passed[0].Path != dir+"/"+name || !strings.Contains(f.Passed[0].Reason, want) {
			t.Errorf("%s: got %+v, error %v, want it passed over: %s", name, f, err, want)
		}
	}
	f, err = Scan(context.Background(), dir+"/bin/link", ScanOptions{})
	if err != nil || paths(f) != dir+"/bin/link" {
		t.Errorf("a symlink that the user named: got %v, error %v", f, err)
	}
}

// An image has its files in layers: patch would find nothing in it, so it refuses.
func TestPatchRefusesImages(t *testing.T) {
	dir := t.TempDir()
	img := stack(t, []testMember{dirM("lib"), legacyM("lib/a", "a")})
	var all []string
	for _, dest := range []string{"docker-archive:" + dir + "/d.tar:x:1", "oci:" + dir + "/layout:x", "oci-archive:" + dir + "/o.tar:x"} {
		put(t, dest, Result{Image: img})
		ref := must[Ref](t)(ParseRef(dest))
		all = append(all, ref.Name)
	}
	all = append(all, "docker-archive:"+dir+"/d.tar", "docker://registry.example/x:1")
	for _, path := range all {
		for _, o := range []PatchOptions{{DryRun: true}, {InPlace: true}, {Output: filepath.Join(t.TempDir(), "out")}} {
			_, err := Patch(context.Background(), []string{path}, o)
			var h Hinted
			if !errors.As(err, &h) || !strings.Contains(h.Hint(), "vfix rebuild ") {
				t.Errorf("%s: got error %v, want one that names vfix rebuild", path, err)
			}
		}
	}
	// The control: a tarball of a root filesystem is patched.
	write(t, dir+"/root.tar", tarMembers(t, dirM("lib"), legacyM("lib/a", "a")))
	if f := patch(t, PatchOptions{DryRun: true}, dir+"/root.tar"); len(f.Files) != 1 {
		t.Errorf("a root filesystem: got %+v", f)
	}
}
