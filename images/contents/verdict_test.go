package contents_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// TestVerdicts: of a source by what was found in it, as it was read and after its plans.
func TestVerdicts(t *testing.T) {
	file := func(covered string, verdicts ...find.Verdict) contents.File {
		f := contents.File{Report: &find.Report{}, Plan: &patch.Plan{}, Covered: covered}
		for _, v := range verdicts {
			site := find.Site{Verdict: v}
			f.Report.Sites = append(f.Report.Sites, site)
			p := patch.Patch{Site: site, Form: patch.Left}
			if v == find.Live && covered == "" {
				p.Form = patch.Lea
			}
			f.Plan.Patches = append(f.Plan.Patches, p)
		}
		return f
	}
	live, dormant, unknown := file("", find.Live), file("", find.Dormant, find.Benign), file("", find.Unknown)
	stuck := file("", find.Live)
	stuck.Plan.Patches[0].Form = patch.Left
	packed := contents.Findings{Packed: []contents.Packed{{Path: "a.jar", Sites: 2}}}
	caught := contents.Findings{Packed: []contents.Packed{{Path: "a.jar", Sites: 2, Covered: true}}}
	for _, c := range []struct {
		name          string
		f             contents.Findings
		before, after contents.Verdict
		why           string
	}{
		{"clean", contents.Findings{}, contents.NotAffected, contents.NotAffected, ""},
		{"live", contents.Findings{Files: []contents.File{live}}, contents.Affected, contents.NotAffected, ""},
		{"live, not patched", contents.Findings{Files: []contents.File{stuck}}, contents.Affected, contents.Affected, ""},
		{"live, covered", contents.Findings{Files: []contents.File{file("libvfix.so", find.Live)}}, contents.NotAffected, contents.NotAffected, ""},
		{"dormant", contents.Findings{Files: []contents.File{dormant}}, contents.NotAffected, contents.NotAffected, ""},
		{"unknown", contents.Findings{Files: []contents.File{unknown}}, contents.Incomplete, contents.Incomplete, "1 reference to the vsyscall page cannot be judged"},
		{"unknown, covered", contents.Findings{Files: []contents.File{file("vfix-trace", find.Unknown)}}, contents.NotAffected, contents.NotAffected, ""},
		{"live and unknown", contents.Findings{Files: []contents.File{live, unknown}}, contents.Affected, contents.Incomplete, ""},
		{"in an archive", packed, contents.Affected, contents.Affected, ""},
		{"in an archive, covered", caught, contents.NotAffected, contents.NotAffected, ""},
		{"unread", contents.Findings{Passed: []contents.Passed{{Path: "x", Unread: true}, {Unread: true}}}, contents.Incomplete, contents.Incomplete, "2 parts could not be read"},
		{"libraries that are missing", contents.Findings{Loads: &contents.Loads{Missing: []string{"a", "b"}}}, contents.Incomplete, contents.Incomplete, "what it loads was not examined: a, b"},
		{"live, libraries that are missing", contents.Findings{Files: []contents.File{live}, Loads: &contents.Loads{Missing: []string{"a"}}}, contents.Affected, contents.NotAffected, ""},
	} {
		c.f.ELFFiles = 1
		if before, after, why := c.f.Verdict(), c.f.Remaining(), c.f.IncompleteText(); before != c.before || after != c.after || why != c.why {
			t.Errorf("%s: got %v, then %v, %q", c.name, before, after, why)
		}
	}
	none := contents.Findings{}
	if none.Verdict() != contents.Incomplete || none.IncompleteText() != "no 64-bit x86-64 ELF file in it" {
		t.Errorf("nothing: got %v, %q", none.Verdict(), none.IncompleteText())
	}
	if none.ChangedOnly = true; none.Verdict() != contents.NotAffected {
		t.Errorf("nothing has changed: got %v", none.Verdict())
	}
}

func TestVerdict(t *testing.T) {
	for v, want := range map[contents.Verdict]string{contents.Incomplete: "INCOMPLETE", contents.NotAffected: "NOT AFFECTED", contents.Affected: "AFFECTED"} {
		if v.String() != want {
			t.Errorf("got %v, want %s", v, want)
		}
	}
}

