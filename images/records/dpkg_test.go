package records_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/records"
	"vfix.dev/vfix/tests/imagetest"
)

func TestIsMD5Sums(t *testing.T) {
	for name, want := range map[string]string{
		"var/lib/dpkg/info/libc6:amd64.md5sums": "libc6:amd64", "var/lib/dpkg/info/bash.md5sums": "bash",
		"var/lib/dpkg/status.d/libc6.md5sums": "libc6",
		"var/lib/dpkg/info/bash.list":         "", "var/lib/dpkg/info/a/b.md5sums": "", "x/var/lib/dpkg/info/bash.md5sums": "", "bash.md5sums": "",
	} {
		if got, ok := records.IsMD5Sums(name); ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q, %v", name, got, ok)
		}
	}
}

func TestIsDpkgRecord(t *testing.T) {
	const most = 32 << 20
	for _, c := range []struct {
		name string
		size int64
		want bool
	}{{"var/lib/dpkg/info/a.md5sums", most, true}, {"var/lib/dpkg/info/a.md5sums", most + 1, false}, {"var/lib/dpkg/info/a.list", 1, false}} {
		if got := records.IsDpkgRecord(c.name, c.size); got != c.want {
			t.Errorf("%s of %d bytes: got %v", c.name, c.size, got)
		}
	}
}

func TestCorrectMD5Sums(t *testing.T) {
	a, b, c := strings.Repeat("a", 32), strings.Repeat("b", 32), strings.Repeat("c", 32)
	changes := map[string]*records.MD5Change{"lib/x": {Path: "lib/x", Before: a, After: b}}
	lookup := func(name string) *records.MD5Change { return changes[name] }
	for _, tc := range []struct{ name, in, out, lines string }{
		{"one", a + "  lib/x\n" + a + "  lib/y\n", b + "  lib/x\n" + a + "  lib/y\n", "true"},
		{"no newline at the end", a + "  lib/x", b + "  lib/x", "true"},
		{"carriage return", a + "  lib/x\r\n", b + "  lib/x\r\n", "true"},
		{"leading dot and slash", a + "  ./lib/x\n" + a + "  /lib/x\n", b + "  ./lib/x\n" + b + "  /lib/x\n", "true true"},
		{"binary mark", a + " *lib/x\n", b + " *lib/x\n", "true"},
		{"disagreed before", c + "  lib/x\n", c + "  lib/x\n", "false"},
		{"upper case is not dpkg's", strings.ToUpper(a) + "  lib/x\n", strings.ToUpper(a) + "  lib/x\n", ""},
		{"no md5", "xyz  lib/x\n", "xyz  lib/x\n", ""},
		{"one space", a + " lib/x\n", a + " lib/x\n", ""},
		{"another mark", a + " xlib/x\n", a + " xlib/x\n", ""},
		{"a mark at once", a + "  \n" + a + "* lib/x\n", a + "  \n" + a + "* lib/x\n", ""},
		{"no digits", strings.Repeat("x", 32) + "  lib/x\n", strings.Repeat("x", 32) + "  lib/x\n", ""},
		{"empty", "", "", ""},
		{"short", a + "  \n\n \n", a + "  \n\n \n", ""},
	} {
		got, lines := records.CorrectMD5Sums([]byte(tc.in), lookup)
		var agree []string
		for _, l := range lines {
			agree = append(agree, fmt.Sprint(l.Agrees))
		}
		if string(got) != tc.out || strings.Join(agree, " ") != tc.lines {
			t.Errorf("%s: got %q, %q", tc.name, got, agree)
		}
		// Lines of another form are about nothing, even if everything has changed.
		any := func(string) *records.MD5Change { return changes["lib/x"] }
		if _, lines := records.CorrectMD5Sums([]byte(tc.in), any); tc.lines == "" && len(lines) > 0 {
			t.Errorf("%s: got %+v", tc.name, lines)
		}
	}
	// The shortest line.
	short := func(name string) *records.MD5Change {
		return map[string]*records.MD5Change{"x": changes["lib/x"]}[name]
	}
	if got, lines := records.CorrectMD5Sums([]byte(a+"  x"), short); string(got) != b+"  x" || len(lines) != 1 {
		t.Errorf("the shortest line: got %q, %+v", got, lines)
	}
}

func md5Hex(b []byte) string { return fmt.Sprintf("%x", md5.Sum(b)) }

// dpkgBase is an image with a merged /usr, where packages have their files under /lib.
func dpkgBase(t testing.TB) (img v1.Image, sums string) {
	sums = md5Hex(imagetest.LegacyELF("1")) + "  lib/a\n" + md5Hex([]byte("x")) + "  etc/x\n"
	// Lines about names that lead nowhere.
	lost := ""
	for _, name := range []string{"nowhere/a", "etc/x/a", "usr/a", "lib/a/a"} {
		lost += md5Hex(imagetest.LegacyELF("1")) + "  " + name + "\n"
	}
	info := imagetest.FileM("var/lib/dpkg/info/libc6:amd64.md5sums", []byte(sums))
	info.Mode, info.Uid = 0o640, 7
	return imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.DirM("usr"), imagetest.DirM("usr/lib"), imagetest.SymM("lib", "usr/lib"), imagetest.LegacyM("usr/lib/a", "1"), imagetest.FileM("etc/x", []byte("x")), info,
			imagetest.FileM("var/lib/dpkg/info/other.md5sums", []byte(strings.Repeat("0", 32)+"  usr/lib/a\n")),
			imagetest.FileM("var/lib/dpkg/info/bash.md5sums", []byte(strings.Repeat("0", 32)+"  bin/bash\n"+lost)),
			imagetest.FileM("var/lib/dpkg/info/libc6.list", []byte(sums)), imagetest.DirM("var/lib/dpkg/info/dir.md5sums"),
			imagetest.SymM("var/lib/dpkg/info/link.md5sums", "libc6:amd64.md5sums")}), sums
}

