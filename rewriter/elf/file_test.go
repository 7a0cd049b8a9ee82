package elf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// inMemory is a file of one segment with content at vaddr.
func inMemory(flags uint32, vaddr uint64, content []byte) *File {
	n := uint64(len(content))
	return &File{R: Memory(content), Size: n, Progs: []Prog{{Type: PTLoad, Flags: flags, Vaddr: vaddr, Filesz: n, Memsz: n}}}
}

// TestLimits: what is of the largest size is read in full, and not what is larger.
func TestLimits(t *testing.T) {
	const at = 0x10000
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	header := func(typ uint16, progs, sections int, shoff uint64) []byte {
		return little([]byte("\x7fELF\x02\x01\x01"+zeros(9)), typ, uint16(MachineX8664), uint32(1), uint64(at), uint64(EhdrSize), shoff,
			uint32(0), uint16(EhdrSize), uint16(PhdrSize), uint16(progs), uint16(ShdrSize), uint16(sections), uint16(1))
	}
	load := little(uint32(PTLoad), uint32(PFR|PFX), uint64(0), uint64(at), uint64(at), uint64(EhdrSize), uint64(EhdrSize), uint64(PageSize))
	text := func(n int) *File {
		f := inMemory(PFR, at, []byte(strings.Repeat("x", n)+"\x00"))
		f.Dynamic = []Dyn{{Tag: DTStrtab, Val: at}, {Tag: DTSoname}}
		return f
	}
	for _, c := range []struct {
		name  string
		limit int
		read  func(n int) bool
	}{
		{"a dynamic string", maxDynString - 1, func(n int) bool { return len(text(n).DynStrings(DTSoname)[0]) == n }},
		{"the path of a loader", maxDynString, func(n int) bool {
			f := text(n)
			f.Progs = []Prog{{Type: PTInterp, Filesz: uint64(n)}}
			return len(f.Interp()) == n
		}},
		{"the name of a symbol", maxName, func(n int) bool {
			return len(text(n).SymbolName(Symtab{strSize: uint64(n)}, Symbol{})) == n
		}},
		{"program headers", MaxPhnum, func(n int) bool {
			b := append(header(TypeDyn, n, 0, 0), bytes.Repeat(load, n)...)
			_, err := Parse(Memory(b), int64(len(b)))
			return strings.Contains(err.Error(), "overlaps")
		}},
		{"section headers", MaxShnum, func(n int) bool {
			b := append(append(header(TypeDyn, 1, n, EhdrSize+PhdrSize), load...), make([]byte, n*ShdrSize)...)
			b[EhdrSize+PhdrSize+ShdrSize+4] = SHTStrtab
			f, err := Parse(Memory(b), int64(len(b)))
			return err == nil && len(f.Sections) == n
		}},
		{"dynamic entries", maxDyn, func(n int) bool {
			b := append(header(TypeDyn, 2, 0, 0), load...)
			b = append(b, little(uint32(PTDynamic), uint32(PFR), uint64(EhdrSize+2*PhdrSize), uint64(0), uint64(0), uint64(n*DynSize), uint64(0), uint64(0))...)
			b = append(b, strings.Repeat("\x01", n*DynSize)...)
			f, err := Parse(Memory(b), int64(len(b)))
			return err == nil && len(f.Dynamic) == n
		}},
		{"notes", maxNotes, func(n int) bool {
			id := "\x04\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00GNU\x00x"
			b := append(little(uint32(n-12-len(id)), uint32(0), uint32(0)), zeros(n-12-len(id))+id...)
			return n&3 != len(id)&3 || (&File{R: Memory(b), Size: uint64(n), Progs: []Prog{{Type: PTNote, Filesz: uint64(n)}}}).HasBuildID(&Prog{Type: PTNote, Filesz: uint64(n)})
		}},
		{"segments", MaxCover, func(n int) bool {
			return (&File{Size: 100, Progs: []Prog{{Type: PTLoad, Filesz: 100 * uint64(n-1)}, {Type: PTLoad, Filesz: 100}}}).CheckLoads() == nil
		}},
		{"hits of a text", 8, func(n int) bool {
			return len(inMemory(PFR, at, []byte(strings.Repeat("text", n))).FindText("text")) == n
		}},
		{"the search table", maxFDEs, func(n int) bool {
			f := inMemory(PFR, at, append(little([]byte{1, 0x1b, peUdata4, peDatarel | peSdata4}, uint32(0), uint32(n)), make([]byte, n*SearchSize)...))
			f.Progs = append(f.Progs, Prog{Type: PTGNUEhFrame, Vaddr: at, Filesz: f.Size})
			_, table := f.SearchTable()
			return len(table) == n
		}},
		{"entries of .eh_frame", maxFDEs, func(n int) (found bool) {
			b := []byte(plain + zeros(4*(n-2)))
			b = append(b, fdeOf(string(b), "\x00", "\x00\x00\x00")...)
			f := inMemory(PFR, at, append(b, 0, 0, 0, 0))
			f.Sections = []Section{{Name: ".eh_frame", Type: SHTProgbits, Size: f.Size}}
			f.EachFDE(func(uint64) bool { return true }, func(_, _ uint64) { found = true })
			return found
		}},
		{"the vaddr of a segment", 16, func(n int) bool {
			b := bytes.Clone(append(header(TypeDyn, 1, 0, 0), load...))
			copy(b[EhdrSize+16:], little(uint64(MaxVaddr-16+n), uint64(0), uint64(0), uint64(0)))
			_, err := Parse(Memory(b), int64(len(b)))
			return err == nil
		}},
		{"the end of a segment", 16, func(n int) bool {
			b := bytes.Clone(append(header(TypeDyn, 1, 0, 0), load...))
			copy(b[EhdrSize+16:], little(uint64(MaxVaddr-100), uint64(0), uint64(0), uint64(100-16+n)))
			_, err := Parse(Memory(b), int64(len(b)))
			return err == nil
		}},
	} {
		if !c.read(c.limit) || c.read(c.limit+1) {
			t.Errorf("%s, at most %d: read %v, one more %v", c.name, c.limit, c.read(c.limit), c.read(c.limit+1))
		}
	}
}

