package loads

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"vfix.dev/vfix/internal/rootpath"
)

// elfFile is a small ELF file: enough of one for a loader to know what it needs.
type elfFile struct {
	interp  string
	soname  string
	needed  []string
	rpath   string
	runpath string
}

// bytes makes the file: a header, three program headers, the dynamic entries, the string table; all in one PT_LOAD from 0.
func (f elfFile) bytes() []byte {
	var strtab strings.Builder
	strtab.WriteByte(0)
	text := func(s string) uint64 {
		at := strtab.Len()
		strtab.WriteString(s + "\x00")
		return uint64(at)
	}
	type dyn struct{ tag, val uint64 }
	var all []dyn
	for _, n := range f.needed {
		all = append(all, dyn{1, text(n)})
	}
	for _, o := range []struct {
		tag  uint64
		text string
	}{{14, f.soname}, {15, f.rpath}, {29, f.runpath}} {
		if o.text != "" {
			all = append(all, dyn{o.tag, text(o.text)})
		}
	}
	const head = 64 + 3*56
	interpAt := uint64(head)
	dynAt := interpAt + uint64(len(f.interp)+1+7)&^7
	strAt := dynAt + 16*uint64(len(all)+3)
	size := strAt + uint64(strtab.Len())
	all = append(all, dyn{5, strAt}, dyn{10, uint64(strtab.Len())}, dyn{})
	b := make([]byte, size)
	copy(b, "\x7fELF\x02\x01\x01")
	put := func(at, v uint64, n int) {
		for i := range n {
			b[at+uint64(i)] = byte(v >> (8 * i))
		}
	}
	put(16, 3, 2)
	put(18, 62, 2)
	put(20, 1, 4)
	put(32, 64, 8) // e_phoff
	put(52, 64, 2)
	put(54, 56, 2)
	put(56, 3, 2)
	put(58, 64, 2)
	phdr := func(n, typ, flags, off, length uint64) {
		at := 64 + 56*n
		put(at, typ, 4)
		put(at+4, flags, 4)
		for _, o := range []uint64{8, 16, 24} {
			put(at+o, off, 8)
		}
		put(at+32, length, 8)
		put(at+40, length, 8)
		put(at+48, 1, 8)
	}
	phdr(0, 1, 5, 0, size)
	if f.interp != "" {
		phdr(1, 3, 4, interpAt, uint64(len(f.interp)+1))
		copy(b[interpAt:], f.interp)
	}
	phdr(2, 2, 6, dynAt, 16*uint64(len(all)))
	for i, d := range all {
		put(dynAt+16*uint64(i), d.tag, 8)
		put(dynAt+16*uint64(i)+8, d.val, 8)
	}
	copy(b[strAt:], strtab.String())
	return b
}

func (r *Root) find(name string, program elfFile, alone bool) *Program {
	b := program.bytes()
	return r.Of(name, bytes.NewReader(b), int64(len(b)), alone)
}

const loader = "/lib64/ld-linux-x86-64.so.2"

func lib(soname string, needed ...string) elfFile { return elfFile{soname: soname, needed: needed} }

