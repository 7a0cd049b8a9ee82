package patch

import (
	"bytes"
	debugelf "debug/elf"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
)

// A builder of small ELF files for tests. Its files are valid: the kernel loads it.
//
//	offset 0       ELF header, program headers, notes, interpreter
//	offset 0x1000  .text       } one segment R-X from offset 0, as old linkers make it
//	next page      .data, then the dynamic tables; segment RW
//	behind         .symtab, .strtab, .shstrtab, section headers
const (
	testBase    = 0x400000 // of ET_EXEC; ET_DYN begins at 0
	testTextOff = 0x1000
	testPage    = 0x1000
	testNote    = 32 // bytes of one note
	testBSS     = 0x100
)

// testSym is one symbol.
type testSym struct {
	name        string
	value, size uint64
	typ, bind   byte // bind 0 is local: not in the dynamic table
}

// testRela is one relocation with an addend.
type testRela struct {
	at     uint64
	typ    uint64 // with the number of the symbol in the upper half
	addend uint64
}

// testELF describes a file. The zero value with Text is a static ET_EXEC program in the
// 2 MiB layout with one PT_NOTE and section headers.
type testELF struct {
	dyn         bool // ET_DYN
	tight       bool // 4 KiB layout: no hole between the segments
	notes       int  // PT_NOTEs; 0 means 1, -1 none
	bare        bool // no section headers
	interp      string
	soname      string
	text, data  []byte
	entry       uint64 // 0 means the start of the text
	symbols     []testSym
	rela        []testRela
	fdes        []uint64  // function starts for .eh_frame_hdr
	frame       []byte    // behind the table: a CIE and an FDE for each of them; see testFrame
	dynamic     bool      // a dynamic segment with a symbol table
	extra       []elf.Dyn // more dynamic entries
	noteSection string    // the name of the first note's section; "" means ".note.a"
	phdr        bool      // a PT_PHDR
}

func (e *testELF) base() uint64 {
	if e.dyn {
		return 0
	}
	return testBase
}

// textVaddr and dataVaddr return the vaddrs of the first byte of the text and of the data.
func (e *testELF) textVaddr() uint64 { return e.base() + testTextOff }

func (e *testELF) dataOff() uint64 {
	return (testTextOff + uint64(len(e.text)) + testPage - 1) &^ (testPage - 1)
}

func (e *testELF) dataVaddr() uint64 {
	if e.tight {
		return e.base() + e.dataOff()
	}
	return e.base() + 0x200000 + e.dataOff()
}

func (e *testELF) align() uint64 {
	if e.tight {
		return testPage
	}
	return 0x200000
}

// le appends v as little-endian fields.
func le(b []byte, v ...any) []byte {
	for _, x := range v {
		var err error
		if b, err = binary.Append(b, binary.LittleEndian, x); err != nil {
			panic(err)
		}
	}
	return b
}

func pad(b []byte, align int) []byte {
	return append(b, make([]byte, -len(b)&(align-1))...)
}

// testStrings is a string table under construction.
type testStrings struct{ b []byte }

func (s *testStrings) add(name string) uint32 {
	if len(s.b) == 0 {
		s.b = []byte{0}
	}
	at := uint32(len(s.b))
	s.b = append(append(s.b, name...), 0)
	return at
}

func (s *testStrings) symbol(b []byte, sym testSym, shndx uint16) []byte {
	return le(b, s.add(sym.name), sym.bind<<4|sym.typ, byte(0), shndx, sym.value, sym.size)
}

// testSection is one section header.
type testSection struct {
	name                   string
	typ                    uint32
	flags, addr, off, size uint64
	link, info             uint32
	entsize                uint64
}

// testImage is a file under construction.
type testImage struct {
	*testELF
	progs, head, data []byte // head is behind the program headers
	nprogs            int
	sects             []testSection
}

func (m *testImage) seg(typ, flags uint32, off, vaddr, filesz, memsz, align uint64) {
	m.progs = le(m.progs, typ, flags, off, vaddr, vaddr, filesz, memsz, align)
	m.nprogs++
}

func (m *testImage) sec(s testSection) int {
	m.sects = append(m.sects, s)
	return len(m.sects) - 1
}