// zipped is a zip archive with these members.
func zipped(t *testing.T, members map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range members {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// locked is a zip archive with an encrypted member.
func locked(t *testing.T, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	const size, encrypted = 100, 1
	f, err := w.CreateRaw(&zip.FileHeader{Name: name, Flags: encrypted, CompressedSize64: size, UncompressedSize64: size})
	if err == nil {
		_, err = f.Write(imagetest.Noise(size))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestArchives: what programs in other files mean for a source.
func TestArchives(t *testing.T) {
	legacy, modern := imagetest.LegacyELF("x"), imagetest.ModernELF("x")
	text := []byte(strings.Repeat("text ", 20))
	wheel := zipped(t, map[string][]byte{"a/x.so": legacy, "a/__init__.py": text})
	war := zipped(t, map[string][]byte{"lib/a.jar": wheel})
	for _, c := range []struct {
		name string
		body []byte
		want string // verdict, ELF files, members, what was not examined
	}{
		{"a.whl", wheel, "AFFECTED 1 a/x.so "},
		{"a.zip", zipped(t, map[string][]byte{"x.so": modern}), "NOT AFFECTED 1  "},
		{"a.jar", zipped(t, map[string][]byte{"x.class": legacy}), "INCOMPLETE 0  not an ELF file"}, // by its name no program
		{"notes.zip", locked(t, "doc/notes.TXT"), "INCOMPLETE 0  not an ELF file"},
		{"d.zip", locked(t, "x.so"), "INCOMPLETE 0  x.so: encrypted, not examined"},
		{"a.war", war, "AFFECTED 1 lib/a.jar!a/x.so "},
		{"b.war", zipped(t, map[string][]byte{"a.jar": zipped(t, map[string][]byte{"x.so": modern}), "b.jar": wheel[:len(wheel)-30]}), "INCOMPLETE 1  b.jar: zip: not a valid zip file, not examined"},
		{"deep.zip", zipped(t, map[string][]byte{"a.ear": zipped(t, map[string][]byte{"a.war": war})}), "INCOMPLETE 0  a.ear!a.war!lib/a.jar: an archive in archives, not examined"},
		{"a.pex", append([]byte("#!/usr/bin/python\n"), wheel...), "AFFECTED 1 a/x.so "},
		{"b.zip", zipped(t, map[string][]byte{"x": imagetest.FindingM("x", true).Body}), "INCOMPLETE 1  x: 1 reference to the vsyscall page that cannot be judged, not examined"},
		{"c.zip", wheel[:len(wheel)-30], "INCOMPLETE 0  a damaged zip archive (zip: not a valid zip file), not examined"},
		{"script", append([]byte("#!/bin/sh\n"), text...), "INCOMPLETE 0  a script: vfix does not see which programs it starts"},
		{"root.tar.xz", append([]byte("\xfd7zXZ\x00"), text...), "INCOMPLETE 0  compressed with xz: not an ELF file"},
		{"packed.sh", append([]byte("#!/bin/sh\n"), "\x00\x01 packed data and more"...), "INCOMPLETE 0  a script with binary data after its text, not examined"},
		{"fs", append([]byte("hsqs"), text...), "INCOMPLETE 0  a squashfs file system in a file, not examined"},
		{"old.so", legacy, "AFFECTED 1  "},
		{"text", text, "INCOMPLETE 0  not an ELF file"},
	} {
		path := imagetest.Write(t, filepath.Join(t.TempDir(), c.name), c.body)
		f := imagetest.Must[*contents.Findings](t)(imagetest.TestSession(t).Scan(t.Context(), &source.Source{Path: path}))
		var members, passed []string
		for _, p := range f.Packed {
			members = append(members, p.Member)
			if p.Path != path || p.Sites != 1 {
				t.Errorf("%s: got %+v", c.name, p)
			}
		}
		for _, p := range f.Passed {
			passed = append(passed, p.Reason)
		}
		if got := fmt.Sprintf("%v %d %s %s", f.Verdict(), f.ELFFiles, strings.Join(members, ","), strings.Join(passed, ",")); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		// In a layer it means the same.
		layered, _, err := imagetest.ScanImage(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM(c.name, c.body), imagetest.ModernM("ok")}))
		if alone := strings.HasSuffix(c.want, " not an ELF file") || c.name == "script"; err != nil || !alone && layered.Verdict() != f.Verdict() || alone && layered.Verdict() != contents.NotAffected {
			t.Errorf("%s in a layer: got %v, %v", c.name, layered.Verdict(), err)
		}
	}
}

// TestDisk: each file of a directory is examined once, whatever its names are.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string][]byte{"lib-x/a": imagetest.LegacyELF("1"), "lib/b": imagetest.LegacyELF("2"), "lib/modern": imagetest.ModernELF("3"), "text": []byte("text, and more than the head of an ELF file")} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		imagetest.Write(t, filepath.Join(dir, name), body)
	}
	for from, to := range map[string]string{"lib-x/a": "lib/link", "lib/b": "lib-x/c"} {
		if err := os.Link(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("lib/b", filepath.Join(dir, "sym")); err != nil {
		t.Fatal(err)
	}
	f := imagetest.Must[*contents.Findings](t)(imagetest.TestSession(t).Scan(t.Context(), &source.Source{Path: dir}))
	var got []string
	for _, file := range f.Files {
		got = append(got, file.Path+" "+strings.Join(file.Links, ","))
	}
	if text := strings.Join(got, "; "); text != "lib-x/a lib/link; lib-x/c lib/b" || f.ELFFiles != 3 {
		t.Errorf("got %q, %d ELF files", text, f.ELFFiles)
	}
	if _, err := imagetest.TestSession(t).Scan(t.Context(), &source.Source{Path: dir + "/none"}); err == nil {
		t.Error("a path that does not exist: no error")
	}
}
