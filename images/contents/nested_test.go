package contents_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// A file with the name of a zip archive is examined as one, whatever it begins with.
func TestNamedLikeArchive(t *testing.T) {
	content := append([]byte(":;exec java -jar \"$0\"\n"), zipped(t, zip.Deflate, "librt.so", imagetest.LegacyELF("x"))...)
	for name, want := range map[string]contents.Verdict{"x.jar": contents.Incomplete, "x.WHL": contents.Incomplete, "x.dat": contents.NotAffected} {
		f, _, err := imagetest.ScanImage(t, imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.TarMembers(t,
			imagetest.FileM("opt/"+name, content), imagetest.FileM("x.jar", []byte(strings.Repeat("no zip", 9)))))))
		if err != nil || f.Verdict() != want {
			t.Errorf("%s: got %v, %+v, %v", name, f.Verdict(), f.Passed, err)
		}
	}
}

// An archive that was named alone is examined like one in a directory.
func TestArchiveAlone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.whl")
	for want, member := range map[contents.Verdict][]byte{contents.NotAffected: imagetest.ModernELF("x"), contents.Incomplete: []byte(strings.Repeat("text", 99))} {
		s := contents.NewSession(1, &imagetest.Notes{}, patch.Options{})
		defer s.Close()
		f, err := s.Path(t.Context(), imagetest.Write(t, name, zipped(t, zip.Deflate, "x.so", member)))
		if code := map[contents.Verdict]int{contents.NotAffected: len(member)}[want]; err == nil && f.ExecBytes != int64(code) {
			t.Errorf("%v: got %d bytes of code, want %d", want, f.ExecBytes, code)
		}
		if err != nil || f.Verdict() != want || f.ELFFiles != map[contents.Verdict]int{contents.NotAffected: 1}[want] {
			t.Errorf("got %v, %d ELF files, %+v, %v", f.Verdict(), f.ELFFiles, f.Passed, err)
		}
	}
}