// TestChunks: each byte of a segment is in one range, with the same margins.
func TestChunks(t *testing.T) {
	const vaddr = 0x1000
	for _, n := range []int{1, 2 * ChunkMargin, ChunkSize, ChunkSize + 1, 2*ChunkSize - 2*ChunkMargin, 2*ChunkSize + 5} {
		content := make([]byte, n)
		for i := range content {
			content[i] = byte(i * i >> 3)
		}
		for _, r := range []io.ReaderAt{Memory(content), bytes.NewReader(content)} {
			f := inMemory(PFR, vaddr, content)
			f.R = r
			next := 0
			f.Chunks(&f.Progs[0], func(b []byte, at uint64, lo, hi int) {
				start := int(at - vaddr)
				before, behind := min(ChunkMargin, next), min(ChunkMargin, n-start-hi)
				if len(b) > ChunkSize || start+lo != next || lo != before || len(b)-hi != behind || !bytes.Equal(b, content[start:start+len(b)]) {
					t.Errorf("%d bytes: %d at %d, %d to %d, behind %d", n, len(b), start, lo, hi, next)
				}
				next = start + hi
			})
			if next != n {
				t.Errorf("%d bytes: the last ends at %d", n, next)
			}
		}
	}
}

// TestReferences: displacements in code with what may follow them, and addresses in code and data.
func TestReferences(t *testing.T) {
	const vaddr, to = 0x10000, 0x11223344
	at := func(next int) string { return string(little(uint32(to - vaddr - next))) }
	for _, c := range []struct {
		name  string
		typ   uint16
		flags uint32
		code  string
		disps []uint64
		data  int
	}{
		{"at the end", TypeDyn, PFX, "\x90\x8b\x05" + at(7), []uint64{vaddr + 3}, 0},
		{"before a byte", TypeDyn, PFX, "\x83\x3d" + at(7) + "\x01", []uint64{vaddr + 2}, 0},
		{"before two", TypeDyn, PFX, "\x83\x3d" + at(8) + "\x01\x01", []uint64{vaddr + 2}, 0},
		{"before three", TypeDyn, PFX, "\x83\x3d" + at(9) + "\x01\x01\x01", nil, 0},
		{"before four", TypeDyn, PFX, "\x83\x3d" + at(10) + "\x01\x01\x01\x01", []uint64{vaddr + 2}, 0},
		{"before five", TypeDyn, PFX, "\x83\x3d" + at(11) + "\x01\x01\x01\x01\x01", nil, 0},
		{"relative to another register", TypeDyn, PFX, "\x8b\x04" + at(6), nil, 0},
		{"another register", TypeDyn, PFX, "\x8b\xbd" + at(6), nil, 0},
		{"without an instruction", TypeDyn, PFX, at(4), nil, 0},
		{"cut off", TypeDyn, PFX, "\x8b\x05" + at(6)[:3], nil, 0},
		{"in data", TypeDyn, PFR, "\x8b\x05" + at(6), nil, 0},
		{"an address in a library", TypeDyn, PFX, "\x44\x33\x22\x11", nil, 0},
		{"an address in a program", TypeExec, PFX, "\x44\x33\x22\x11", []uint64{vaddr}, 0},
		{"an address in data", TypeExec, PFR, "\x44\x33\x22\x11", nil, 0},
		{"words in data", TypeDyn, PFR, "\x44\x33\x22\x11\x00\x00\x00\x00\x44\x33\x22\x11\x00\x00\x00\x00\x00", nil, 2},
		{"a word in code", TypeDyn, PFX, "\x44\x33\x22\x11\x00\x00\x00\x00", nil, 0},
	} {
		f := inMemory(c.flags, vaddr, []byte(c.code))
		f.Type = c.typ
		if disps, data := f.References(to); fmt.Sprint(disps, data) != fmt.Sprint(c.disps, c.data) {
			t.Errorf("%s: %#x, %d; want %#x, %d", c.name, disps, data, c.disps, c.data)
		}
	}
}

