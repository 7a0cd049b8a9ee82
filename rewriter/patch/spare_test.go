package patch

import (
	"bytes"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
)

// withNote changes the type of the first note of a file.
func withNote(t *testing.T, file []byte, typ byte) []byte {
	t.Helper()
	file[scanFile(t, file).File.Prog(elf.PTNote).Off+8] = typ
	return file
}

// noteAt is the offset of the first note behind n program headers.
func noteAt(n int) uint64 { return uint64(elf.EhdrSize + n*elf.PhdrSize) }

// TestSpare is about the program header that is replaced.
func TestSpare(t *testing.T) {
	const ntBuildID = 3
	interp := "/lib64/ld-linux-x86-64.so.2"
	soname := testELF{dyn: true, soname: "libx.so.1", extra: []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}}
	library := func(e testELF) testELF { e.dyn, e.soname, e.extra = true, soname.soname, soname.extra; return e }
	pie := func(e testELF) testELF {
		e = library(e)
		e.extra = append(e.extra[:1:1], elf.Dyn{Tag: elf.DTDebug})
		return e
	}
	for _, c := range []struct {
		name   string
		e      testELF
		id     bool   // the first note is a build ID
		gone   uint32 // the type of the header that is spent
		grows  bool
		change func(file []byte)
		why    string // the word of the reason if there is no room
		lost   bool   // the build ID
	}{
		{name: "an ABI tag", gone: elf.PTNote},
		{name: "an ABI tag before PT_PHDR", e: testELF{phdr: true, interp: interp}, gone: elf.PTNote},
		{name: "PT_PHDR of a program at a fixed address", e: testELF{phdr: true, interp: interp, full: true}, id: true, gone: elf.PTPhdr},
		{name: "the same without a note", e: testELF{phdr: true, interp: interp, full: true, notes: -1}, gone: elf.PTPhdr},
		{name: "never that of a PIE", e: testELF{phdr: true, interp: interp, full: true, dyn: true}, id: true, gone: elf.PTNote, lost: true},
		{name: "nor without a note", e: testELF{phdr: true, interp: interp, full: true, dyn: true, notes: -1}, why: "program header"},
		{name: "that of a library", e: library(testELF{phdr: true, full: true, notes: -1}), gone: elf.PTPhdr},
		{name: "PT_INTERP of a library that nothing starts", e: library(testELF{phdr: true, interp: interp, full: true, notes: -1}), gone: elf.PTInterp},
		{name: "nor lld, without an entry", e: library(testELF{phdr: true, interp: interp, full: true, notes: -1}), gone: elf.PTInterp, change: func(b []byte) {
			clear(b[24:32])
		}},
		{name: "that one before the build ID", e: library(testELF{phdr: true, interp: interp, full: true}), id: true, gone: elf.PTInterp},
		{name: "not of one with an entry of its own, such as libc.so.6", e: library(testELF{phdr: true, interp: interp, full: true, notes: -1,
			text: append([]byte{0xc3}, asm(t, timeStubText)...), entry: testTextOff + 1}), why: "program header"},
		{name: "nor of a PIE with a name", e: pie(testELF{phdr: true, interp: interp, full: true, notes: -1}), why: "program header"},
		{name: "nor if no section says what the entry is", e: library(testELF{phdr: true, interp: interp, full: true, notes: -1, bare: true}), why: "program header"},
		{name: "not before a note", e: library(testELF{phdr: true, full: true}), id: true, gone: elf.PTNote, lost: true},
		{name: "the table grows before the build ID goes", e: testELF{notes: -1}, grows: true},
		{name: "also that of a library", e: library(testELF{notes: -1}), grows: true},
		{name: "PT_PHDR grows with it", e: testELF{dyn: true, phdr: true, soname: "x", notes: -1}, grows: true},
		{name: "a note of somebody else's", e: testELF{notes: 2, oneNote: true}, gone: elf.PTNote, lost: true, change: func(b []byte) {
			b[noteAt(3)+12] = 'X'
		}},
		{name: "no section headers that call it padding", e: testELF{notes: -1, bare: true}, why: "program header"},
		{name: "not zero", e: testELF{notes: -1, full: true}, why: "program header"},
		{name: "ABI tag and build ID in one", e: testELF{notes: 2, oneNote: true}, gone: elf.PTNote, lost: true},
		{name: "those of a library", e: library(testELF{notes: 2, oneNote: true}), gone: elf.PTNote, lost: true},
		{name: "no sections", e: testELF{notes: 2, oneNote: true, bare: true}, gone: elf.PTNote, lost: true},
		{name: "PT_NULL of what was the note of the build ID", e: testELF{notes: 2}, id: true, gone: elf.PTNull, change: func(b []byte) {
			clear(b[elf.EhdrSize+2*elf.PhdrSize:][:4])
		}},
		{name: "PT_NULL", e: testELF{notes: 2}, id: true, gone: elf.PTNull, change: func(b []byte) {
			copy(b[elf.EhdrSize+3*elf.PhdrSize:], make([]byte, elf.PhdrSize)) // the second note
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.e.text == nil {
				c.e.text = asm(t, timeStubText)
			}
			file := c.e.build()
			if c.id {
				file = withNote(t, file, ntBuildID)
			}
			if c.change != nil {
				c.change(file)
			}
			checkSpare(t, file)
			p := planFile(t, file, Options{})
			if c.why != "" {
				if q := p.Patches[0]; q.Form != Left && q.Form != Syscall || !strings.Contains(q.Reason, c.why) {
					t.Errorf("form %v: %s", q.Form, q.Reason)
				}
				return
			}
			out := checkPatched(t, file, p, Options{})
			before, after := scanFile(t, file).File, scanFile(t, out).File
			count := func(progs []elf.Prog, typ uint32) (n int) {
				for _, p := range progs {
					if p.Type == typ {
						n++
					}
				}
				return n
			}
			want := len(before.Progs)
			if c.grows {
				want++
			}
			if len(after.Progs) != want {
				t.Fatalf("%d program headers, want %d", len(after.Progs), want)
			}
			for _, typ := range []uint32{elf.PTNull, elf.PTNote, elf.PTPhdr, elf.PTInterp, elf.PTDynamic} {
				want := count(before.Progs, typ)
				if !c.grows && typ == c.gone {
					want--
				}
				if got := count(after.Progs, typ); got != want {
					t.Errorf("%d program headers of type %d, want %d", got, typ, want)
				}
			}
			if ph := after.Prog(elf.PTPhdr); ph != nil && ph.Filesz != uint64(len(after.Progs))*elf.PhdrSize {
				t.Errorf("PT_PHDR has %d bytes for %d program headers", ph.Filesz, len(after.Progs))
			}
			for i, s := range before.Sections {
				if s.Type != elf.SHTNote {
					continue
				}
				was := before.Bytes(s.Off, s.Size)
				if is := after.Mem(after.Sections[i].Addr, s.Size); !bytes.Equal(was, is) {
					t.Errorf("section %s: % x, want % x", s.Name, is, was)
				}
			}
			if after.TableLoad() < 0 {
				t.Error("the program headers are not loaded")
			}
			if lost := strings.Contains(strings.Join(p.Notes, "\n"), "build ID"); lost != c.lost {
				t.Errorf("warnings %q", p.Warnings)
			}
			if was, is := before.BuildID(), after.BuildID(); was != "" && (is == was) == c.lost {
				t.Errorf("build ID %q, before %q", is, was)
			}
		})
	}
}