// zipped is a zip archive with a member, and more of the same content.
func zipped(t *testing.T, method uint16, name string, content []byte, more ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for n, name := range append([]string{"META-INF/MANIFEST.MF", name}, more...) {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil && n == 0 {
			_, err = f.Write([]byte("Manifest-Version: 1.0\r\n\r\n and more"))
		} else if err == nil {
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

func with(b []byte, at int, more string) []byte {
	b = bytes.Clone(b)
	if n := at + len(more); n > len(b) {
		b = append(b, make([]byte, n-len(b))...)
	}
	copy(b[at:], more)
	return b
}

// Every reason not to examine a file makes the verdict incomplete, whatever else is examined; an examined file
// without a call is cleared. Images and directories have the same results.
func TestNotLookedInto(t *testing.T) {
	imagetest.CleanTemp(t)
	legacy, modern := imagetest.LegacyELF("librt.so"), imagetest.ModernELF("libx.so")
	encrypted := zipped(t, zip.Store, "libx.so", legacy)
	for _, sign := range []string{"PK\x03\x04", "PK\x01\x02"} { // the flags of the member, in both headers
		at := bytes.LastIndex(encrypted, []byte(sign))
		flags := at + map[string]int{"PK\x03\x04": 6, "PK\x01\x02": 8}[sign]
		encrypted[flags] |= 1
	}
	tooLarge := zipped(t, zip.Deflate, "libx.so", legacy)
	copy(tooLarge[bytes.LastIndex(tooLarge, []byte("PK\x01\x02"))+24:], "\x01\x00\x00\x80") // its size, in the directory
	commented := zipped(t, zip.Deflate, "librt.so", legacy)
	commented = append(commented[:len(commented)-2], "\x20\x4e"+strings.Repeat("c", 20_000)...)
	directory := func(b []byte, at int, value string) []byte { // of the archive: a field of its last member
		return with(b, bytes.LastIndex(b, []byte("PK\x01\x02"))+at, value)
	}
	const method, packed, size = 10, 20, 24
	var short []byte // the shortest compressed member that is looked into whatever its size is said to be
	for n := 1; short == nil || short[bytes.LastIndex(short, []byte("PK\x01\x02"))+packed] < 2*20; n++ {
		short = directory(zipped(t, zip.Deflate, "x", append([]byte("hsqs"), imagetest.Noise(n)...)), size, "\x01")
	}
	wrongSize := directory(zipped(t, zip.Deflate, "librt.so", legacy), size, "\x01\x00\x00\x00")
	stored := zipped(t, zip.Store, "libx.so", legacy)
	behind := func(n int) []byte { // archives behind programs in archives
		b := zipped(t, zip.Deflate, "libx.so", legacy)
		for range n {
			b = zipped(t, zip.Deflate, "bin/x", append(bytes.Clone(modern), b...))
		}
		return b
	}
	long := append([]byte("#!/bin/sh\n"), bytes.Repeat([]byte("text\n"), blob.CopyBuffer/5)...)
	jars := func(n int) []byte {
		b := zipped(t, zip.Store, "libx.so", legacy)
		for range n {
			b = zipped(t, zip.Store, "x.jar", b)
		}
		return b
	}
	for name, c := range map[string]struct {
		content []byte
		reason  string // "" for a file that was looked into, and has nothing
	}{
		"a wheel that calls":         {zipped(t, zip.Deflate, "x.libs/librt.so", legacy), "x.libs/librt.so: they are not patched"},
		"a stored member that calls": {zipped(t, zip.Store, "lib/x86_64/libx.so", legacy), "call the vsyscall page"},
		"a jar in a jar":             {zipped(t, zip.Store, "BOOT-INF/lib/x.jar", zipped(t, zip.Deflate, "libx.so", legacy)), "BOOT-INF/lib/x.jar!libx.so"},
		"a modern jar in a jar":      {zipped(t, zip.Store, "x.jar", zipped(t, zip.Deflate, "libx.so", modern)), ""},
		"four archives":              {jars(3), "x.jar!x.jar!x.jar!libx.so"},
		"five archives":              {jars(4), "x.jar!x.jar!x.jar!x.jar: an archive in archives"},
		"four behind programs":       {behind(3), "bin/x!bin/x!bin/x!libx.so"},
		"five behind programs":       {behind(4), "bin/x!bin/x!bin/x!bin/x: an archive in archives"},
		"two libraries that call":    {zipped(t, zip.Deflate, "librt.so", legacy, "libx.so"), "the first of 2 is librt.so: "},
		"a squashfs in a zip":        {zipped(t, zip.Store, "x.img", []byte("hsqs"+strings.Repeat("x", 100))), "x.img: a squashfs"},
		"a short member":             {zipped(t, zip.Store, "x.jar", []byte("PK\x03\x04")), ""},
		"a static library in a zip":  {zipped(t, zip.Store, "libx.a", []byte("!<arch>\n"+strings.Repeat("x", 100))), ""},
		"a large library":            {zipped(t, zip.Deflate, "libx.so", with(legacy, 9<<20, "x")), "libx.so: they are not patched"},
		"a library of 80 MB":         {zipped(t, zip.Deflate, "libx.so", with(legacy, 80<<20, "x")), "libx.so: they are not patched"},
		"a library of 2 GB":          {tooLarge, "2147483649 bytes, too large"},
		"a large jar in a jar":       {zipped(t, zip.Deflate, "x.jar", zipped(t, zip.Store, "libx.so", with(legacy, 9<<20, "x"))), "x.jar!libx.so"},
		"a modern wheel":             {zipped(t, zip.Deflate, "libx.so", modern), ""},
		"classes":                    {zipped(t, zip.Deflate, "A.class", bytes.Repeat([]byte("\xca\xfe\xba\xbe"), 30)), ""},
		"an encrypted member":        {encrypted, "a zip archive: libx.so: encrypted, not examined"},
		"a damaged zip":              {zipped(t, zip.Store, "libx.so", legacy)[:300], "damaged"},
		"a damaged member":           {with(zipped(t, zip.Store, "libx.so", legacy), bytes.LastIndex(zipped(t, zip.Store, "libx.so", legacy), legacy[:16])+40, "xxxx"), "a zip archive: libx.so: cannot be unpacked (zip: checksum error), not examined"},
		"an unknown compression":     {directory(stored, method, "\x63"), "a zip archive: libx.so: cannot be unpacked (zip: unsupported compression algorithm), not examined"},
		"a member without header":    {with(stored, bytes.LastIndex(stored, []byte("PK\x03\x04")), "xx"), "a zip archive: libx.so: cannot be unpacked (zip: not a valid zip file), not examined"},
		"a member that ends early":   {directory(zipped(t, zip.Deflate, "libx.so", []byte("short")), size, "\x64"), "a zip archive: libx.so: cannot be unpacked (unexpected EOF), not examined"},
		"a short one of wrong size":  {short, "a zip archive: x: cannot be unpacked (zip: not a valid zip file), not examined"},
		"a program of 20 bytes":      {modern[:20], "damaged ELF"},
		"one in a zip":               {zipped(t, zip.Store, "x", modern[:20]), "damaged ELF"},
		"a program of 19 bytes":      {modern[:19], ""},
		"one of 19 bytes in a zip":   {zipped(t, zip.Store, "x", modern[:19]), ""},
		"a member that is damaged":   {zipped(t, zip.Store, "libx.so", with(modern, 54, "\x01")), "damaged ELF"},
		"a squashfs":                 {with(nil, 0, "hsqs"+strings.Repeat("x", 100)), "a squashfs file system in a file, not examined"},
		"an AppImage":                {with(modern, 8, "AI\x02"), "AppImage"},
		"UPX":                        {with(modern, len(modern), "UPX!"), "UPX"},
		"UPX in a zip":               {zipped(t, zip.Store, "x", with(modern, len(modern), "UPX!")), "UPX"},
		"UPX, and a modern zip":      {append(with(modern, len(modern), "UPX!"), zipped(t, zip.Store, "libx.so", modern)...), "UPX"},
		"PyInstaller":                {with(modern, len(modern)+5000, "MEI\x0c\x0b\x0a\x0b\x0e"+strings.Repeat("\x00", 80)), "PyInstaller"},
		"a zipapp":                   {append([]byte("#!/usr/bin/env python3\n"), zipped(t, zip.Deflate, "x.libs/librt.so", legacy)...), "x.libs/librt.so: they are not patched"},
		"a modern zipapp":            {append([]byte("#!/usr/bin/env python3\n"), zipped(t, zip.Deflate, "libx.so", modern)...), ""},
		"a script in a zip":          {zipped(t, zip.Store, "bin/x", []byte("#!/bin/sh\necho this is not an archive\n")), ""},
		"a zip behind a program":     {with(modern, len(modern)+4096, string(zipped(t, zip.Store, "librt.so", legacy))), "librt.so: they are not patched"},
		"a modern one behind it":     {append(bytes.Clone(modern), zipped(t, zip.Store, "libx.so", modern)...), ""},
		"the mark of a zip":          {with(modern, len(modern)+8, "PK\x05\x06"+strings.Repeat("\x00", 40)), ""},
		"gzexe":                      {append([]byte("#!/bin/sh\nskip=44\n"), "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"...), "a script with binary data"},
		"a 32-bit program, a zip":    {append(append([]byte("\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00"), make([]byte, 99)...), zipped(t, zip.Deflate, "librt.so", legacy)...), "librt.so: they are not patched"},
		"a zip with a long comment":  {with(modern, len(modern), string(commented)), "librt.so: they are not patched"},
		"a part of a split zip":      {append([]byte("PK00"), zipped(t, zip.Deflate, "librt.so", legacy)...), "librt.so: they are not patched"},
		"a zipapp in a zip":          {zipped(t, zip.Deflate, "bin/x", append([]byte("#!/bin/sh\n"), zipped(t, zip.Deflate, "librt.so", legacy)...)), "bin/x!librt.so"},
		"gzexe in a zip":             {zipped(t, zip.Deflate, "bin/x", append([]byte("#!/bin/sh\nskip=44\n"), "\x1f\x8b\x08\x00\x00\x00"...)), "bin/x: a script with binary data"},
		"a zip behind one in a zip":  {zipped(t, zip.Deflate, "bin/x", append(bytes.Clone(modern), zipped(t, zip.Deflate, "librt.so", legacy)...)), "bin/x!librt.so"},
		"a member of a wrong size":   {wrongSize, "cannot be unpacked"},
		"a long script":              {long, ""},
		"a long script with data":    {append(bytes.Clone(long[:blob.CopyBuffer]), "\x00data"...), "a script with binary data"},
		"a script":                   {[]byte("#!/bin/sh\necho caf\xc3\xa9\n"), ""},
		"a damaged ELF file":         {with(modern, 54, "\x01"), "damaged ELF"},
		"a modern program":           {modern, ""},
		"a text":                     {[]byte(strings.Repeat("text\n", 99)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(where string, f *contents.Findings, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				if c.reason == "" {
					if f.Verdict() != contents.NotAffected || len(f.Passed) > 0 {
						t.Errorf("%s: got %v, %+v", where, f.Verdict(), f.Passed)
					}
					return
				}
				if f.Verdict() != contents.Incomplete || f.Complete() || len(f.Passed) != 1 || !f.Passed[0].Unread || !strings.Contains(f.Passed[0].Reason, c.reason) ||
					strings.HasSuffix(c.reason, "not examined") && f.Passed[0].Reason != c.reason {
					t.Errorf("%s: got %v, %+v, want %q", where, f.Verdict(), f.Passed, c.reason)
				}
			}
			f, _, err := imagetest.ScanImage(t, imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.TarMembers(t,
				imagetest.FileM("bin/other", imagetest.ModernELF("other")), imagetest.FileM("opt/x", c.content)))))
			check("image", f.Findings, err)
			dir := t.TempDir()
			for file, content := range map[string][]byte{"other": imagetest.ModernELF("other"), "x": c.content} {
				if err := os.WriteFile(filepath.Join(dir, file), content, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			s := contents.NewSession(1, &imagetest.Notes{}, patch.Options{})
			defer s.Close()
			found, err := s.Path(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			check("directory", found.Findings, err)
		})
	}
}

// A file can have both a hazard and call sites.
func TestHazardBesideSites(t *testing.T) {
	jvm := imagetest.FileM("libjvm.so", imagetest.LegacyELF("\x00 for linux-amd64 JRE (17.0.9+9), built on\x00/proc/cgroups\x00"))
	if f, _, err := imagetest.ScanImage(t, imagetest.Stack(t, []imagetest.TestMember{jvm})); err != nil || len(f.Files) != 1 || len(f.Hazards) != 1 {
		t.Errorf("got %+v, %v", f, err)
	}
}

// An archive behind a program is also reported if the program itself has call sites: a patch does not reach it.
func TestNestedBesideSites(t *testing.T) {
	legacy := imagetest.LegacyELF("x")
	for reason, more := range map[string][]byte{
		"librt.so: they are not patched": zipped(t, zip.Store, "librt.so", legacy),
		"PyInstaller":                    []byte("MEI\x0c\x0b\x0a\x0b\x0e" + strings.Repeat("\x00", 80)),
	} {
		f, _, err := imagetest.ScanImage(t, imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.TarMembers(t,
			imagetest.FileM("opt/x", append(bytes.Clone(legacy), more...))))))
		if err != nil {
			t.Fatal(err)
		}
		if f.Verdict() != contents.Affected || f.Remaining() == contents.NotAffected || f.ELFFiles != 1 || len(f.Files) != 1 ||
			len(f.Passed) != 1 || !f.Passed[0].Unread || !strings.Contains(f.Passed[0].Reason, reason) {
			t.Errorf("got %v, then %v: %+v", f.Verdict(), f.Remaining(), f.Passed)
		}
	}
}
