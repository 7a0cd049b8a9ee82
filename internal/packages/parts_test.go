package packages

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

// dpkg's lists and status: the first package that lists a file under one of its names.
func TestDpkg(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s), Mode: 0o644} }
	root := fstest.MapFS{
		"var/lib/dpkg/info/libc6:amd64.list": text("/.\n/lib\n/lib/libc.so.6\n"),
		"var/lib/dpkg/info/other.list":       text("/usr/bin/other\n/lib/libc.so.6\n/usr/lib64/x\n"),
		"var/lib/dpkg/info/other.md5sums":    text("/bin/sums\n"),
		"var/lib/dpkg/info/bare.list":        text("/sbin/bare"),
		"var/lib/dpkg/info/link.list":        {Data: []byte("/bin/link\n"), Mode: fs.ModeSymlink},
		"var/lib/dpkg/status":                text("Package: other\nStatus: ok\nVersion: 9\n\nPackage: libc6\nVersion: 2.13-38\nVersion: 3\n"),
		"var/lib/rpm/Packages":               {Data: testBDB(testHeader("libold", 0, "/lib64/libold.so"))},
	}
	for file, want := range map[string]string{
		"/lib/libc.so.6": "libc6 2.13-38", "/usr/lib/libc.so.6": "libc6 2.13-38", "lib/libc.so.6": "libc6 2.13-38", "/bin/other": "other 9", "/lib64/x": "other 9", "/usr/sbin/bare": "bare",
		"/lib": "libc6 2.13-38", "/bin/sums": "", "/bin/link": "", "/none": "", "/lib64/libold.so": "libold-2.12-1.el6.x86_64", "/usr/libc.so.6": "", "/library/libc.so.6": "",
	} {
		if got, err := Owner(root, file); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", file, got, err, want)
		}
	}
	delete(root, "var/lib/dpkg/status")
	if got, err := Owner(root, "/bin/other"); err != nil || got != "other" {
		t.Errorf("no status: got %q, %v", got, err)
	}
	root["var/lib/dpkg/status"] = text("Package: " + strings.Repeat("x", maxLine) + "\n")
	if got, err := Owner(root, "/bin/other"); err == nil {
		t.Errorf("a line without end: got %q", got)
	}
	root["var/lib/dpkg/info/a.list"] = text(strings.Repeat("x", maxLine))
	if got, err := Owner(root, "/bin/other"); err == nil || got != "" {
		t.Errorf("a list of a line without end: got %q, %v", got, err)
	}
	if got, err := Owner(fstest.MapFS{"var/lib/dpkg/info": text("")}, "/bin/other"); err == nil {
		t.Errorf("no directory: got %q", got)
	}
	if got, err := Owner(fstest.MapFS{}, "/bin/other"); err != nil || got != "" {
		t.Errorf("no database: got %q, %v", got, err)
	}
	for name, dir := range map[string]fs.FS{"a directory": fstest.MapFS{"x/y": text("")}, "nothing": fstest.MapFS{}} {
		if _, _, _, err := OpenFile(dir, "x"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, _, _, err := OpenFile(fstest.MapFS{}, "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	all, err := RPMOwners(fstest.MapFS{"var/lib/rpm/Packages": root["var/lib/rpm/Packages"], "usr/lib/sysimage/rpm/Packages": {Data: testBDB(testHeader("libnew", 0, "/usr/share/new"))}}, []string{"/lib64/libold.so", "/usr/share/new", "/none"})
	if err != nil || len(all) != 2 || all["/lib64/libold.so"] != "libold-2.12-1.el6.x86_64" || all["/usr/share/new"] != "libnew-2.12-1.el6.x86_64" {
		t.Errorf("two databases: got %v, %v", all, err)
	}
	if got := strings.Join(RPMDatabases(), " "); !strings.HasPrefix(got, "usr/lib/sysimage/rpm/rpmdb.sqlite usr/lib/sysimage/rpm/Packages ") || !strings.HasSuffix(got, "var/lib/rpm/Packages.db") {
		t.Errorf("got %s", got)
	}
}

// A value of any length comes out as it went in, whatever part of it is on pages of its own.
func TestLengthsOfValues(t *testing.T) {
	for name, c := range map[string]struct {
		made func(...[]byte) []byte
		read func(b []byte, visit headerVisitor) error
		page int
	}{
		"sqlite": {testSQLite, func(b []byte, visit headerVisitor) error { return readSQLite(bytes.NewReader(b), int64(len(b)), visit) }, 1024},
		"BDB":    {testBDB, func(b []byte, visit headerVisitor) error { return readBDB(bytes.NewReader(b), int64(len(b)), visit) }, 512},
	} {
		for size := 1; size < 3*c.page; size++ {
			if name == "sqlite" && size > c.page-100 && size < c.page-30 {
				continue // the second does not fit on its page
			}
			value := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
			var got [][]byte
			err := c.read(c.made(value, []byte("next")), func(header []byte) bool {
				got = append(got, bytes.Clone(header))
				return true
			})
			if err != nil || len(got) != 2 || !bytes.Equal(got[0], value) || string(got[1]) != "next" {
				t.Fatalf("%s, %d bytes: got %d values, %v", name, size, len(got), err)
			}
			got = nil
			if err := c.read(c.made(value, []byte("next")), func(header []byte) bool { got = append(got, header); return false }); err != nil || len(got) != 1 {
				t.Fatalf("%s, %d bytes: enough after one: got %d values, %v", name, size, len(got), err)
			}
		}
	}
}

// The columns of a row, by their types, and its numbers.
func TestColumns(t *testing.T) {
	for typ, size := range []int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2} {
		cols := sqliteColumns([]byte{3, byte(typ), 14, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'})
		if len(cols) != 2 || string(cols[0]) != "abcdefghi"[:size] || string(cols[1]) != "abcdefghi"[size:size+1] {
			t.Errorf("type %d: got %q", typ, cols)
		}
	}
	for row, want := range map[string]int{"": 0, "\x00": 0, "\x01": 0, "\x02": 0, "\x02\x01": 0, "\x02\x01a": 1, "\x03\x01\x01a": 1, "\x04\x01": 0, "\x81": 0} {
		if got := len(sqliteColumns([]byte(row))); got != want {
			t.Errorf("%q: got %d columns, want %d", row, got, want)
		}
	}
	for text, want := range map[string]struct {
		v uint64
		n int
	}{
		"": {0, 0}, "\x00": {0, 1}, "\x7f": {127, 1}, "\x81\x00": {128, 2}, "\x81": {1, 1}, "\x81\x01x": {129, 2},
		strings.Repeat("\xff", 9): {math.MaxUint64, 9}, strings.Repeat("\xff", 10): {math.MaxUint64, 9}, strings.Repeat("\xff", 8): {1<<56 - 1, 8}, strings.Repeat("\x80", 7) + "\x01\x02": {1, 8},
		strings.Repeat("\x80", 8) + "\x82": {0x82, 9},
	} {
		if v, n := varint([]byte(text)); v != want.v || n != want.n {
			t.Errorf("%q: got %#x of %d bytes, want %#x of %d", text, v, n, want.v, want.n)
		}
	}
}

// Headers with paths as before rpm 4, and damaged ones.
func TestOldHeader(t *testing.T) {
	header := func(entries ...[5]any) rpmHeader { // tag, type, offset, count, value
		var index, store []byte
		for _, e := range entries {
			off := len(store)
			if e[2].(int) >= 0 {
				off = e[2].(int)
			}
			for _, v := range []int{e[0].(int), e[1].(int), off, e[3].(int)} {
				index = be.AppendUint32(index, uint32(v))
			}
			store = append(store, e[4].(string)...)
		}
		h := be.AppendUint32(be.AppendUint32(nil, uint32(len(entries))), uint32(len(store)))
		return rpmHeader(append(append(h, index...), store...))
	}
	old := header([5]any{rpmtagOldNames, rpmStringArray, -1, 2, "/bin/a\x00/lib/b\x00"}, [5]any{rpmtagEpoch, rpmInt32, -1, 1, "\x00\x00\x00\x07"}, [5]any{rpmtagName, rpmString, -1, 1, "old\x00"})
	for file, want := range map[string]bool{"/bin/a": true, "/usr/lib/b": true, "/lib/c": false} {
		if got := old.owns(file); got != want {
			t.Errorf("%s: got %v", file, got)
		}
	}
	if got := old.label(); got != "old-7:-." {
		t.Errorf("got %s", got)
	}
	for name, h := range map[string]rpmHeader{
		"one of two names":      header([5]any{rpmtagOldNames, rpmStringArray, -1, 1, "/bin/x\x00/bin/a\x00"}),
		"an offset behind":      header([5]any{rpmtagOldNames, rpmStringArray, 99, 1, "/bin/a\x00"}),
		"another type":          header([5]any{rpmtagOldNames, rpmString, -1, 1, "/bin/a\x00"}),
		"no index of directory": header([5]any{rpmtagBasenames, rpmStringArray, -1, 1, "a\x00"}, [5]any{rpmtagDirnames, rpmStringArray, -1, 1, "/bin/\x00"}),
		"half an index":         header([5]any{rpmtagBasenames, rpmStringArray, -1, 1, "a\x00"}, [5]any{rpmtagDirnames, rpmStringArray, -1, 1, "/bin/\x00"}, [5]any{rpmtagDirIndexes, rpmInt32, -1, 1, "\x00\x00"}),
		"too short":             rpmHeader("1234567"), "more entries than it has": rpmHeader("\x00\x00\x00\x02" + strings.Repeat("\x00", 20)),
	} {
		if h.owns("/bin/a") || h.number(rpmtagEpoch) != 0 {
			t.Errorf("%s: owned, or of an epoch", name)
		}
	}
	for value, want := range map[string]uint32{"\x00\x00\x00\x07": 7, "\x00\x00\x07": 0} {
		if got := header([5]any{rpmtagEpoch, rpmInt32, -1, 1, value}).number(rpmtagEpoch); got != want {
			t.Errorf("%q: got %d", value, got)
		}
	}
	if got := header([5]any{rpmtagEpoch, rpmInt32, -1, 0, "\x00\x00\x00\x07"}).number(rpmtagEpoch); got != 0 {
		t.Errorf("no value: got %d", got)
	}
	if fmt.Sprint(spellings("/usr/lib64/a")) != "[/usr/lib64/a /lib64/a]" || fmt.Sprint(spellings("sbin/../bin/a")) != "[/bin/a /usr/bin/a]" || len(spellings("/library/a")) != 1 {
		t.Errorf("got %v", spellings("/usr/lib64/a"))
	}
}