func TestOf(t *testing.T) {
	prog := elfFile{interp: loader, needed: []string{"libc.so.6"}}
	with := func(change func(*elfFile)) elfFile {
		f := prog
		f.needed = slices.Clone(f.needed)
		change(&f)
		return f
	}
	ld, libc := lib("ld-linux-x86-64.so.2"), lib("libc.so.6", "ld-linux-x86-64.so.2")
	for name, c := range map[string]struct {
		files   map[string]any // elfFile, a text, or a link "-> target"
		found   string
		missing string
	}{
		"default directories": {map[string]any{"bin/p": prog, "lib64/ld-linux-x86-64.so.2": ld, "lib64/libc.so.6": libc},
			"lib64/ld-linux-x86-64.so.2 lib64/libc.so.6", ""},
		"merged /usr": {map[string]any{"bin/p": prog, "lib64": "-> usr/lib64", "usr/lib64/ld-linux-x86-64.so.2": ld, "usr/lib/x86_64-linux-gnu/libc.so.6": libc},
			"lib64/ld-linux-x86-64.so.2 usr/lib/x86_64-linux-gnu/libc.so.6", ""},
		"nothing is there": {map[string]any{"bin/p": prog}, "", loader + " libc.so.6"},
		"through a library": {map[string]any{"bin/p": with(func(f *elfFile) { f.needed = []string{"liba.so"} }), "lib64/ld-linux-x86-64.so.2": ld,
			"lib/liba.so": lib("", "libb.so.1"), "lib/libb.so.1": lib("libb.so.1", "libc.so.6"), "lib/libc.so.6": libc},
			"lib64/ld-linux-x86-64.so.2 lib/liba.so lib/libb.so.1 lib/libc.so.6", ""},
		"runpath with $ORIGIN, and not for the library of a library": {map[string]any{"opt/x/bin/p": with(func(f *elfFile) { f.runpath, f.needed = "$ORIGIN/../lib", []string{"liba.so"} }),
			"lib64/ld-linux-x86-64.so.2": ld, "opt/x/lib/liba.so": lib("", "libb.so"), "opt/x/lib/libb.so": lib("")},
			"lib64/ld-linux-x86-64.so.2 opt/x/lib/liba.so", "libb.so"},
		"rpath, also for the library of a library": {map[string]any{"opt/x/bin/p": with(func(f *elfFile) { f.rpath, f.needed = "${ORIGIN}/../lib", []string{"liba.so"} }),
			"lib64/ld-linux-x86-64.so.2": ld, "opt/x/lib/liba.so": lib("", "libb.so"), "opt/x/lib/libb.so": lib("")},
			"lib64/ld-linux-x86-64.so.2 opt/x/lib/liba.so opt/x/lib/libb.so", ""},
		"ld.so.conf with an include": {map[string]any{"bin/p": prog, "lib64/ld-linux-x86-64.so.2": ld, "etc/ld.so.conf": "include ld.so.conf.d/*.conf # all\n",
			"etc/ld.so.conf.d/x.conf": "# old\n/opt/glibc/lib\n", "opt/glibc/lib/libc.so.6": libc, "lib/libc.so.6": libc},
			"lib64/ld-linux-x86-64.so.2 opt/glibc/lib/libc.so.6", ""},
		"variants for processors": {map[string]any{"bin/p": prog, "lib64/ld-linux-x86-64.so.2": ld, "lib64/libc.so.6": libc, "lib64/tls/libc.so.6": libc},
			"lib64/ld-linux-x86-64.so.2 lib64/libc.so.6 lib64/tls/libc.so.6", ""},
		"a library of another machine is passed over": {map[string]any{"bin/p": prog, "lib64/ld-linux-x86-64.so.2": ld, "lib64/libc.so.6": "\x7fELF\x01", "lib/libc.so.6": libc},
			"lib64/ld-linux-x86-64.so.2 lib/libc.so.6", ""},
		"the directory of the start": {map[string]any{"bin/p": with(func(f *elfFile) { f.runpath, f.needed = ":here:/lib", []string{"libc.so.6", "here/liba.so"} }), "lib64/ld-linux-x86-64.so.2": ld,
			"here/libc.so.6": libc, "here/liba.so": libc, "libc.so.6": libc, "lib/libc.so.6": libc},
			"lib64/ld-linux-x86-64.so.2 lib/libc.so.6", "here/liba.so"},
		"links that lead in a circle": {map[string]any{"bin/p": prog, "lib64/ld-linux-x86-64.so.2": ld, "lib64/libc.so.6": "-> libc.so.6"},
			"lib64/ld-linux-x86-64.so.2", "libc.so.6"},
		"ld.so.preload": {map[string]any{"bin/p": prog, "lib64/ld-linux-x86-64.so.2": ld, "lib64/libc.so.6": libc, "etc/ld.so.preload": "/opt/a.so:/opt/none.so\tlibb.so\n", "opt/a.so": lib("", "libc.so.6"), "lib/libb.so": lib("")},
			"lib64/ld-linux-x86-64.so.2 lib64/libc.so.6 opt/a.so lib/libb.so", ""},
		"directories by semicolons": {map[string]any{"bin/p": with(func(f *elfFile) { f.rpath, f.needed = "/opt/a;/opt/b", []string{"liba.so", "libb.so"} }), "lib64/ld-linux-x86-64.so.2": ld,
			"opt/a/liba.so": lib(""), "opt/b/libb.so": lib("")}, "lib64/ld-linux-x86-64.so.2 opt/a/liba.so opt/b/libb.so", ""},
		"a path, and no name": {map[string]any{"bin/p": with(func(f *elfFile) { f.needed = []string{"/opt/liba.so", "/opt/../opt/liba.so", "/opt/none.so", ""} }), "lib64/ld-linux-x86-64.so.2": ld,
			"opt/liba.so": lib("liba.so.1", "liba.so.1")}, "lib64/ld-linux-x86-64.so.2 opt/liba.so", "/opt/none.so"},
		"hwcap and several words in ld.so.conf": {map[string]any{"bin/p": with(func(f *elfFile) { f.needed = []string{"liba.so", "libb.so", "libc.so"} }), "lib64/ld-linux-x86-64.so.2": ld,
			"etc/ld.so.conf": "hwcap 1 /opt/no\n/opt/a=x /opt/b:/opt/c, # /opt/no\n\n", "opt/a/liba.so": lib(""), "opt/b/libb.so": lib(""), "opt/c/libc.so": lib(""), "opt/no/liba.so": lib("")},
			"lib64/ld-linux-x86-64.so.2 opt/a/liba.so opt/b/libb.so opt/c/libc.so", ""},
		"two libraries that need each other": {map[string]any{"bin/p": with(func(f *elfFile) { f.needed = []string{"liba.so"} }), "lib64/ld-linux-x86-64.so.2": ld,
			"lib/liba.so": lib("liba.so", "libb.so"), "lib/libb.so": lib("libb.so", "liba.so")}, "lib64/ld-linux-x86-64.so.2 lib/liba.so lib/libb.so", ""},
	} {
		root := t.TempDir()
		program := "bin/p"
		for path, what := range c.files {
			if strings.HasSuffix(path, "/p") {
				program = path
			}
			full := filepath.Join(root, path)
			os.MkdirAll(filepath.Dir(full), 0o755)
			switch v := what.(type) {
			case elfFile:
				os.WriteFile(full, v.bytes(), 0o755)
			case string:
				if target, is := strings.CutPrefix(v, "-> "); is {
					os.Symlink(target, full)
				} else {
					os.WriteFile(full, []byte(v), 0o644)
				}
			}
		}
		dir, err := rootpath.OpenDir(root)
		if err != nil {
			t.Fatal(err)
		}
		got := In(dir).find(program, c.files[program].(elfFile), false)
		dir.Close()
		if f, m := strings.Join(got.Found, " "), strings.Join(got.Missing, " "); f != c.found || m != c.missing {
			t.Errorf("%s: found %q, missing %q; want %q, %q", name, f, m, c.found, c.missing)
		}
	}
}