// at returns the vaddr of the next byte of data, off its offset.
func (m *testImage) at() uint64              { return m.dataVaddr() + uint64(len(m.data)) }
func (m *testImage) off(vaddr uint64) uint64 { return m.dataOff() + vaddr - m.dataVaddr() }

func (e *testELF) hasDynamic() bool {
	return e.dynamic || e.soname != "" || len(e.rela) > 0 || len(e.extra) > 0
}

// dynamicTables appends the dynamic segment and its tables to the data.
func (m *testImage) dynamicTables() (at, size uint64) {
	var strs testStrings
	symAt := m.at()
	syms := make([]byte, elf.SymSize)
	count := uint32(1)
	for _, s := range m.symbols {
		if s.bind != elf.STBLocal {
			syms = strs.symbol(syms, s, 1)
			count++
		}
	}
	soname := strs.add(m.soname)
	m.data = append(m.data, syms...)
	strAt := m.at()
	m.data = pad(append(m.data, strs.b...), 8)
	hashAt := m.at()
	m.data = le(m.data, uint32(1), count, uint32(0)) // one bucket, empty; the chains follow
	m.data = pad(append(m.data, make([]byte, 4*count)...), 8)
	relaAt := m.at()
	for _, r := range m.rela {
		m.data = le(m.data, r.at, r.typ, r.addend)
	}
	entries := []elf.Dyn{{Tag: elf.DTHash, Val: hashAt}, {Tag: elf.DTStrtab, Val: strAt}, {Tag: elf.DTSymtab, Val: symAt}}
	if m.soname != "" {
		entries = append(entries, elf.Dyn{Tag: elf.DTSoname, Val: uint64(soname)})
	}
	if len(m.rela) > 0 {
		entries = append(entries, elf.Dyn{Tag: elf.DTRela, Val: relaAt}, elf.Dyn{Tag: elf.DTRelasz, Val: uint64(len(m.rela) * elf.RelaSize)})
	}
	at = m.at()
	for _, d := range append(append(entries, m.extra...), elf.Dyn{}, elf.Dyn{}) {
		m.data = le(m.data, d.Tag, d.Val)
	}
	size = m.at() - at
	str := m.sec(testSection{name: ".dynstr", typ: elf.SHTStrtab, flags: 2, addr: strAt, off: m.off(strAt), size: uint64(len(strs.b))})
	m.sec(testSection{name: ".dynsym", typ: elf.SHTDynsym, flags: 2, addr: symAt, off: m.off(symAt), size: uint64(len(syms)), link: uint32(str), info: 1, entsize: elf.SymSize})
	m.sec(testSection{name: ".dynamic", typ: 6, flags: 3, addr: at, off: m.off(at), size: size, link: uint32(str), entsize: elf.DynSize})
	return at, size
}

// unwindTable appends .eh_frame_hdr to the data.
func (m *testImage) unwindTable() (at, size uint64) {
	at = m.at()
	m.data = append(m.data, "\x01\x1b\x03\x3b"...) // version 1; pcrel and sdata4, udata4, datarel and sdata4
	m.data = le(m.data, uint32(0), uint32(len(m.fdes)))
	for _, v := range m.fdes {
		m.data = le(m.data, uint32(v-at), uint32(0))
	}
	size = m.at() - at
	m.data = pad(m.data, 8)
	if m.frame != nil {
		frame, entry := bytes.Clone(m.frame), len(m.data)-int(m.at()-at)+12
		length := func(at int) int { return 4 + int(binary.LittleEndian.Uint32(frame[at:])) }
		for i, f := 0, length(0); f < len(frame); i, f = i+1, f+length(f) {
			fde := m.at() + uint64(f)
			binary.LittleEndian.PutUint32(m.data[entry+8*i+4:], uint32(fde-at))
			binary.LittleEndian.PutUint32(frame[f+8:], uint32(m.fdes[i]-(fde+8)))
		}
		m.data = pad(append(m.data, frame...), 8)
	}
	return at, size
}