// TestFailedRead: the first read that fails is what a file says of all of them, and their bytes are zeros.
func TestFailedRead(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		r    io.ReaderAt
		want string
	}{
		{"too short", strings.NewReader("12345678"), "read 4 bytes at offset 6: unexpected EOF"},
		{"broken", readerAt(func([]byte) (int, error) { return 1, broken }), "read 4 bytes at offset 6: broken"},
		{"too few, without a word", readerAt(func([]byte) (int, error) { return 1, nil }), "read 4 bytes at offset 6: unexpected EOF"},
		{"broken behind the bytes", readerAt(func(b []byte) (int, error) { return len(b), broken }), "<nil>"},
	} {
		f := &File{R: c.r, Size: 100}
		b := []byte("abcd")
		n, err := f.ReadAt(b, 6)
		zeros := make([]byte, 4-n)
		if fmt.Sprint(err) != c.want || !bytes.Equal(b[n:], zeros) {
			t.Errorf("%s: %d, %v, %q", c.name, n, err, b)
		}
		if n, err = f.ReadAt(b, 0); err != f.Err() || n != 0 && err != nil || fmt.Sprint(err) != c.want {
			t.Errorf("%s: read again: %d, %v", c.name, n, err)
		}
	}
}

// TestMemory: a short read of memory is one of a file.
func TestMemory(t *testing.T) {
	b := make([]byte, 4)
	if n, err := Memory("abc").ReadAt(b, 1); n != 2 || err != io.EOF {
		t.Errorf("got %d, %v", n, err)
	}
}

