package elf

import (
	"fmt"
	"strings"
	"testing"
)

// TestSound: tables that a loader reads are in a segment, and not among the headers.
func TestSound(t *testing.T) {
	const vaddr, size = 0x400000, 0x2000
	table := uint64(EhdrSize) // of the program headers, which are three
	first := table + 3*PhdrSize
	dyn := func(tag int64, off uint64) func(*File) {
		return func(f *File) { f.Dynamic = []Dyn{{Tag: tag, Val: vaddr + off}} }
	}
	prog := func(typ uint32, off, at, n uint64) func(*File) {
		return func(f *File) { f.Progs[1] = Prog{Type: typ, Off: off, Vaddr: at, Filesz: n, Memsz: n} }
	}
	section := func(s Section) func(*File) { return func(f *File) { f.Sections = []Section{s} } }
	for _, c := range []struct {
		name   string
		change func(*File)
		want   string
	}{
		{"as it is", func(*File) {}, ""},
		{"a table behind the headers", dyn(DTGNUHash, first), ""},
		{"a table that reaches them", dyn(DTGNUHash, table-1), "DT_GNU_HASH: vaddr 0x40003f is among"},
		{"the last byte of them", dyn(DTHash, first-1), "DT_HASH"},
		{"symbols in the ELF header", dyn(DTSymtab, 0), "DT_SYMTAB"},
		{"names in no segment", dyn(DTStrtab, size), "DT_STRTAB: vaddr 0x402000 is in no segment"},
		{"relocations among them", dyn(DTRela, table), "DT_RELA"},
		{"those of calls", dyn(DTJmprel, table), "DT_JMPREL"},
		{"no address", func(f *File) { f.Dynamic = []Dyn{{Tag: DTRela}} }, ""},
		{"another tag", dyn(DTSoname, table), ""},
		{"the dynamic segment", prog(PTDynamic, 0x1000, vaddr+0x1000, 16), ""},
		{"elsewhere", prog(PTDynamic, 0x1010, vaddr+0x1000, 16), "PT_DYNAMIC"},
		{"among the headers", prog(PTDynamic, first-1, vaddr+first-1, 16), "PT_DYNAMIC"},
		{"a note at the end of the file", prog(PTNote, size-16, vaddr+size-16, 16), ""},
		{"a note behind it", prog(PTNote, size-15, vaddr+size-15, 16), "segment 1"},
		{"an empty one", prog(PTNote, size+1, vaddr, 0), ""},
		{"the headers", prog(PTPhdr, table, vaddr+table, 3*PhdrSize), ""},
		{"from another place", prog(PTPhdr, table, vaddr+table+8, 8), "PT_PHDR"},
		{"at another place", prog(PTPhdr, table+8, vaddr+table, 8), "PT_PHDR"},
		{"a loader", prog(PTInterp, 0x1000, vaddr+0x1000, 16), ""},
		{"a loader outside of the file", prog(PTInterp, size-8, vaddr, 16), "segment 1"},
		{"a loader among the headers", prog(PTInterp, first-8, vaddr+first-8, 16), "PT_INTERP"},
		{"an entry in data", func(f *File) { f.Entry = vaddr + size }, "e_entry"},
		{"that of a library", func(f *File) { f.Entry, f.Type = 0, TypeDyn }, ""},
		{"a section", section(Section{Name: ".text", Type: SHTProgbits, Flags: SHFAlloc, Off: first, Size: 8}), ""},
		{"a section among the headers", section(Section{Name: ".text", Type: SHTProgbits, Flags: SHFAlloc, Off: first - 1, Size: 8}), "section .text"},
		{"one without bytes", section(Section{Name: ".bss", Type: SHTNobits, Flags: SHFAlloc, Off: table, Size: 8}), ""},
		{"an empty one", section(Section{Name: ".text", Type: SHTProgbits, Flags: SHFAlloc, Off: table + 1}), ""},
		{"one that is not loaded", section(Section{Name: ".text", Type: SHTProgbits, Flags: 1, Off: table, Size: 8}), ""},
	} {
		f := inMemory(PFR|PFX, vaddr, make([]byte, size))
		f.Type, f.PhOff, f.Entry = TypeExec, table, vaddr+0x1000
		f.Progs = append(f.Progs, Prog{}, Prog{})
		c.change(f)
		if err := f.Sound(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestOverlayBehind: what the headers name is not behind everything.
func TestOverlayBehind(t *testing.T) {
	const loaded = 0x1000
	headers := strings.Repeat("h", 2*ShdrSize)
	section := func(typ uint32) func(*File) {
		return func(f *File) { f.Sections = []Section{{Type: typ, Off: loaded, Size: 4}} }
	}
	table := func(f *File) { f.ShOff, f.ShNum, f.Sections = loaded, 2, []Section{{}} }
	for _, c := range []struct {
		name   string
		behind string
		change func(*File)
		want   uint64
	}{
		{"a section", "data", section(SHTProgbits), 0},
		{"behind a section", "data!", section(SHTProgbits), 1},
		{"a section without bytes", "data", section(SHTNobits), 4},
		{"section headers", headers, table, 0},
		{"behind them", headers + "!", table, 1},
		{"a segment outside of the file", "!", func(f *File) { f.Progs = append(f.Progs, Prog{Off: loaded, Filesz: 1 << 40}) }, 1},
	} {
		f := inMemory(PFR, 0, []byte(strings.Repeat("x", loaded)+c.behind))
		f.Progs[0].Filesz, f.Progs[0].Memsz = loaded, loaded
		c.change(f)
		if got := f.Overlay(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
	for name, s := range map[string]Section{
		"loaded": {Name: "data", Type: SHTProgbits, Flags: SHFAlloc, Size: 1}, "empty": {Name: "data", Type: SHTProgbits},
		"a note": {Name: "note", Type: 7, Size: 1}, "without a name": {Type: SHTProgbits, Size: 1},
	} {
		if got := (&File{Sections: []Section{s}}).Payload(); got != "" {
			t.Errorf("a section that is %s: got %q", name, got)
		}
	}
}

// TestRelocations: those that a loader applies, also in a static program, and the words of data that they make.
func TestRelocations(t *testing.T) {
	const vaddr = 0x1000
	rela := func(at uint64) []byte { return little(at, uint32(RRelative), uint32(0), uint64(0x77)) }
	content := append(rela(1), rela(2)...)
	size := uint64(len(content))
	for _, c := range []struct {
		name   string
		change func(*File)
		want   string
	}{
		{"of data", func(f *File) { f.Dynamic = []Dyn{{Tag: DTRela, Val: vaddr}, {Tag: DTRelasz, Val: size}} }, "[1 2]"},
		{"of calls", func(f *File) {
			f.Dynamic = []Dyn{{Tag: DTJmprel, Val: vaddr + RelaSize}, {Tag: DTPltrelsz, Val: RelaSize}}
		}, "[2]"},
		{"without a size", func(f *File) { f.Dynamic = []Dyn{{Tag: DTRela, Val: vaddr}} }, "[]"},
		{"without an address", func(f *File) { f.Dynamic = []Dyn{{Tag: DTRelasz, Val: size}} }, "[]"},
		{"longer than the segment", func(f *File) { f.Dynamic = []Dyn{{Tag: DTRela, Val: vaddr}, {Tag: DTRelasz, Val: 1 << 40}} }, "[1 2]"},
		{"outside", func(f *File) { f.Dynamic = []Dyn{{Tag: DTRela, Val: 1}, {Tag: DTRelasz, Val: size}} }, "[]"},
		{"of a static program", func(f *File) { f.Sections = []Section{{Type: SHTRela, Addr: vaddr, Size: size}} }, "[1 2]"},
		{"of an object", func(f *File) { f.Sections = []Section{{Type: SHTRela, Size: size}} }, "[]"},
		{"another section", func(f *File) { f.Sections = []Section{{Type: SHTProgbits, Addr: vaddr, Size: size}} }, "[]"},
		{"a section of a dynamic file", func(f *File) {
			f.Dynamic, f.Sections = []Dyn{{Tag: DTSoname}}, []Section{{Type: SHTRela, Addr: vaddr, Size: size}}
		}, "[]"},
	} {
		f := inMemory(PFR, vaddr, content)
		c.change(f)
		all := []uint64{}
		f.EachRela(func(r Rela) {
			all = append(all, r.At)
			if r.Type != RRelative || r.Addend != 0x77 || r.Off != (r.At-1)*RelaSize {
				t.Errorf("%s: got %+v", c.name, r)
			}
		})
		if got := fmt.Sprint(all); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		if _, data := f.References(0x77); data != 2+len(all) { // and the two words of the table
			t.Errorf("%s: %d words of data", c.name, data)
		}
	}
}

// TestDynamicSymbols: what DT_SYMTAB has, as many as a hash table or the section header says.
func TestDynamicSymbols(t *testing.T) {
	const vaddr = 0x1000
	symbol := func(name uint32, typ byte, shndx uint16) []byte {
		return little(name, typ, byte(0), shndx, uint64(vaddr), uint64(1))
	}
	names := []byte("\x00time\x00a b~\x7f\x00")
	var table []byte
	for _, s := range [][]byte{symbol(0, STTNotype, 0), symbol(1, STTFunc, 1), symbol(1, STTFunc, 0), symbol(6, STTGNUIfunc, 1), symbol(1, 6, 1), symbol(1, STTObject, 1)} {
		table = append(table, s...)
	}
	const at, strings = 16, 16 + 6*SymSize
	content := append(append(little(uint32(1), uint32(6), uint32(0), uint32(0)), table...), names...)
	tables := []Dyn{{Tag: DTSymtab, Val: vaddr + at}, {Tag: DTStrtab, Val: vaddr + strings}}
	for _, c := range []struct {
		name     string
		dynamic  []Dyn
		sections []Section
		want     string
	}{
		{"by DT_HASH", append([]Dyn{{Tag: DTHash, Val: vaddr}}, tables...), nil, "[time a?b~? time]"},
		{"by a section", tables, []Section{{Type: SHTDynsym, Size: 2 * SymSize}}, "[time]"},
		{"by another section", tables, []Section{{Type: SHTSymtab, Size: 2 * SymSize}}, "[]"},
		{"without a number", tables, nil, "[]"},
		{"without names", append([]Dyn{{Tag: DTHash, Val: vaddr}}, tables[0]), nil, "[]"},
		{"without symbols", append([]Dyn{{Tag: DTHash, Val: vaddr}}, tables[1]), nil, "[]"},
		{"symbols outside", []Dyn{{Tag: DTHash, Val: vaddr}, {Tag: DTSymtab, Val: 1}, tables[1]}, nil, "[]"},
		{"names outside", []Dyn{{Tag: DTHash, Val: vaddr}, tables[0], {Tag: DTStrtab, Val: 1}}, nil, "[]"},
	} {
		f := inMemory(PFR, vaddr, content)
		f.Dynamic, f.Sections = c.dynamic, c.sections
		all := []string{}
		for _, tab := range f.Symtabs() {
			if tab.Dynamic {
				f.EachSymbol(tab, func(s Symbol) { all = append(all, f.SymbolName(tab, s)) })
			}
		}
		if got := fmt.Sprint(all); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestLoads: only what is loaded counts, to its last byte.
func TestLoads(t *testing.T) {
	f := inMemory(PFR|PFX, 0x1000, []byte("01234567ABCDEFGH"))
	f.Progs = append([]Prog{{Type: PTNote, Flags: PFX, Off: 8, Vaddr: 0x1000, Filesz: 8}}, f.Progs...)
	off, ok := f.Offset(0x1008, 8)
	if start, _ := f.Offset(0x1000, 1); start != 0 {
		t.Errorf("the first byte is at offset %d", start)
	}
	if _, beyond := f.Offset(0x1008, 9); off != 8 || !ok || beyond || f.CodeSize() != 16 {
		t.Errorf("got %d, %v, %v; %d bytes of code", off, ok, beyond, f.CodeSize())
	}
	word, ok := f.Word(0x1008)
	if _, beyond := f.Word(0x1009); word != 0x4847464544434241 || !ok || beyond {
		t.Errorf("got %#x, %v, %v", word, ok, beyond)
	}
	if got := string(f.Mem(0x100c, 100)); got != "EFGH" || f.Mem(0x1010, 1) != nil {
		t.Errorf("got %q", got)
	}
	for _, c := range []struct {
		with, without uint32
		want          int
	}{{0, 0, 1}, {PFX, 0, 1}, {PFW, 0, 0}, {0, PFX, 0}, {0, PFW, 1}} {
		n := 0
		f.EachChunk(c.with, c.without, func(*Prog, []byte, uint64, int, int) { n++ })
		if n != c.want {
			t.Errorf("with %d, without %d: %d", c.with, c.without, n)
		}
	}
}
