package packages

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"vfix.dev/vfix/tests/recorded"
)

// testHeader is the header of a package with files of two directories.
func testHeader(name string, epoch uint32, files ...string) []byte {
	var index, store []byte
	add := func(tag, typ, count uint32, value []byte) {
		for typ == rpmInt32 && len(store)%4 != 0 {
			store = append(store, 0)
		}
		for _, v := range []uint32{tag, typ, uint32(len(store)), count} {
			index = be.AppendUint32(index, v)
		}
		store = append(store, value...)
	}
	texts := func(s ...string) []byte { return []byte(strings.Join(s, "\x00") + "\x00") }
	add(rpmtagName, rpmString, 1, texts(name))
	add(rpmtagVersion, rpmString, 1, texts("2.12"))
	add(rpmtagRelease, rpmString, 1, texts("1.el6"))
	add(rpmtagEpoch, rpmInt32, 1, be.AppendUint32(nil, epoch))
	add(rpmtagArch, rpmString, 1, texts("x86_64"))
	var bases []string
	var dirs []byte
	for _, f := range files {
		i := strings.LastIndexByte(f, '/')
		n := uint32(0)
		if f[:i+1] == "/lib64/" {
			n = 1
		}
		dirs = be.AppendUint32(dirs, n)
		bases = append(bases, f[i+1:])
	}
	add(rpmtagDirIndexes, rpmInt32, uint32(len(files)), dirs)
	add(rpmtagBasenames, rpmStringArray, uint32(len(files)), texts(bases...))
	add(rpmtagDirnames, rpmStringArray, 2, texts("/usr/share/", "/lib64/"))
	h := be.AppendUint32(nil, uint32(len(index)/16))
	return append(append(be.AppendUint32(h, uint32(len(store))), index...), store...)
}

func TestRPMHeader(t *testing.T) {
	h := rpmHeader(testHeader("libold", 2, "/usr/share/libold.so", "/lib64/libother.so", "/lib64/libold.so"))
	for file, want := range map[string]bool{
		"/lib64/libold.so": true, "/usr/lib64/libold.so": true, "lib64/libold.so": true, "/usr/share/libold.so": true,
		"/usr/share/libother.so": false, "/lib64/libol": false, "/lib64/": false, "/": false,
	} {
		if got := h.owns(file); got != want {
			t.Errorf("%s: got %v, want %v", file, got, want)
		}
	}
	if got := h.label(); got != "libold-2:2.12-1.el6.x86_64" {
		t.Errorf("got %s", got)
	}
}

// testBDB makes a hash file of one page of items, the values on overflow pages.
func testBDB(values ...[]byte) []byte {
	const size = 512
	newPage := func(typ byte) []byte {
		p := make([]byte, size)
		p[bdbTypeAt] = typ
		return p
	}
	meta, items := newPage(8), newPage(bdbHash)
	le.PutUint32(meta[bdbMagicAt:], bdbMagic)
	le.PutUint32(meta[bdbPageSizeAt:], size)
	pages := [][]byte{meta, items}
	at := size
	put := func(i int, item []byte) {
		at -= len(item)
		copy(items[at:], item)
		le.PutUint16(items[bdbPageHead+2*i:], uint16(at))
	}
	for i, v := range values {
		put(2*i, []byte{bdbKeyData, byte(i), 0, 0, 0})
		item := make([]byte, bdbOffPageSize)
		item[0] = bdbOffPage
		le.PutUint32(item[4:], uint32(len(pages)))
		le.PutUint32(item[8:], uint32(len(v)))
		put(2*i+1, item)
		for len(v) > 0 {
			p := newPage(bdbOverflow)
			n := copy(p[bdbPageHead:], v)
			le.PutUint16(p[bdbLenAt:], uint16(n))
			if v = v[n:]; len(v) > 0 {
				le.PutUint32(p[bdbNextAt:], uint32(len(pages)+1))
			}
			pages = append(pages, p)
		}
	}
	le.PutUint16(items[bdbEntriesAt:], uint16(2*len(values)))
	le.PutUint32(meta[bdbLastAt:], uint32(len(pages)-1))
	return bytes.Join(pages, nil)
}

// owner is Owners of one file.
func owner(root fs.FS, file string) (string, error) {
	all, err := RPMOwners(root, []string{file})
	return all[file], err
}