// Of a program whose system is not known: what is beside it, and nothing else.
func TestBeside(t *testing.T) {
	program := elfFile{interp: loader, needed: []string{"libc.so.6", "liba.so", "/opt/libb.so", "$ORIGIN/libd.so"}, runpath: "$ORIGIN/lib:/opt"}
	root := fstest.MapFS{
		"x/p": {Data: program.bytes()}, "x/lib/liba.so": {Data: lib("").bytes()}, "x/libd.so": {Data: lib("").bytes()}, "opt/libb.so": {Data: lib("").bytes()}, "opt/libc.so.6": {Data: lib("").bytes()},
		"lib64/ld-linux-x86-64.so.2": {Data: lib("").bytes()}, "lib64/libc.so.6": {Data: lib("").bytes()}, "etc/ld.so.preload": {Data: []byte("/opt/libb.so")},
	}
	got := In(root).find("x/p", program, true)
	if strings.Join(got.Found, " ") != "x/lib/liba.so x/libd.so" || strings.Join(got.Missing, " ") != loader+" libc.so.6 /opt/libb.so" {
		t.Errorf("got %+v", got)
	}
}

func TestNotDynamic(t *testing.T) {
	libc := elfFile{interp: loader, soname: "libc.so.6"}
	for name, b := range map[string][]byte{"lib": lib("libx.so").bytes(), "text": []byte("#!/bin/sh\n"), "libc": libc.bytes()} {
		if p := In(fstest.MapFS{}).Of(name, bytes.NewReader(b), int64(len(b)), false); p != nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// The loader of this machine agrees, if it says what it loads.
func TestAsThisMachine(t *testing.T) {
	dir, err := rootpath.OpenDir("/")
	if err != nil {
		t.Skip(err)
	}
	defer dir.Close()
	sh, size, done, err := rootpath.OpenFile(dir, "bin/sh")
	if err != nil {
		t.Skip(err)
	}
	defer done()
	got := In(dir).Of("/bin/sh", sh, size, false)
	if got == nil || runtime.GOOS != "linux" {
		t.Skip("no dynamic program")
	}
	if len(got.Found) < 2 || len(got.Missing) > 0 {
		t.Errorf("/bin/sh: %+v", got)
	}
}
