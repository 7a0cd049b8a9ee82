package patch_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func TestPatchInPlace(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := os.Link(dir+"/bin/c", outside); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(dir+"/bin", imagetest.TestTime, imagetest.TestTime); err != nil {
		t.Fatal(err)
	}
	n := &imagetest.Notes{}
	f := imagetest.Patch(t, patch.Options{InPlace: true, Progress: n}, dir)
	if got, want := imagetest.Paths(f), strings.ReplaceAll("D/b=D/lib/a D/bin/c", "D", dir); got != want {
		t.Errorf("got findings %s, want %s", got, want)
	}
	imagetest.WantContent(t, dir+"/lib/a", imagetest.FixedELF("a"))
	imagetest.WantContent(t, dir+"/bin/c", imagetest.FixedELF("c"))
	imagetest.WantContent(t, dir+"/bin/modern", imagetest.ModernELF("m"))
	if !os.SameFile(imagetest.Stat(t, dir+"/b"), imagetest.Stat(t, dir+"/lib/a")) {
		t.Error("b and lib/a are no longer hard links of one file")
	}
	// A package cache keeps its own copy.
	imagetest.WantContent(t, outside, imagetest.LegacyELF("c"))
	if len(n.Text) != 1 || !strings.Contains(n.Text[0], "bin/c: more hard links outside the given paths keep the old content: 1") {
		t.Errorf("got notes %q, want one about bin/c", n.Text)
	}
	if fi := imagetest.Stat(t, dir+"/bin/c"); fi.Mode() != 0o751 || !fi.ModTime().Equal(imagetest.TestTime) {
		t.Errorf("bin/c: got mode %v and time %v", fi.Mode(), fi.ModTime())
	}
	if got := imagetest.Stat(t, dir+"/bin").ModTime(); !got.Equal(imagetest.TestTime) {
		t.Errorf("bin: got time %v", got)
	}
	if fi := imagetest.Stat(t, dir+"/bin/link"); fi.Mode()&fs.ModeSymlink == 0 {
		t.Error("bin/link is no longer a symlink")
	}
	before := imagetest.Listing(t, dir)
	if f := imagetest.Patch(t, patch.Options{InPlace: true}, dir); len(f.Files) != 0 || f.ELFFiles != 3 {
		t.Errorf("again: got %s, %d ELF files", imagetest.Paths(f), f.ELFFiles)
	}
	if after := imagetest.Listing(t, dir); after != before {
		t.Errorf("patching again changed something:\n%s\nwas\n%s", after, before)
	}
}

// TestPatchSeveralPaths: hard links of one file in two paths stay hard links; the same
// file named twice is patched once.
func TestPatchSeveralPaths(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	n := &imagetest.Notes{}
	t.Chdir(dir)
	imagetest.Patch(t, patch.Options{InPlace: true, Progress: n}, dir+"/b", dir+"/lib", "lib/a", dir+"/bin/link", dir)
	if !os.SameFile(imagetest.Stat(t, dir+"/b"), imagetest.Stat(t, dir+"/lib/a")) {
		t.Error("b and lib/a are no longer hard links of one file")
	}
	for name, want := range map[string][]byte{"b": imagetest.FixedELF("a"), "lib/a": imagetest.FixedELF("a"), "bin/c": imagetest.FixedELF("c")} {
		imagetest.WantContent(t, filepath.Join(dir, name), want)
	}
	if strings.Contains(imagetest.Listing(t, dir), atomicfile.TempPrefix) {
		t.Errorf("left over: %s", imagetest.Listing(t, dir))
	}
	if len(n.Text) != 0 {
		t.Errorf("got notes %q, want none: all names were given", n.Text)
	}
}

func TestPatchDryRun(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	before := imagetest.Listing(t, dir)
	if f := imagetest.Patch(t, patch.Options{DryRun: true}, dir); len(f.Files) != 2 {
		t.Errorf("got %s, want two files", imagetest.Paths(f))
	}
	if imagetest.Listing(t, dir) != before {
		t.Error("a dry run changed something")
	}
}