// notesAt appends the notes to the head, which begins at headEnd.
func (m *testImage) notesAt(headEnd uint64, n int) {
	for i := range n {
		off := headEnd + uint64(len(m.head))
		typ := uint32(1) // NT_GNU_ABI_TAG, then NT_GNU_BUILD_ID
		if i > 0 {
			typ = 3
		}
		m.head = append(le(m.head, uint32(4), uint32(16), typ), "GNU\x00\x00\x00\x00\x00\x02\x00\x00\x00\x06\x00\x00\x00\x09\x00\x00\x00"...)
		m.seg(elf.PTNote, elf.PFR, off, m.base()+off, testNote, testNote, 4)
		name := ".note." + string(rune('a'+i))
		if i == 0 && m.noteSection != "" {
			name = m.noteSection
		}
		m.sec(testSection{name: name, typ: 7, flags: 2, addr: m.base() + off, off: off, size: testNote})
	}
}

// build returns the file.
func (e *testELF) build() []byte {
	m := &testImage{testELF: e, sects: []testSection{{}}, data: pad(bytes.Clone(e.data), 8)}
	notes := max(e.notes, 0)
	if e.notes == 0 {
		notes = 1
	}
	m.sec(testSection{name: ".text", typ: elf.SHTProgbits, flags: 2 | elf.SHFExecinstr, addr: e.textVaddr(),
		off: testTextOff, size: uint64(len(e.text))})
	m.sec(testSection{name: ".data", typ: elf.SHTProgbits, flags: 3, addr: e.dataVaddr(), off: e.dataOff(), size: uint64(len(m.data))})
	n := 2 + notes
	if e.interp != "" {
		n++
	}
	if e.phdr {
		n++
	}
	var dynAt, dynLen, hdrAt, hdrLen uint64
	if e.hasDynamic() {
		dynAt, dynLen = m.dynamicTables()
		n++
	}
	if len(e.fdes) > 0 {
		hdrAt, hdrLen = m.unwindTable()
		n++
	}

	headEnd := uint64(elf.EhdrSize + n*elf.PhdrSize)
	if e.phdr {
		m.seg(elf.PTPhdr, elf.PFR, elf.EhdrSize, e.base()+elf.EhdrSize, uint64(n*elf.PhdrSize), uint64(n*elf.PhdrSize), 8)
	}
	if e.interp != "" {
		off := headEnd + uint64(len(m.head))
		m.seg(elf.PTInterp, elf.PFR, off, e.base()+off, uint64(len(e.interp)+1), uint64(len(e.interp)+1), 1)
		m.head = pad(append(append(m.head, e.interp...), 0), 8)
	}
	textEnd, dataLen := testTextOff+uint64(len(e.text)), uint64(len(m.data))
	m.seg(elf.PTLoad, elf.PFR|elf.PFX, 0, e.base(), textEnd, textEnd, e.align())
	m.seg(elf.PTLoad, elf.PFR|elf.PFW, e.dataOff(), e.dataVaddr(), dataLen, dataLen+testBSS, e.align())
	if dynLen > 0 {
		m.seg(elf.PTDynamic, elf.PFR|elf.PFW, m.off(dynAt), dynAt, dynLen, dynLen, 8)
	}
	m.notesAt(headEnd, notes)
	if hdrLen > 0 {
		m.seg(elf.PTGNUEhFrame, elf.PFR, m.off(hdrAt), hdrAt, hdrLen, hdrLen, 4)
	}
	if m.nprogs != n || headEnd+uint64(len(m.head)) > testTextOff {
		panic("testELF: the head does not fit")
	}
	return m.file()
}

// file puts the parts together.
func (m *testImage) file() []byte {
	file := append(make([]byte, elf.EhdrSize), m.progs...)
	file = append(file, m.head...)
	file = append(file, make([]byte, testTextOff-len(file))...)
	file = pad(append(file, m.text...), testPage)
	file = append(file, m.data...)
	shoff, shnum, shstrndx := uint64(0), 0, 0
	if !m.bare {
		file, shoff, shstrndx = m.sections(file, m.sects)
		shnum = (len(file) - int(shoff)) / elf.ShdrSize
	}
	typ, entry := uint16(elf.TypeExec), m.entry
	if m.dyn {
		typ = elf.TypeDyn
	}
	if entry == 0 {
		entry = m.textVaddr()
	}
	hdr := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	hdr = le(hdr, typ, uint16(elf.MachineX8664), uint32(1), entry, uint64(elf.EhdrSize), shoff, uint32(0), uint16(elf.EhdrSize),
		uint16(elf.PhdrSize), uint16(m.nprogs), uint16(elf.ShdrSize), uint16(shnum), uint16(shstrndx))
	copy(file, hdr)
	return file
}