// checkSpare compares the choices of a header from a file and from one with the other order of headers but PT_LOADs.
func checkSpare(t *testing.T, b []byte) {
	t.Helper()
	parsed, err := find.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	f := &file{File: parsed}
	was, err := f.spare()
	var others []int
	for i := range f.Progs {
		if f.Progs[i].Type != elf.PTLoad {
			others = append(others, i)
		}
	}
	typ := func(i int) uint32 {
		if err != nil || i == grown {
			return ^uint32(0)
		}
		return f.Progs[i].Type
	}
	want := typ(was)
	for i, n := 0, len(others); i < n/2; i++ {
		a, b := others[i], others[n-1-i]
		f.Progs[a], f.Progs[b] = f.Progs[b], f.Progs[a]
	}
	if is, _ := f.spare(); typ(is) != want {
		t.Errorf("header of type %#x, in another order %#x", want, typ(is))
	}
}

// synthetic is a library of zeros with some dynamic entries and a PT_LOAD.
func synthetic(size uint64) *elf.File {
	b := make([]byte, size)
	b[size-2] = 'x' // the name
	const vaddr = 0x10000
	return &elf.File{
		R: elf.Memory(b), Size: size, Type: elf.TypeDyn, PhOff: elf.EhdrSize, ShOff: size / 2, ShNum: 1, Sections: []elf.Section{{}},
		Dynamic: []elf.Dyn{{Tag: elf.DTStrtab, Val: vaddr}, {Tag: elf.DTSoname, Val: size - 2}, {Tag: elf.DTNeeded}},
		Progs:   []elf.Prog{{Type: elf.PTLoad, Flags: elf.PFR | elf.PFX, Vaddr: vaddr, Filesz: size, Memsz: size, Align: elf.PageSize}, {Type: elf.PTNote, Off: size - 8, Filesz: 4}},
	}
}