func TestPatchDirElsewhere(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	before := imagetest.Listing(t, dir)
	out := filepath.Join(t.TempDir(), "out")
	imagetest.Patch(t, patch.Options{Output: out}, dir)
	if imagetest.Listing(t, dir) != before {
		t.Error("the input was changed")
	}
	want := strings.NewReplacer(string(imagetest.LegacyELF("a")), string(imagetest.FixedELF("a")), string(imagetest.LegacyELF("c")), string(imagetest.FixedELF("c"))).Replace(before)
	if got := imagetest.Listing(t, out); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !os.SameFile(imagetest.Stat(t, out+"/b"), imagetest.Stat(t, out+"/lib/a")) {
		t.Error("b and lib/a are not hard links of one file")
	}
	_, err := patch.All(context.Background(), []string{dir}, patch.Options{Output: out})
	if err == nil || !strings.Contains(err.Error(), out+": exists") {
		t.Errorf("existing output: got error %v", err)
	}
	_, err = patch.All(context.Background(), []string{dir}, patch.Options{Output: dir + "/lib/new"})
	if err == nil || !strings.Contains(err.Error(), "is inside") {
		t.Errorf("output inside of the input: got error %v", err)
	}
	imagetest.WantEmpty(t, filepath.Dir(out), "out")
}

func TestPatchFileElsewhere(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	out := filepath.Join(t.TempDir(), "c2")
	f := imagetest.Patch(t, patch.Options{Output: out}, dir+"/bin/c")
	if got := imagetest.Paths(f); got != dir+"/bin/c" {
		t.Errorf("got %s, want the path as typed", got)
	}
	imagetest.WantContent(t, out, imagetest.FixedELF("c"))
	imagetest.WantContent(t, dir+"/bin/c", imagetest.LegacyELF("c"))
	if fi := imagetest.Stat(t, out); fi.Mode() != 0o751 || !fi.ModTime().Equal(imagetest.TestTime) {
		t.Errorf("got mode %v and time %v", fi.Mode(), fi.ModTime())
	}
	if _, err := patch.All(context.Background(), []string{dir + "/text"}, patch.Options{Output: out}); err == nil || !strings.Contains(err.Error(), out+": exists") {
		t.Errorf("existing output: got error %v", err)
	}
	imagetest.WantContent(t, out, imagetest.FixedELF("c"))
	imagetest.Patch(t, patch.Options{Output: out + "text"}, dir+"/text")
	imagetest.WantContent(t, out+"text", []byte("text\n"))
	_, err := patch.All(context.Background(), []string{dir + "/bin/c"}, patch.Options{Output: dir + "/none/x"})
	if want := "mkdir -p " + dir + "/none"; !strings.Contains(hinterr.HintOf(err), want) {
		t.Errorf("no directory: got %v, hint %q", err, hinterr.HintOf(err))
	}
	if _, err := patch.All(context.Background(), []string{out}, patch.Options{Output: out}); err == nil {
		t.Error("input as output: got no error")
	}
	imagetest.WantEmpty(t, filepath.Dir(out), "c2", "c2text")
}

func TestPatchTarball(t *testing.T) {
	plain := imagetest.TarMembers(t, imagetest.DirM("lib"), imagetest.LegacyM("lib/a", "a"), imagetest.LinkM("b", "lib/a"), imagetest.FileM(".wh.x", []byte("x")), imagetest.FileM("big", imagetest.Noise(600_000)), imagetest.SymM("s", "lib"))
	want := imagetest.ReadTar(t, bytes.NewReader(plain))
	want[1].Body = imagetest.FixedELF("a")
	for name, data := range map[string][]byte{"t.tar": plain, "t.tgz": imagetest.GzipOf(t, plain), "t.tar.zst": imagetest.ZstdOf(t, plain)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			in := imagetest.Write(t, filepath.Join(dir, name), data)
			out := filepath.Join(dir, "out")
			imagetest.Patch(t, patch.Options{Output: out}, in)
			imagetest.WantContent(t, in, data)
			check := func(path string) {
				t.Helper()
				b := imagetest.Must[[]byte](t)(os.ReadFile(path))
				if got, want := blob.DetectCompression(b), blob.DetectCompression(data); got != want {
					t.Errorf("got compression %s, want %s", got, want)
				}
				r, _, err := blob.Decompress(context.Background(), bytes.NewReader(b))
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				got := imagetest.ReadTar(t, r)
				if len(got) != len(want) {
					t.Fatalf("got %d members, want %d", len(got), len(want))
				}
				for i := range want {
					g, w := got[i].Header, want[i].Header
					if g.Name != w.Name || g.Mode != w.Mode || g.Typeflag != w.Typeflag || g.Linkname != w.Linkname || !g.ModTime.Equal(w.ModTime) || !bytes.Equal(got[i].Body, want[i].Body) {
						t.Errorf("member %d: got %+v, want %+v", i, g, w)
					}
				}
			}
			check(out)
			imagetest.Patch(t, patch.Options{InPlace: true}, in)
			check(in)
			imagetest.WantEmpty(t, dir, name, "out")
		})
	}
}