// sections appends .symtab, the string tables and the section headers.
func (e *testELF) sections(file []byte, all []testSection) (out []byte, shoff uint64, shstrndx int) {
	if len(e.symbols) > 0 {
		var strs testStrings
		off := uint64(len(file))
		file = append(file, make([]byte, elf.SymSize)...)
		for _, s := range e.symbols {
			file = strs.symbol(file, s, 1)
		}
		size := uint64(len(file)) - off
		all = append(all, testSection{name: ".symtab", typ: elf.SHTSymtab, off: off, size: size, link: uint32(len(all) + 1), info: 1, entsize: elf.SymSize})
		all = append(all, testSection{name: ".strtab", typ: elf.SHTStrtab, off: uint64(len(file)), size: uint64(len(strs.b))})
		file = append(file, strs.b...)
	}
	var names testStrings
	all = append(all, testSection{name: ".shstrtab", typ: elf.SHTStrtab})
	offs := make([]uint32, len(all))
	for i, s := range all {
		offs[i] = names.add(s.name)
	}
	shstrndx = len(all) - 1
	all[shstrndx].off, all[shstrndx].size = uint64(len(file)), uint64(len(names.b))
	file = pad(append(file, names.b...), 8)
	shoff = uint64(len(file))
	for i, s := range all {
		if i == 0 {
			file = append(file, make([]byte, elf.ShdrSize)...)
			continue
		}
		file = le(file, offs[i], s.typ, s.flags, s.addr, s.off, s.size, s.link, s.info, uint64(8), s.entsize)
	}
	return file, shoff, shstrndx
}

// asm converts hex digits with spaces and "; comments" to bytes, for tests with machine code by hand, one
// instruction a line.
func asm(t testing.TB, text string) []byte {
	t.Helper()
	var out []byte
	for l := range strings.Lines(text) {
		l, _, _ = strings.Cut(l, ";")
		b, err := hex.DecodeString(strings.Join(strings.Fields(l), ""))
		if err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		out = append(out, b...)
	}
	return out
}

// scanFile scans the file, from memory and through a reader, with the same result.
func scanFile(t testing.TB, file []byte) *find.Report {
	t.Helper()
	r, err := Scan(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Scan(elf.Memory(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Sites, m.Sites) || r.Skipped.String() != m.Skipped.String() || r.ExecBytes != m.ExecBytes {
		t.Fatalf("in memory: %+v, else %+v", m, r)
	}
	return r
}

// planFile scans a file and plans it.
func planFile(t testing.TB, file []byte, o Options) *Plan {
	t.Helper()
	p, err := NewPlan(scanFile(t, file), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// applyPlan returns the patched file.
func applyPlan(t testing.TB, p *Plan, file []byte) []byte {
	t.Helper()
	out, err := io.ReadAll(p.Apply(bytes.NewReader(file)))
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(out)) != p.Size {
		t.Fatalf("got %d bytes, want %d", len(out), p.Size)
	}
	return out
}

// verify is Verify of two files in memory.
func verify(before, after []byte, o Options) error {
	_, err := Verify(bytes.NewReader(before), int64(len(before)), bytes.NewReader(after), int64(len(after)), o)
	return err
}

// checkPatched applies a plan, and checks what holds for every patched file.
func checkPatched(t testing.TB, file []byte, p *Plan, o Options) []byte {
	t.Helper()
	out := applyPlan(t, p, file)
	if err := verify(file, out, o); err != nil {
		t.Errorf("verify: %v", err)
	}
	if again := planFile(t, out, o); !again.Empty() {
		t.Errorf("the patched file would be patched again: %d edits", len(again.Edits))
	}
	if _, err := debugelf.NewFile(bytes.NewReader(out)); err != nil {
		t.Errorf("debug/elf: %v", err)
	}
	return out
}