// TestJoins: which PT_LOAD can become a part of the one before it, in what is a library.
func TestJoins(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *elf.File, a, b *elf.Prog)
		ok     bool
	}{
		{"code and read-only data", func(*elf.File, *elf.Prog, *elf.Prog) {}, true},
		{"the other way round", func(_ *elf.File, a, b *elf.Prog) { a.Flags, b.Flags = b.Flags, a.Flags }, true},
		{"code and code", func(_ *elf.File, _, b *elf.Prog) { b.Flags |= elf.PFX }, false},
		{"code that cannot be read", func(_ *elf.File, _, b *elf.Prog) { b.Flags = elf.PFX }, false},
		{"data and data", func(_ *elf.File, a, _ *elf.Prog) { a.Flags = elf.PFR }, false},
		{"what is written", func(_ *elf.File, _, b *elf.Prog) { b.Flags |= elf.PFW }, false},
		{"a note behind code", func(_ *elf.File, _, b *elf.Prog) { b.Type = elf.PTNote }, false},
		{"code behind a note", func(_ *elf.File, a, _ *elf.Prog) { a.Type = elf.PTNote }, false},
		{"a .bss in the first", func(_ *elf.File, a, _ *elf.Prog) { a.Filesz-- }, false},
		{"a .bss in the second", func(_ *elf.File, _, b *elf.Prog) { b.Memsz++ }, false},
		{"another alignment", func(_ *elf.File, _, b *elf.Prog) { b.Align *= 2 }, false},
		{"another distance", func(_ *elf.File, _, b *elf.Prog) { b.Off += elf.PageSize }, false},
		{"a page between", func(_ *elf.File, _, b *elf.Prog) { b.Off, b.Vaddr = b.Off+elf.PageSize, b.Vaddr+elf.PageSize }, false},
		{"a page that is not full", func(_ *elf.File, a, _ *elf.Prog) { a.Filesz, a.Memsz = a.Filesz-1, a.Memsz-1 }, true},
		{"a program", func(f *elf.File, _, _ *elf.Prog) { f.Type = elf.TypeExec }, false},
		{"without a name", func(f *elf.File, _, _ *elf.Prog) { f.Dynamic[1].Tag = elf.DTDebug }, false},
		{"without libraries of its own", func(f *elf.File, _, _ *elf.Prog) { f.Dynamic[2].Tag = elf.DTDebug }, false},
	} {
		f := synthetic(2 * elf.PageSize)
		const names = 0x90000 // what the dynamic entries name is elsewhere
		f.Progs = append(f.Progs[:1], f.Progs[0], elf.Prog{Type: elf.PTLoad, Flags: elf.PFR, Off: f.Size - 8, Vaddr: names, Filesz: 8, Memsz: 8})
		f.Dynamic[0].Val, f.Dynamic[1].Val = names, 6
		a, b := &f.Progs[0], &f.Progs[1]
		a.Filesz, a.Memsz = elf.PageSize, elf.PageSize
		b.Flags, b.Off, b.Vaddr, b.Filesz, b.Memsz = elf.PFR, elf.PageSize, b.Vaddr+elf.PageSize, elf.PageSize, elf.PageSize
		c.change(f, a, b)
		g := &file{File: &find.File{File: f}}
		if g.joins(1) != c.ok || g.joins(0) {
			t.Errorf("%s: got %v", c.name, g.joins(1))
		}
		f.PhOff, f.Progs = 0, append(f.Progs, elf.Prog{Type: elf.PTPhdr})
		if i, err := g.spare(); c.ok && (err != nil || i != 3) {
			t.Errorf("%s: header %d before PT_PHDR", c.name, i)
		}
	}
}