// A copy of a tarball keeps what follows the archive: padding, and archives behind it, which tar ignores. Without a change
// the copy has the same bytes; a patched file loses the marks of its old ones.
func TestPatchTarballKeeps(t *testing.T) {
	more := append(imagetest.TarMembers(t, imagetest.FileM("b", []byte("b"))), make([]byte, 4096)...)
	in := filepath.Join(t.TempDir(), "in.tar")
	marked := imagetest.LegacyM("a", "a")
	marked.PAXRecords = map[string]string{blob.XattrPrefix + "security.ima": "1", blob.XattrPrefix + "user.note": "2"}
	for _, member := range []imagetest.TestMember{marked, imagetest.FileM("a", []byte("a"))} {
		before := imagetest.TarMembers(t, member)
		imagetest.Write(t, in, append(bytes.Clone(before), more...))
		f := imagetest.Patch(t, patch.Options{Output: in + ".out"}, in)
		if len(f.Passed) != 0 {
			t.Errorf("passed over: %+v", f.Passed)
		}
		got := imagetest.Must[[]byte](t)(os.ReadFile(in + ".out"))
		if all := imagetest.ReadTar(t, bytes.NewReader(got)); len(all) != 1 {
			t.Errorf("%d members", len(all))
		} else if r := all[0].PAXRecords; r[blob.XattrPrefix+"security.ima"] != "" || r[blob.XattrPrefix+"user.note"] != member.PAXRecords[blob.XattrPrefix+"user.note"] {
			t.Errorf("records %q", r)
		}
		if !bytes.HasSuffix(got, more) || member.Mode == 0o644 && !bytes.Equal(got, append(before, more...)) {
			t.Errorf("%d bytes, of %d and %d", len(got), len(before), len(more))
		}
		os.Remove(in + ".out")
	}
}

// TestPatchFails: the input is untouched and nothing is left, whatever goes wrong in the scan of any path.
func TestPatchFails(t *testing.T) {
	cut := imagetest.TarMembers(t, imagetest.LegacyM("a", "1"))
	for _, tc := range []struct {
		name string
		file []byte
		want string
	}{
		{"tarball cut off", cut[:len(cut)-3*512+50], "ends early"},
		{"tarball that leaves the root", imagetest.TarMembers(t, imagetest.LegacyM("a", "1"), imagetest.FileM("../b", nil)), "../b: name leaves"},
		{"gzip cut off", imagetest.GzipOf(t, imagetest.TarMembers(t, imagetest.FileM("a", imagetest.Noise(100_000))))[:5000], ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			imagetest.CleanTemp(t)
			dir := t.TempDir()
			in := imagetest.Write(t, filepath.Join(dir, "in"), tc.file)
			for _, o := range []patch.Options{{Output: filepath.Join(dir, "out")}, {InPlace: true}} {
				_, err := patch.All(context.Background(), []string{in}, o)
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), in) {
					t.Errorf("got error %v, want one with %q and %s", err, tc.want, in)
				}
			}
			imagetest.WantContent(t, in, tc.file)
			imagetest.WantEmpty(t, dir, "in")
			root := imagetest.LegacyDir(t)
			before := imagetest.FileListing(t, root)
			_, err := patch.All(context.Background(), []string{root, in}, patch.Options{InPlace: true})
			if err == nil || imagetest.FileListing(t, root) != before {
				t.Errorf("after another path: got error %v, or it was written", err)
			}
		})
	}
}