// TestTangled: segments that share a page which they map from different places, one of them as code.
func TestTangled(t *testing.T) {
	const vaddr = 0x10000
	for _, c := range []struct {
		name         string
		lastSize     uint64
		flags        uint32
		off, at, n   uint64
		last, tangle bool
	}{
		{"apart", 0x1000, PFR | PFX, 0x1000, vaddr + 0x2000, 8, false, false},
		{"behind a full page", 0x1000, PFR | PFX, 0x3000, vaddr + 0x1000, 8, false, false},
		{"behind a page and a byte", 0x1001, PFR | PFX, 0x3800, vaddr + 0x1800, 8, false, true},
		{"the last byte of the page", 0x1001, PFR | PFX, 0x3fff, vaddr + 0x1fff, 8, false, true},
		{"the same place of the file", 0x1001, PFR | PFX, 0x1800, vaddr + 0x1800, 8, false, false},
		{"no content", 0x1001, PFR | PFX, 0x3800, vaddr + 0x1800, 0, false, false},
		{"data", 0x1001, PFR, 0x3800, vaddr + 0x1800, 8, false, false},
		{"data behind code", 0x1001, PFR, 0x3800, vaddr + 0x1800, 8, true, true},
	} {
		last := Prog{Type: PTLoad, Flags: PFR, Vaddr: vaddr, Filesz: c.lastSize, Memsz: c.lastSize}
		if c.last {
			last.Flags |= PFX
		}
		p := Prog{Type: PTLoad, Flags: c.flags, Off: c.off, Vaddr: c.at, Filesz: c.n, Memsz: 8}
		if got := p.covers(&last); got != c.tangle {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

// TestAsSkip: a failed read does not make a file one to skip.
func TestAsSkip(t *testing.T) {
	broken := errors.New("broken")
	if skip, err := AsSkip(broken); skip != nil || err != broken {
		t.Errorf("got %v, %v", skip, err)
	}
	if skip, err := AsSkip(nil); skip != nil || err != nil {
		t.Errorf("got %v, %v", skip, err)
	}
}

type readerAt func(b []byte) (int, error)

func (r readerAt) ReadAt(b []byte, _ int64) (int, error) { return r(b) }

// TestForeign: files for other machines, also short ones.
func TestForeign(t *testing.T) {
	const arm = 40
	for _, c := range []struct {
		name        string
		class, data byte
		typ         uint16
		machine     uint16
		phentsize   uint16
		n           int
		kind        Kind
		says        string
	}{
		{"without program headers", 2, 1, TypeDyn, MachineX8664, PhdrSize, 64, KindDamaged, "no program headers"},
		{"cut off", 2, 1, TypeDyn, MachineX8664, PhdrSize, 63, KindDamaged, "(63 bytes)"},
		{"with the class of 32 bits", 1, 1, TypeDyn, MachineX8664, PhdrSize, 64, KindDamaged, "no program headers"},
		{"of x32", 1, 1, TypeDyn, MachineX8664, 32, 64, KindX32, "x32"},
		{"other program headers", 2, 1, TypeDyn, MachineX8664, 32, 64, KindDamaged, "e_phentsize 32"},
		{"of 32 bits", 1, 1, TypeDyn, arm, 32, 64, KindForeign, "32-bit"},
		{"short, of 32 bits", 1, 1, TypeDyn, arm, 32, 63, KindDamaged, "(63 bytes)"},
		{"big-endian", 1, 2, TypeDyn, arm, 32, 64, KindForeign, "big-endian"},
		{"for another machine", 2, 1, TypeDyn, arm, 32, 64, KindForeign, "e_machine 40"},
		{"a core", 2, 1, 4, MachineX8664, PhdrSize, 64, KindForeign, "type 4"},
		{"four bytes", 2, 1, TypeDyn, MachineX8664, PhdrSize, 4, KindDamaged, "(4 bytes)"},
		{"three bytes", 2, 1, TypeDyn, MachineX8664, PhdrSize, 3, KindNotELF, "not an ELF"},
	} {
		b := little([]byte("\x7fELF"), c.class, c.data, [10]byte{}, c.typ, c.machine, [34]byte{}, c.phentsize, [8]byte{})[:c.n]
		_, err := Parse(Memory(b), int64(c.n))
		if skip, _ := AsSkip(err); skip == nil || skip.Kind != c.kind || !strings.Contains(skip.String(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if skip, err := AsSkip(func() error { _, err := Parse(strings.NewReader("#!/bin/sh"), 9); return err }()); err != nil || skip.Kind != KindNotELF {
		t.Errorf("a script: %v, %v", skip, err)
	}
	for k := KindDamaged; k <= KindForeign; k++ {
		skip := NewSkip(k, "why")
		damaged, runs := k <= KindBroken, k <= KindX32
		if skip.Damaged() != damaged || skip.MayCall() != runs || strings.HasSuffix(skip.String(), ": why") != damaged {
			t.Errorf("kind %d: damaged %v, may call %v: %s", k, skip.Damaged(), skip.MayCall(), skip)
		}
	}
}

// TestProperties: what the headers alone say of a file.
func TestProperties(t *testing.T) {
	load := func(flags uint32, off, filesz, memsz uint64) Prog {
		return Prog{Type: PTLoad, Flags: flags, Off: off, Vaddr: off, Filesz: filesz, Memsz: memsz}
	}
	code := []Prog{load(PFR|PFX, 0, 0x20, 0x20)}
	dyn := func(tag int64) []Dyn { return []Dyn{{Tag: tag, Val: DF1PIE}} }
	type is struct{ interpreter, static, program, bss bool }
	for _, c := range []struct {
		name string
		f    File
		want is
	}{
		{"a library", File{Type: TypeDyn, Progs: code}, is{}},
		{"a loader", File{Type: TypeDyn, Entry: 1, Progs: code}, is{interpreter: true}},
		{"a loader with libraries", File{Type: TypeDyn, Entry: 1, Progs: code, Dynamic: dyn(DTNeeded)}, is{}},
		{"a loader with an entry point outside", File{Type: TypeDyn, Entry: 0x20, Progs: code}, is{}},
		{"a loader with an entry point in data", File{Type: TypeDyn, Entry: 1, Progs: []Prog{load(PFR, 0, 0x20, 0x20)}}, is{}},
		{"a static program", File{Type: TypeExec, Entry: 1, Progs: code}, is{static: true, program: true}},
		{"a static PIE", File{Type: TypeDyn, Entry: 1, Progs: code, Dynamic: dyn(DTFlags1)}, is{static: true, program: true}},
		{"another flag", File{Type: TypeDyn, Entry: 1, Progs: code, Dynamic: []Dyn{{Tag: DTFlags1, Val: 1}}}, is{interpreter: true}},
		{"a static PIE of an old linker", File{Type: TypeDyn, Entry: 1, Progs: code, Dynamic: dyn(DTDebug)}, is{interpreter: true, static: true}},
		{"with a soname", File{Type: TypeDyn, Entry: 1, Progs: code, Dynamic: append(dyn(DTDebug), dyn(DTSoname)...)}, is{interpreter: true}},
		{"without an entry point", File{Type: TypeDyn, Progs: code, Dynamic: dyn(DTDebug)}, is{}},
		{"a program", File{Type: TypeExec, Entry: 1, Progs: []Prog{load(PFR|PFX, 0, 0x20, 0x20), {Type: PTInterp}}}, is{program: true}},
		{"a PIE", File{Type: TypeDyn, Entry: 1, Progs: []Prog{load(PFR|PFX, 0, 0x20, 0x20), {Type: PTInterp}}}, is{program: true}},
		{"with a BSS", File{Type: TypeDyn, Progs: []Prog{load(PFR|PFW, 0, 0x20, 0x21)}}, is{bss: true}},
		{"another segment that is longer in memory", File{Type: TypeDyn, Progs: []Prog{{Type: PTNote, Memsz: 1}}}, is{}},
	} {
		if got := (is{c.f.IsInterpreter(), c.f.Static(), c.f.IsProgram(), c.f.HasBSS()}); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		typ         uint16
		align, want uint64
	}{
		{TypeDyn, 0, 0x213000}, {TypeDyn, 1, 0x213000}, {TypeDyn, PageSize, 0x213000}, {TypeDyn, 2 * PageSize, 0x212000},
		{TypeDyn, 3 * PageSize, 0x213000}, {TypeDyn, 1 << 21, 0x200000}, {TypeExec, 1 << 21, 0x213000},
	} {
		if got := (&File{Type: c.typ}).MapStart(&Prog{Vaddr: 0x213456, Align: c.align}); got != c.want {
			t.Errorf("type %d, alignment %#x: from %#x", c.typ, c.align, got)
		}
	}
	for n, want := range map[uint64]uint64{0: 0, 1: PageSize, PageSize: PageSize, PageSize + 1: 2 * PageSize} {
		if got := PageUp(n); got != want {
			t.Errorf("%#x: %#x", n, got)
		}
	}
	if got := (&File{Dynamic: []Dyn{{Tag: DTNeeded}}}).DynStrings(DTNeeded); len(got) > 0 {
		t.Errorf("without a table of strings: %q", got)
	}
}

// TestOverlay: the bytes behind everything that the headers name, except padding and a linker's tail.
func TestOverlay(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	header := func(typ uint32, off, size int) string {
		return string(little(uint32(1), typ, uint64(0), uint64(0), uint64(off), uint64(size), uint64(0), uint64(1), uint64(0)))
	}
	names := "\x00.shstrtab\x00" + zeros(53) // 64 bytes
	tail := names + zeros(ShdrSize) + header(SHTStrtab, EhdrSize, len(names)) + header(SHTProgbits, EhdrSize, 8)
	for _, c := range []struct {
		name, rest string
		sections   []Section
		want       bool
	}{
		{"nothing", "", nil, false},
		{"padding", zeros(PageSize - 1), nil, false},
		{"a page of padding", zeros(PageSize), nil, true},
		{"a byte", "x", nil, true},
		{"a tail", tail, nil, false},
		{"a tail beside section headers", tail, []Section{}, true},
		{"a tail and more", tail + "x", nil, true},
		{"a tail without names", zeros(len(names)) + tail[len(names):], nil, true},
		{"a tail whose names are elsewhere", names + zeros(ShdrSize) + header(SHTStrtab, 1<<40, len(names)), nil, true},
		{"texts alone", names + ".text\x00GCC: (GNU) 4\x00", nil, false},
		{"other texts", names + "payload\x00", nil, true},
		{"texts without names of sections", zeros(PageSize) + ".text\x00", nil, true},
		{"an archive", "PK\x05\x06" + zeros(100), nil, true},
	} {
		b := zeros(EhdrSize) + c.rest
		f := &File{R: Memory(b), Size: uint64(len(b)), PhOff: EhdrSize, Sections: c.sections}
		if got := f.Overlay(); got > 0 != c.want || got > 0 && got != uint64(len(c.rest)) {
			t.Errorf("%s: got %d bytes", c.name, got)
		}
	}
	for name, want := range map[string]string{"pydata": "pydata", ".data": ""} {
		f := &File{Sections: []Section{{Name: name, Type: SHTProgbits, Size: 1}}}
		if got := f.Payload(); got != want {
			t.Errorf("section %s: payload %q", name, got)
		}
	}
}

// TestOrder: sections in the order of their offsets, of which some do not count.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		sections []Section
		ok       bool
	}{
		{[]Section{{}, {Type: SHTProgbits, Off: 8}, {Type: SHTProgbits, Off: 8}, {Type: SHTProgbits, Off: 9}}, true},
		{[]Section{{}, {Type: SHTProgbits, Off: 8}, {Type: SHTProgbits, Off: 7}}, false},
		{[]Section{{}, {Type: SHTProgbits, Off: 8}, {Type: SHTNobits, Off: 7}, {Type: SHTNull, Off: 7}}, true},
		{[]Section{{}, {Type: SHTNobits, Off: 8}, {Type: SHTNull, Off: 9}, {Type: SHTProgbits, Off: 7}}, true},
		{[]Section{{}, {Type: SHTProgbits}}, true},
	} {
		if err := (&File{Sections: c.sections}).InOrder(); (err == nil) != c.ok {
			t.Errorf("%v: got %v", c.sections, err)
		}
	}
}