func TestUpdateDpkg(t *testing.T) {
	base, sums := dpkgBase(t)
	source := imagetest.StoreOCI(t, base)
	want := strings.Replace(sums, md5Hex(imagetest.LegacyELF("1")), md5Hex(imagetest.FixedELF("1")), 1)
	for _, update := range []bool{false, true} {
		dest := "oci:" + t.TempDir() + "/out:x"
		r, err := images.Rebuild(context.Background(), source, images.RebuildOptions{Dest: dest, UpdateDpkg: update, Provenance: images.ProvenanceAuto})
		if err != nil {
			t.Fatal(err)
		}
		wantRecords := fmt.Sprintf("[{usr/lib/a dpkg libc6:amd64 var/lib/dpkg/info/libc6:amd64.md5sums %v false}"+
			" {usr/lib/a dpkg other var/lib/dpkg/info/other.md5sums false true}]", update)
		if got := fmt.Sprint(r.Packages); got != wantRecords {
			t.Errorf("got records %s, want %s", got, wantRecords)
		}
		found := ""
		for _, m := range imagetest.AddedMembers(t, dest) {
			if strings.HasSuffix(m.Name, ".md5sums") {
				found += m.Name
				if string(m.Body) != want || m.Mode != 0o640 || m.Uid != 7 || !m.ModTime.Equal(imagetest.TestTime) {
					t.Errorf("got %+v, %q, want %q", m.Header, m.Body, want)
				}
			}
		}
		if (found == "var/lib/dpkg/info/libc6:amd64.md5sums") != update {
			t.Errorf("update %v: got %q in the layer", update, found)
		}
		v := imagetest.VerifyProved(t, dest, "", source)
		imagetest.WantProblems(t, v)
		if strings.Join(v.Corrected, " ") != found {
			t.Errorf("update %v: got corrected %q", update, v.Corrected)
		}
	}
}

// TestVerifyDpkg: verify accepts what --update-dpkg makes, and nothing else.
func TestVerifyDpkg(t *testing.T) {
	base, sums := dpkgBase(t)
	source := imagetest.StoreOCI(t, base)
	good := strings.Replace(sums, md5Hex(imagetest.LegacyELF("1")), md5Hex(imagetest.FixedELF("1")), 1)
	for _, tc := range []struct {
		name, sums string
		patched    bool
		want       string
	}{
		{"as it is made", good, true, ""},
		{"of another file", strings.Replace(good, md5Hex([]byte("x")), md5Hex([]byte("y")), 1), true, "libc6:amd64.md5sums: offset"},
		{"another sum", strings.Replace(sums, md5Hex(imagetest.LegacyELF("1")), md5Hex([]byte("?")), 1), true, "libc6:amd64.md5sums: offset"},
		{"a line more", good + good, true, "libc6:amd64.md5sums: got 160 bytes, want 80"},
		{"the file did not change", good, false, "usr: missing; usr/lib: missing; usr/lib/a: missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			info := imagetest.FileM("var/lib/dpkg/info/libc6:amd64.md5sums", []byte(tc.sums))
			info.Mode, info.Uid = 0o640, 7
			layer := []imagetest.TestMember{info}
			if tc.patched {
				fixed := imagetest.LegacyM("usr/lib/a", "1")
				fixed.Body = imagetest.FixedELF("1")
				layer = append(layer, fixed)
			}
			img := imagetest.Derived(t, base, false, false, layer...)
			var want []string
			if tc.want != "" {
				want = strings.Split(tc.want, "; ")
			}
			v := imagetest.Verify(t, imagetest.StoreOCI(t, img), source)
			imagetest.WantProblems(t, v, want...)
			if tc.patched && len(v.Corrected) != 1-len(want) {
				t.Errorf("got corrected %q", v.Corrected)
			}
		})
	}
}

func FuzzCorrectMD5Sums(f *testing.F) {
	a := strings.Repeat("a", 32)
	f.Add([]byte(a + "  lib/x\n"))
	f.Add([]byte(a + " *./lib/x\r\n\n" + a))
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		c := &records.MD5Change{Path: "lib/x", Before: a, After: strings.Repeat("b", 32)}
		out, lines := records.CorrectMD5Sums(in, func(string) *records.MD5Change { return c })
		if len(out) != len(in) || !bytes.Equal(in, before) {
			t.Errorf("got %d bytes from %d, or the input changed", len(out), len(before))
		}
		n := 0
		for _, l := range lines {
			if l.Agrees {
				n++
			}
		}
		if (n == 0) != bytes.Equal(out, in) {
			t.Errorf("%d lines agreed: got %q from %q", n, out, in)
		}
	})
}