// A tarball that is named twice is patched once.
func TestPatchTarballTwice(t *testing.T) {
	in := imagetest.Write(t, filepath.Join(t.TempDir(), "in.tar"), imagetest.TarMembers(t, imagetest.LegacyM("a", "1")))
	imagetest.Patch(t, patch.Options{InPlace: true}, in, filepath.Dir(in)+"/./in.tar")
	got := imagetest.ReadTar(t, bytes.NewReader(imagetest.Must[[]byte](t)(os.ReadFile(in))))
	if len(got) != 1 || !bytes.Equal(got[0].Body, imagetest.FixedELF("1")) {
		t.Errorf("got %d members", len(got))
	}
	imagetest.WantEmpty(t, filepath.Dir(in), "in.tar")
}

// TestPatchCancelled cancels at every place that reports progress.
func TestPatchCancelled(t *testing.T) {
	for _, inPlace := range []bool{true, false} {
		dir := imagetest.LegacyDir(t)
		before := imagetest.FileListing(t, dir)
		for n := 0; ; n++ {
			out := filepath.Join(t.TempDir(), "out")
			ctx, cancel := context.WithCancel(context.Background())
			p := &imagetest.Countdown{Cancel: cancel}
			p.Left.Store(int64(n))
			o := patch.Options{Progress: p, Jobs: 1, InPlace: inPlace}
			if !inPlace {
				o.Output = out
			}
			_, err := patch.All(ctx, []string{dir}, o)
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled at %d: got error %v", n, err)
			}
			if imagetest.FileListing(t, dir) != before {
				t.Fatalf("cancelled at %d: the input was changed", n)
			}
			imagetest.WantEmpty(t, filepath.Dir(out))
		}
	}
}

func TestScanDir(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	damaged := imagetest.LegacyELF("d")
	damaged[32+8-1] = 0xff // e_phoff beyond the file
	imagetest.Write(t, dir+"/damaged", damaged)
	imagetest.Write(t, dir+"/empty", nil)
	f, err := images.Scan(context.Background(), "dir:"+dir, images.ScanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := imagetest.Paths(f), "b=lib/a bin/c"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(f.Passed) != 1 || f.Passed[0].Path != "damaged" {
		t.Errorf("got passed %+v, want the damaged file", f.Passed)
	}
	for name, want := range map[string]string{"text": "not an ELF file", "empty": "not an ELF file", "damaged": "damaged ELF"} {
		f, err := images.Scan(context.Background(), dir+"/"+name, images.ScanOptions{})
		if err != nil || len(f.Passed) != 1 || f.Passed[0].Path != dir+"/"+name || !strings.Contains(f.Passed[0].Reason, want) {
			t.Errorf("%s: got %+v, error %v, want it passed over: %s", name, f, err, want)
		}
	}
	f, err = images.Scan(context.Background(), dir+"/bin/link", images.ScanOptions{})
	if err != nil || imagetest.Paths(f) != dir+"/bin/link" {
		t.Errorf("a symlink that the user named: got %v, error %v", f, err)
	}
}

// An image has its files in layers: patch would find nothing in it, so it refuses.
func TestPatchRefusesImages(t *testing.T) {
	dir := t.TempDir()
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.DirM("lib"), imagetest.LegacyM("lib/a", "a")})
	var all []string
	for _, dest := range []string{"docker-archive:" + dir + "/d.tar:x:1", "oci:" + dir + "/layout:x", "oci-archive:" + dir + "/o.tar:x"} {
		imagetest.Put(t, dest, source.Result{Image: img})
		ref := imagetest.Must[source.Ref](t)(source.ParseRef(dest))
		all = append(all, ref.Name)
	}
	all = append(all, "docker-archive:"+dir+"/d.tar", "docker://registry.example/x:1")
	for _, path := range all {
		for _, o := range []patch.Options{{DryRun: true}, {InPlace: true}, {Output: filepath.Join(t.TempDir(), "out")}} {
			_, err := patch.All(context.Background(), []string{path}, o)
			var h hinterr.Hinted
			if !errors.As(err, &h) || !strings.Contains(h.Hint(), "vfix rebuild ") {
				t.Errorf("%s: got error %v, want one that names vfix rebuild", path, err)
			}
		}
	}
	// The control: a tarball of a root filesystem is patched.
	imagetest.Write(t, dir+"/root.tar", imagetest.TarMembers(t, imagetest.DirM("lib"), imagetest.LegacyM("lib/a", "a")))
	if f := imagetest.Patch(t, patch.Options{DryRun: true}, dir+"/root.tar"); len(f.Files) != 1 {
		t.Errorf("a root filesystem: got %+v", f)
	}
}
