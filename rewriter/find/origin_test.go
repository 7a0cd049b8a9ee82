package find

import (
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// fileOf is a file of one segment with the content.
func fileOf(content string, flags uint32, progs ...elf.Prog) *elf.File {
	n := uint64(len(content))
	load := elf.Prog{Type: elf.PTLoad, Flags: flags, Vaddr: 0x1000, Filesz: n, Memsz: n}
	return &elf.File{R: elf.Memory(content), Size: n, Type: elf.TypeExec, Progs: append([]elf.Prog{load}, progs...)}
}

// TestRawSignals: a load of the number and a syscall near it, in a program with a loader; and code that only looks
// similar.
func TestRawSignals(t *testing.T) {
	const load, call = "\xb8\x0d\x00\x00\x00", "\x0f\x05"
	for name, c := range map[string]struct {
		code string
		want bool
	}{
		"adjacent":       {load + call, true},
		"an argument":    {load + "\x41\xba\x08\x00\x00\x00" + call, true},
		"rt_sigprocmask": {"\x48\xc7\xc0\x0e\x00\x00\x00" + call, true},
		"push, pop":      {"\x6a\x0d\x58" + call, true},
		"far away":       {load + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + call, false},
		"another call":   {"\xb8\x0c\x00\x00\x00" + call, false},
		"no call":        {load, false},
		"twice":          {load + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + load + call, true},
	} {
		got := false
		for _, l := range rawSignalCalls {
			got = got || rawSignalIn([]byte("\x90\x90"+c.code), l)
		}
		if got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestRawSignalsOf: only programs with a loader count, and no C library.
func TestRawSignalsOf(t *testing.T) {
	const code = "\xb8\x0d\x00\x00\x00\x0f\x05"
	interp := elf.Prog{Type: elf.PTInterp}
	libc := fileOf(code, elf.PFX, interp)
	libc.Dynamic = []elf.Dyn{{Tag: elf.DTSoname}}
	for name, c := range map[string]struct {
		f    *elf.File
		want bool
	}{
		"a dynamic program": {fileOf(code, elf.PFX, interp), true},
		"a static program":  {fileOf(code, elf.PFX), false},
		"data":              {fileOf(code, elf.PFR, interp), false},
		"a C library":       {libc, false},
	} {
		if got := rawSignals(c.f); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestLibc: the libc of a static program, by its texts, the most specific first.
func TestLibc(t *testing.T) {
	for content, want := range map[string]string{
		"GNU C Library stable release version 2.13, by": "glibc 2.13",
		"(Debian EGLIBC 2.13-38)":                       "glibc 2.13",
		"NPTL 2.5":                                      "glibc 2.5",
		"*** glibc detected ***":                        "glibc",
		"*** glibc detected *** NPTL 2.5":               "glibc 2.5",
		"NPTL 2.5 stable release version 2.6":           "glibc 2.6",
		"NPTL 2.5a":                                     "glibc 2.5",
		"NPTL x":                                        "",
		"NPTL 2.":                                       "",
		"musl libc":                                     "musl",
		"uClibc":                                        "uClibc",
		"text":                                          "",
		"NPTL 2.123456789012345":                        "glibc 2.1234567890",
	} {
		if got := libcOf(fileOf(content, elf.PFR)); got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
	if got := libcOf(fileOf("NPTL 2.5", elf.PFR, elf.Prog{Type: elf.PTInterp})); got != "" {
		t.Errorf("a dynamic program: got %q", got)
	}
}

// TestGo: files of Go's linker, by sections, a note, or the table of functions.
func TestGo(t *testing.T) {
	note := "\x04\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00Go\x00\x00"
	notes := elf.Prog{Type: elf.PTNote, Filesz: uint64(len(note))}
	section := fileOf("text", elf.PFR)
	section.Sections = []elf.Section{{Name: ".gosymtab"}}
	other := fileOf("runtime.goexit\x00", elf.PFR)
	other.Sections = []elf.Section{{Name: ".text"}}
	for name, c := range map[string]struct {
		f    *elf.File
		want bool
	}{
		"a section":                       {section, true},
		"a note":                          {fileOf(note, elf.PFR, notes), true},
		"a longer note":                   {fileOf(note+"ID", elf.PFR, elf.Prog{Type: elf.PTNote, Filesz: uint64(len(note)) + 2}), true},
		"a longer name":                   {fileOf("\x05"+note[1:], elf.PFR, notes), false},
		"the table of Go 1.16":            {fileOf("\xfa\xff\xff\xff\x00\x00\x01\x08", elf.PFR), true},
		"the table in data":               {fileOf("\xfb\xff\xff\xff\x00\x00\x01\x08", elf.PFR|elf.PFW), false},
		"another note":                    {fileOf("\x04\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00GNU\x00", elf.PFR, notes), false},
		"the table of functions":          {fileOf("\xfb\xff\xff\xff\x00\x00\x01\x08", elf.PFR), true},
		"a name of a function":            {fileOf("runtime.goexit\x00", elf.PFR), true},
		"the name, beside other sections": {other, false},
		"text":                            {fileOf("text", elf.PFR), false},
	} {
		if got := madeByGo(c.f); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestStart: the start of a function is used if it is known and near.
func TestStart(t *testing.T) {
	f := &File{File: fileOf("\x90\x90\x90\x90", elf.PFX)}
	f.Entry = 0x1001
	for vaddr, want := range map[uint64]uint64{0x1001: 0x1001, 0x1003: 0x1001, 0x1000: 0x1000, 0x1004: 0x1004} {
		if got := f.Start(vaddr, 2); got != want {
			t.Errorf("%#x: got %#x, want %#x", vaddr, got, want)
		}
	}
}

func TestVaddrs(t *testing.T) {
	s := vaddrs{8, 4, 8}
	s.normalize()
	for vaddr, want := range map[uint64]uint64{3: 0, 4: 4, 5: 4, 7: 4, 8: 8, 9: 8} {
		at, ok := s.enclosing(vaddr)
		if at != want || ok != (want != 0) || s.has(vaddr) != (vaddr == want) {
			t.Errorf("%d: got %d, %v, %v", vaddr, at, ok, s.has(vaddr))
		}
	}
	if len(s) != 2 || !s.within(4, 5) || s.within(5, 8) || !s.within(5, 9) {
		t.Errorf("got %v", s)
	}
}