// testSQLite makes a database of the table Packages alone: page 1 names its root, page 2 is an
// interior page, page 3 the leaf, and each header goes on on overflow pages.
func testSQLite(headers ...[]byte) []byte {
	const size = 1024
	newPage := func() []byte { return make([]byte, size) }
	number := func(n int) []byte { return []byte{0x80 | byte(n>>14), 0x80 | byte(n>>7), byte(n & 0x7f)} } // a varint of 21 bits
	record := func(types []byte, values ...[]byte) []byte {
		return append(append([]byte{byte(1 + len(types))}, types...), bytes.Join(values, nil)...)
	}
	leaf := func(p []byte, head int, cells ...[]byte) {
		p[head] = sqliteLeaf
		be.PutUint16(p[head+3:], uint16(len(cells)))
		at := size
		for i, c := range cells {
			at -= len(c)
			copy(p[at:], c)
			be.PutUint16(p[head+8+2*i:], uint16(at))
		}
	}
	cell := func(row []byte, id int, local int, overflow uint32) []byte {
		c := append(append(number(len(row)), byte(id)), row[:local]...)
		if local < len(row) {
			c = be.AppendUint32(c, overflow)
		}
		return c
	}
	first, tree, table := newPage(), newPage(), newPage()
	copy(first, sqliteMagic)
	be.PutUint16(first[16:], size)
	schema := record([]byte{13 + 2*5, 13 + 2*8, 13 + 2*8, 1, 13}, []byte("table"), []byte(sqliteTable), []byte(sqliteTable), []byte{2})
	leaf(first, sqliteHeader, cell(schema, 1, len(schema), 0))
	tree[0] = sqliteInterior // no cells, and the leaf at the right
	be.PutUint32(tree[8:], 3)
	pages := [][]byte{first, tree, table}
	var cells [][]byte
	for i, h := range headers {
		row := record(append([]byte{0}, number(12+2*len(h))...), h)
		local := len(row)
		if least := (size-12)*32/255 - 23; local > size-35 {
			if local = least + (local-least)%(size-4); local > size-35 {
				local = least
			}
		}
		cells = append(cells, cell(row, i+1, local, uint32(len(pages)+1)))
		for rest := row[local:]; len(rest) > 0; {
			p := newPage()
			rest = rest[copy(p[4:], rest):]
			pages = append(pages, p)
			if len(rest) > 0 {
				be.PutUint32(p, uint32(len(pages)+1))
			}
		}
	}
	leaf(table, 0, cells...)
	return bytes.Join(pages, nil)
}

func longHeader() []byte {
	files := []string{"/lib64/libold.so"}
	for i := range 300 {
		files = append(files, "/usr/share/file-"+string(rune('a'+i%26)))
	}
	return testHeader("libold", 0, files...)
}

func TestSQLite(t *testing.T) {
	db := testSQLite(testHeader("other", 0, "/usr/share/x"), longHeader())
	for name, c := range map[string]struct {
		poke func(b []byte) []byte
		want string
		says string
	}{
		"good":            {func(b []byte) []byte { return b }, "libold-2.12-1.el6.x86_64", ""},
		"magic":           {func(b []byte) []byte { b[0]++; return b }, "", "no SQLite"},
		"page size":       {func(b []byte) []byte { b[17]++; return b }, "", "pages of 1025"},
		"reserved":        {func(b []byte) []byte { b[16], b[20] = 2, 0xff; return b }, "", "pages of 512"},
		"cut off":         {func(b []byte) []byte { return b[:len(b)-1024] }, "", "ends after"},
		"ring of pages":   {func(b []byte) []byte { be.PutUint32(b[1024+8:], 2); return b }, "", "astray"},
		"no such page":    {func(b []byte) []byte { be.PutUint32(b[1024+8:], 99); return b }, "", "astray"},
		"kind of page":    {func(b []byte) []byte { b[2*1024] = 0x0a; return b }, "", "not part of a table"},
		"cells":           {func(b []byte) []byte { b[2*1024+3] = 0xff; return b }, "", "cells"},
		"cell":            {func(b []byte) []byte { b[2*1024+8] = 0xff; return b }, "", "a cell at"},
		"another table":   {func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("Packages"), []byte("Packagez")) }, "", ""},
		"headers no more": {func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("libold.so"), []byte("libnew.so")) }, "", ""},
	} {
		root := fstest.MapFS{"usr/lib/sysimage/rpm/rpmdb.sqlite": {Data: c.poke(bytes.Clone(db))}}
		got, err := owner(root, "/lib64/libold.so")
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %q, %v, want %q, an error about %q", name, got, err, c.want, c.says)
		}
	}
}