// TestCanGrow: when the program header table can take one more entry in its place.
func TestCanGrow(t *testing.T) {
	const size, end = 32 * elf.PageSize, elf.EhdrSize + 2*elf.PhdrSize
	note := func(off, n uint64) func(*elf.File) {
		return func(f *elf.File) { f.Progs[1].Off, f.Progs[1].Filesz = off, n }
	}
	section := func(typ uint32, off, n uint64) func(*elf.File) {
		return func(f *elf.File) {
			f.Sections = append(f.Sections, elf.Section{Index: 1, Type: typ, Off: off, Size: n})
		}
	}
	load := func(vaddr, n uint64) func(*elf.File) {
		return func(f *elf.File) {
			f.Progs[1] = elf.Prog{Type: elf.PTLoad, Off: size - n, Vaddr: vaddr, Filesz: n, Memsz: n}
		}
	}
	headers := func(off uint64, n int) func(*elf.File) { return func(f *elf.File) { f.ShOff, f.ShNum = off, n } }
	loaded := func(progs int, filesz, memsz uint64) func(*elf.File) {
		return func(f *elf.File) {
			f.Progs = append(f.Progs, make([]elf.Prog, progs-len(f.Progs))...)
			f.Progs[0].Filesz, f.Progs[0].Memsz = filesz, memsz
		}
	}
	word := func(off uint64) func(*elf.File) { return func(f *elf.File) { f.Bytes(off, 1)[0] = 1 } }
	const full = (elf.PageSize - elf.EhdrSize) / elf.PhdrSize // entries in the first page
	for _, c := range []struct {
		name   string
		change func(f *elf.File)
		ok     bool
	}{
		{"room", func(*elf.File) {}, true},
		{"program headers elsewhere", func(f *elf.File) { f.PhOff += 8 }, false},
		{"the end of the file", func(f *elf.File) { f.Size, f.ShNum = end+elf.PhdrSize-1, 0 }, false},
		{"just before it", func(f *elf.File) { f.Size, f.ShNum = end+elf.PhdrSize, 0 }, true},
		{"a note in the last byte", note(end+elf.PhdrSize-1, 4), false},
		{"a note behind", note(end+elf.PhdrSize, 4), true},
		{"a note in the first byte", note(end-4, 5), false},
		{"a note before", note(end-4, 4), true},
		{"no section headers", func(f *elf.File) { f.Sections = nil }, false},
		{"a section in the last byte", section(elf.SHTProgbits, end+elf.PhdrSize-1, 4), false},
		{"a section behind", section(elf.SHTProgbits, end+elf.PhdrSize, 4), true},
		{"a section in the first byte", section(elf.SHTProgbits, end-4, 5), false},
		{"a section before", section(elf.SHTProgbits, end-4, 4), true},
		{"a section without content", section(elf.SHTNobits, end-4, 5), true},
		{"a segment in the same page", load(0x10000+end+elf.PhdrSize-1, 8), false},
		{"a segment just behind", load(0x10000+end+elf.PhdrSize, 8), true},
		{"a segment that ends in the same page", load(0x10000-7, 8), false},
		{"a segment that ends before", load(0x10000-8, 8), true},
		{"section headers", headers(end, 1), false},
		{"no section headers there", headers(end, 0), true},
		{"section headers behind", headers(end+elf.PhdrSize, 1), true},
		{"a word in the first byte", word(end), false},
		{"a word in the last byte", word(end + elf.PhdrSize - 1), false},
		{"a word behind", word(end + elf.PhdrSize), true},
		{"a .bss", loaded(2, size-1, size), false},
		{"a full page", loaded(full, elf.PageSize, elf.PageSize), false},
		{"a page and a byte", loaded(full, elf.PageSize+1, elf.PageSize+1), true},
		{"too many", loaded(elf.MaxPhnum, size, size), false},
	} {
		f := synthetic(size)
		c.change(f)
		if got := (&file{File: &find.File{File: f}}).canGrow(); got != c.ok {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
	f := synthetic(size)
	f.Progs[0].Filesz, f.Progs[0].Memsz, f.Progs[1].Type = end, end, elf.PTPhdr
	f.Progs[1].Filesz, f.Progs[1].Memsz = 2*elf.PhdrSize, 2*elf.PhdrSize
	(&file{File: &find.File{File: f}}).coverTable(f.Progs)
	if load, table := f.Progs[0], f.Progs[1]; load.Filesz != end+elf.PhdrSize || load.Memsz != load.Filesz || table.Filesz != 3*elf.PhdrSize || table.Memsz != table.Filesz {
		t.Errorf("got %+v and %+v", load, table)
	}
}