func TestRPMPackage(t *testing.T) {
	db := testBDB(testHeader("other", 0, "/usr/share/x"), testHeader("libold", 0, "/usr/share/y", "/lib64/libold.so"))
	root := fstest.MapFS{"var/lib/rpm/Packages": {Data: db, Mode: 0o644}}
	for file, want := range map[string]string{"/lib64/libold.so": "libold-2.12-1.el6.x86_64", "/usr/share/x": "other-2.12-1.el6.x86_64", "/lib64/none": ""} {
		if got, err := owner(root, file); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", file, got, err, want)
		}
	}
	for name, c := range map[string]struct {
		poke func(b []byte) []byte
		says string
	}{
		"magic":     {func(b []byte) []byte { b[bdbMagicAt]++; return b }, "no Berkeley DB"},
		"page size": {func(b []byte) []byte { b[bdbPageSizeAt]++; return b }, "pages of 513"},
		"cut off":   {func(b []byte) []byte { return b[:len(b)-1] }, "cut off"},
		"entries":   {func(b []byte) []byte { b[512+bdbEntriesAt+1] = 0xff; return b }, "a page with"},
		"item":      {func(b []byte) []byte { b[512+bdbPageHead+3] = 0xff; return b }, "an item at"},
		"chain":     {func(b []byte) []byte { b[2*512+bdbTypeAt] = 1; return b }, "not part of a value"},
		"ring": {func(b []byte) []byte {
			le.PutUint32(b[2*512+bdbNextAt:], 2)
			le.PutUint32(b[512+512-5-12+8:], 1<<20)
			return b
		}, "overlap"},
		"a page too short": {func(b []byte) []byte { return b[:100] }, ""},
	} {
		root["var/lib/rpm/Packages"].Data = c.poke(bytes.Clone(db))
		got, err := owner(root, "/lib64/libold.so")
		if got != "" || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %q, %v, want an error about %q", name, got, err, c.says)
		}
	}
	root = fstest.MapFS{"usr/lib/sysimage/rpm/Packages.db": {Data: []byte("RpmP")}}
	if got, err := owner(root, "/lib64/libold.so"); got != "" || err == nil || !strings.Contains(err.Error(), "ndb") {
		t.Errorf("ndb: got %q, %v", got, err)
	}
}

// Each byte of a database is changed, and what becomes of it is recorded: no owner, another one, or an error.
func TestChangedDatabases(t *testing.T) {
	small := testHeader("libold", 1, "/usr/share/y", "/lib64/libold.so")
	for name, db := range map[string][]byte{
		"usr/lib/sysimage/rpm/rpmdb.sqlite": testSQLite(small, testHeader("libnew", 0, strings.Fields(strings.Repeat("/usr/share/x ", 80))...)),
		"var/lib/rpm/Packages":              testBDB(small, testHeader("libnew", 0, "/usr/share/x")),
	} {
		recorded.Changed(t, name, db, func(b []byte) string {
			all, err := RPMOwners(fstest.MapFS{name: {Data: b}}, []string{"/lib64/libold.so", "/usr/share/x", "/none"})
			return fmt.Sprint(all, err)
		})
	}
}

func FuzzRPM(f *testing.F) {
	f.Add(testBDB(testHeader("other", 0, "/usr/share/x"), testHeader("libold", 1, "/lib64/libold.so")))
	f.Add(testSQLite(testHeader("other", 0, "/usr/share/x"), longHeader()))
	f.Add(longHeader())
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, read := range []func() error{
			func() error { return readBDB(bytes.NewReader(b), int64(len(b)), visitAll) },
			func() error { return readSQLite(bytes.NewReader(b), int64(len(b)), visitAll) },
		} {
			if err := read(); err != nil && err.Error() == "" {
				t.Fatal("an error without words")
			}
		}
		visitAll(b)
	})
}

func visitAll(b []byte) bool {
	h := rpmHeader(b)
	h.owns("/lib64/libold.so")
	h.label()
	return true
}
