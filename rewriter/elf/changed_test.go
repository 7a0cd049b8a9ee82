package elf

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"vfix.dev/vfix/tests/recorded"
)

// A builder puts parts of a file one behind the other. It is run two times: the second time, at has the offset and the
// size of each part.
type builder struct {
	b  []byte
	at map[string][2]uint64
}

func (f *builder) part(name string, align int, values ...any) {
	f.b = append(f.b, make([]byte, -len(f.b)&(align-1))...)
	at := uint64(len(f.b))
	for _, v := range values {
		if s, ok := v.(string); ok {
			v = []byte(s)
		}
		f.b = append(f.b, little(v)...)
	}
	f.at[name] = [2]uint64{at, uint64(len(f.b)) - at}
}

func (f *builder) off(name string) uint64  { return f.at[name][0] }
func (f *builder) size(name string) uint64 { return f.at[name][1] }

func built(build func(*builder)) []byte {
	f := &builder{at: map[string][2]uint64{}}
	build(f)
	f.b = nil
	build(f)
	return f.b
}

// The distances of vaddrs from offsets in the two segments of a linked file.
const codeDistance, dataDistance = 0x10000, 0x30000

// linked is a file with all parts that this package reads. bare has no section headers, but the sections' tail; with
// plain, the table of landing pads and the hash table have their other forms.
func linked(typ uint16, bare, plain bool) []byte {
	return built(func(f *builder) {
		code := func(name string) uint64 { return f.off(name) + codeDistance }
		data := func(name string) uint64 { return f.off(name) + dataDistance }
		rel := func(to, from uint64) uint32 { return uint32(to - from) }
		progs, sections := uint16(8), uint16(16)
		if bare {
			sections = 0
		}
		f.part("head", 1, "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", typ, uint16(MachineX8664), uint32(1), code("text"), uint64(EhdrSize), f.off("sections"),
			uint32(0), uint16(EhdrSize), uint16(PhdrSize), progs, uint16(ShdrSize), sections, max(sections, 1)-1)
		seg := func(typ, flags uint32, from, to string, distance, more uint64) {
			off, n := f.off(from), f.off(to)+f.size(to)-f.off(from)
			f.part("", 1, typ, flags, off, off+distance, off+distance, n, n+more, uint64(PageSize))
		}
		seg(PTPhdr, PFR, "progs", "progs", codeDistance, 0)
		f.at["progs"] = [2]uint64{EhdrSize, uint64(progs) * PhdrSize}
		seg(PTInterp, PFR, "interp", "interp", codeDistance, 0)
		seg(PTNote, PFR, "note", "note", codeDistance, 0)
		unwind := uint32(PTGNUEhFrame)
		if plain {
			unwind = PTNull
		}
		seg(unwind, PFR, "hdr", "hdr", codeDistance, 0)
		last := "hdr" // of the code
		if plain {
			last = "lsda"
		}
		seg(PTLoad, PFR|PFX, "head", last, codeDistance, 0)
		seg(PTLoad, PFR|PFW, "strings", "relr", dataDistance, 0x40)
		seg(PTDynamic, PFR|PFW, "dynamic", "dynamic", dataDistance, 0)
		seg(PTNull, 0, "note", "note", codeDistance, 0)
		f.part("interp", 1, "/lib/ld.so\x00")
		f.part("note", 4, uint32(4), uint32(4), uint32(1), "GNU\x00\x00\x00\x00\x00", uint32(4), uint32(6), uint32(3), "GNU\x00\xab\x01\x02\x03\x04\x05\x00\x00")
		text := code("text")
		f.part("text", 16, "\x48\x8b\x05", rel(data("word"), text+7), "\xc3\x55\x83\x3d", rel(data("word"), text+16), "\x01\x5d\xc3", uint32(data("word")), "\x90\xc3",
			"\x81\x3d", rel(data("word"), text+34), "\x01\x00\x00\x00", "\x66\x81\x3d", rel(data("word"), text+43), "\x01\x00")
		f.part("cie", 8, uint32(28), uint32(0), "\x01zPLR\x00\x01\x78\x10\x07\x1b", uint32(0x100), "\x1b\x1b\x0c\x07\x08\x90\x01\x00\x00")
		f.part("fde", 1, uint32(28), uint32(f.off("fde")-f.off("cie")+4), rel(text, code("fde")+8), uint32(8), "\x04", rel(code("lsda"), code("fde")+17), "\x41\x0e\x10\x43\x0d\x06\x00")
		f.part("plain cie", 1, uint32(20), cieHead, PlainCFI, "\x00\x00")
		f.part("plain fde", 1, uint32(24), uint32(f.off("plain fde")-f.off("plain cie")+4), rel(text+8, code("plain fde")+8), uint32(10), "\x00\x41\x0e\x10\x0a\x02\x03\x0e\x08\x0b\x00", uint32(0))
		if !plain {
			f.part("lsda", 4, "\xff\xff\x01\x09\x01\x04\x06\x00\x05\x83\x00\x00\x80\x01\xff")
		}
		f.part("hdr", 4, "\x01\x1b\x03\x3b", rel(code("cie"), code("hdr")+4), uint32(3), rel(text, code("hdr")), rel(code("fde"), code("hdr")), rel(text+8, code("hdr")), rel(code("plain fde"), code("hdr")),
			rel(text+8, code("hdr")), rel(code("plain fde"), code("hdr")))
		if plain {
			f.part("lsda", 4, "\x00", text+1, "\x9b\x07\x03\x0d", uint32(1), uint32(4), uint32(6), "\x00")
		}
		f.part("strings", 8, "\x00libc.so.6\x00time@GLIBC\x00\x07x\x00")
		f.part("symbols", 8, make([]byte, SymSize), uint32(11), "\x12\x00", uint16(5), text+8, uint64(10), uint32(22), "\x10\x00", uint16(0), uint64(0), uint64(0),
			uint32(22), "\x1a\x00", uint16(5), text, uint64(8), uint32(1), "\x13\x00", uint16(1), text, uint64(8))
		if plain {
			f.part("hash", 8, uint32(2), uint32(1), uint32(1), uint32(6), uint64(0), uint32(1), uint32(3), uint32(2), uint32(3), uint32(4), uint32(7))
		} else {
			f.part("hash", 8, uint32(1), uint32(5), uint32(0))
		}
		f.part("rela", 8, data("word"), uint32(RRelative), uint32(0), text, data("word")+8, uint32(r64), uint32(1), uint64(2), data("init"), uint32(RRelative), uint32(0), text+8)
		f.part("jmprel", 8, data("word")+16, uint32(RJumpSlot), uint32(2), uint64(0), data("word")+24, uint32(RGlobDat), uint32(4), uint64(0))
		f.part("init", 8, text+16, text+17, uint64(1))
		f.part("word", 8, data("word"), text+8, "0123456789abcdef")
		hash := uint64(DTHash)
		if plain {
			hash = DTGNUHash
		}
		f.part("dynamic", 8, uint64(DTNeeded), uint64(1), uint64(DTSoname), uint64(1), uint64(DTStrtab), data("strings"), uint64(dtStrsz), f.size("strings"), uint64(DTSymtab), data("symbols"),
			hash, data("hash"), uint64(DTRela), data("rela"), uint64(DTRelasz), f.size("rela"), uint64(DTJmprel), data("jmprel"), uint64(DTPltrelsz), f.size("jmprel"),
			uint64(DTRelr), data("relr"), uint64(DTRelrsz), f.size("relr"), uint64(DTInit), text+8, uint64(DTInitArray), data("init"), uint64(DTInitArraysz), f.size("init"), uint64(13), text+6, uint64(26), data("init")+8, uint64(28), f.size("init")-8,
			uint64(DTFlags1), uint64(DF1PIE), uint64(DTNull), uint64(0), uint64(DTNull), uint64(0), uint64(DTDebug), uint64(0))
		f.part("relr", 8, data("word"), uint64(5))
		const names = "\x00.shstrtab\x00.text\x00.rela\x00.init\x00.fini\x00.eh_frame\x00.note.gnu.build-id\x00pydata\x00"
		f.part("payload", 1, "GCC: (GNU) 4\x00")
		f.part("locals", 8, make([]byte, SymSize), uint32(1), "\x00\x00", uint16(5), text+16, uint64(2), uint32(4), "\x04\x00", uint16(0xfff1), uint64(0), uint64(0))
		f.part("local strings", 1, "\x00f\x00a.c\x00")
		f.part("names", 1, names)
		f.part("sections", 8, "")
		section := func(name string, typ uint32, flags uint64, part, end string, distance uint64, link, info uint32, entsize uint64) {
			off, n := f.off(part), f.off(end)+f.size(end)-f.off(part)
			addr := uint64(0)
			if flags&SHFAlloc != 0 {
				addr = off + distance
			}
			f.part("", 1, uint32(strings.Index(names, name+"\x00")), typ, flags, addr, off, n, link, info, uint64(8), entsize)
		}
		f.part("", 1, make([]byte, ShdrSize))
		section(".note.gnu.build-id", SHTNote, SHFAlloc, "note", "note", codeDistance, 0, 0, 0)
		section(".text", SHTProgbits, SHFAlloc|SHFExecinstr, "text", "text", codeDistance, 0, 0, 0)
		section(".init", SHTProgbits, SHFAlloc|SHFExecinstr, "text", "text", codeDistance, 0, 0, 0)
		section(".fini", SHTProgbits, SHFAlloc|SHFExecinstr, "cie", "cie", codeDistance, 0, 0, 0)
		section(".eh_frame", SHTProgbits, SHFAlloc, "cie", "plain fde", codeDistance, 0, 0, 0)
		section("", SHTStrtab, SHFAlloc, "strings", "strings", dataDistance, 0, 0, 0)
		section("", SHTDynsym, SHFAlloc, "symbols", "symbols", dataDistance, 6, 1, SymSize)
		section(".rela", SHTRela, SHFAlloc, "rela", "rela", dataDistance, 7, 0, RelaSize)
		section("", 14, SHFAlloc|SHFWrite, "init", "init", dataDistance, 0, 0, 8)
		section("", 15, SHFAlloc|SHFWrite, "word", "word", dataDistance, 0, 0, 8)
		section("", SHTNobits, SHFAlloc|SHFWrite, "relr", "relr", dataDistance+16, 0, 0, 0)
		section("pydata", SHTProgbits, 0, "payload", "payload", 0, 0, 0, 0)
		section("", SHTSymtab, 0, "locals", "locals", 0, 14, 1, SymSize)
		section("", SHTStrtab, 0, "local strings", "local strings", 0, 0, 0, 0)
		section(".shstrtab", SHTStrtab, 0, "names", "names", 0, 0, 0, 0)
	})
}

// described has all that this package says of a file.
func described(b []byte) string {
	var all strings.Builder
	say := func(a ...any) { fmt.Fprintln(&all, a...) }
	if IsArchive(b) {
		f := &File{R: Memory(b), Size: uint64(len(b))}
		say(f.IsThin(), f.EachMember(f.IsThin(), func(m Member) error { say(m); return nil }))
		return all.String()
	}
	parse := Parse
	if IsObject(b) {
		parse = ParseObject
	}
	f, err := parse(Memory(b), int64(len(b)))
	skip, err := AsSkip(err)
	say(err, skip, skip.Damaged(), skip.MayCall())
	if f == nil {
		return all.String()
	}
	say(f.Type, f.Entry, f.PhOff, f.ShOff, f.ShNum, f.ShStrNdx, f.ShBeyond, f.Progs, f.Sections, f.Dynamic, f.DynSpare)
	if IsObject(b) && skip == nil {
		say(f.Link(), crc32.ChecksumIEEE(f.Bytes(0, f.Size)))
	}
	say(f.Overlay(), f.Payload(), f.BuildID(), f.Interp(), f.Soname(), f.DynStrings(DTNeeded), f.HasDynString("time@GLIBC"), f.HasDynString("x"))
	say(f.Static(), f.IsProgram(), f.IsInterpreter(), f.HasBSS(), f.TableLoad(), f.CodeSize(), f.CheckLoads(), f.Sound(), f.InOrder(), f.Entries())
	f.EachRela(func(r Rela) { say(r) })
	f.EachImport(func(at uint64, name string) { say(at, name) })
	f.EachPointer(func(at, to uint64) { say(at, to) })
	for _, t := range f.Symtabs() {
		say(t)
		f.EachSymbol(t, func(s Symbol) { say(s, f.SymbolName(t, s)) })
	}
	hdr, table := f.SearchTable()
	say(hdr, table)
	f.EachFDE(func(uint64) bool { return true }, func(fn Func) {
		pads, ok := f.LandingPads(fn)
		plain, cie := f.PlainFDE(fn.FDE + codeDistance)
		say(fn, pads, ok, plain, cie, f.InUnwindTable(fn.FDE+codeDistance))
		for at := fn.Start - 2; at <= fn.Start+12; at += 2 {
			cfa, ok := f.CFA(fn, at)
			say(cfa, ok, fn.Holds(at))
		}
	})
	for i := range f.Progs {
		p := &f.Progs[i]
		say(f.MapStart(p), f.HasBuildID(p))
		for _, at := range []uint64{p.Vaddr - 1, p.Vaddr, p.Vaddr + p.Filesz - 8, p.Vaddr + p.Filesz} {
			off, ok := f.Offset(at, 8)
			word, found := f.Word(at)
			say(f.ExecLoad(at), off, ok, word, found, f.Mappings(at), f.CodeAt(at) != nil, f.InUnwindTable(at))
		}
	}
	for _, text := range []string{"/lib/ld.so", "0123"} {
		for _, at := range f.FindText(text) {
			disps, data := f.References(at - 16)
			say(at, disps, data, f.InRelr(at-16), f.InRelr(at-8), f.InRelr(at), f.InRelr(at+8))
		}
	}
	return all.String()
}

// TestChanged: each byte of some files is changed, and each beginning of them is read.
func TestChanged(t *testing.T) {
	object := built(func(f *builder) {
		f.part("head", 1, "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", uint16(TypeRel), uint16(MachineX8664), uint32(1), uint64(0), uint64(0), f.off("sections"),
			uint32(0), uint16(EhdrSize), uint16(0), uint16(0), uint16(ShdrSize), uint16(11), uint16(6))
		f.part("text", 8, strings.Repeat("\x90", 56))
		f.part("data", 8, "01234567")
		f.part("symbols", 8, make([]byte, SymSize), uint32(1), "\x00\x00", uint16(1), uint64(3), uint64(2), uint32(0), "\x00\x00", uint16(shnAbs), uint64(5), uint64(0), uint32(0), "\x10\x00", uint16(0), uint64(0), uint64(0),
			uint32(1), "\x01\x00", uint16(3), uint64(2), uint64(1))
		f.part("rela", 8)
		for i, typ := range []uint32{r64, rPC32, rPLT32, rGOTPCRel, r32, r32S, rPC64, rGOTPCX, 99, rRexGOTPX} {
			f.part("", 1, uint64(5*i), typ, uint32(i%5), uint64(i))
		}
		f.at["rela"] = [2]uint64{f.off("rela"), 10 * RelaSize}
		f.part("empty", 8)
		f.part("rela of data", 8, uint64(0), uint32(r64), uint32(1), uint64(1))
		f.part("small", 8, "012")
		f.part("rela of small", 8, uint64(0), uint32(r32), uint32(1), uint64(1))
		f.part("names", 1, "\x00.shstrtab\x00f\x00")
		f.part("sections", 8, make([]byte, ShdrSize))
		for _, s := range []struct {
			name       string
			typ        uint32
			flags      uint64
			link, info uint32
		}{
			{"text", SHTProgbits, SHFAlloc | SHFExecinstr, 0, 0}, {"data", SHTProgbits, SHFAlloc | SHFWrite, 0, 0}, {"data", SHTNobits, SHFAlloc, 0, 0},
			{"symbols", SHTSymtab, 0, 6, 2}, {"rela", SHTRela, 0, 4, 1}, {"names", SHTStrtab, 0, 0, 0},
			{"small", SHTProgbits, SHFAlloc, 0, 0}, {"rela of small", SHTRela, 0, 4, 7}, {"empty", SHTProgbits, SHFAlloc, 0, 0}, {"rela of data", SHTRela, 0, 4, 2},
		} {
			f.part("", 1, uint32(1), s.typ, s.flags, uint64(9), f.off(s.name), f.size(s.name), s.link, s.info, uint64(8), uint64(0))
		}
	})
	empty := built(func(f *builder) {
		f.part("head", 1, "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", uint16(TypeRel), uint16(MachineX8664), uint32(1), make([]byte, 40))
	})
	small := built(func(f *builder) {
		f.part("head", 1, "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", uint16(TypeExec), uint16(MachineX8664), uint32(1), f.off("text")+codeDistance, uint64(EhdrSize), uint64(0),
			uint32(0), uint16(EhdrSize), uint16(PhdrSize), uint16(1), uint16(0), uint16(0), uint16(0))
		f.part("", 1, uint32(PTLoad), uint32(PFR|PFX), uint64(0), uint64(codeDistance), uint64(codeDistance), f.off("text")+f.size("text"), f.off("text")+f.size("text"), uint64(PageSize))
		f.part("text", 1, "\x31\xc0\xc3")
	})
	member := func(name string, content string) string {
		return fmt.Sprintf("%-16s%-32s%-10d`\n%s%s", name, "0", len(content), content, strings.Repeat("\n", len(content)&1))
	}
	long := strings.Repeat("n", maxMemberName+1)
	members := member("/", "0") + member("//", "a_long_name.o/\nother.o/\n"+long) + member("/0", "x") + member("/15", "yy") + member("/24", "") + member("b.o/", "") + member("#1/8", "bsd.o\x00\x00\x00z") + member("#1/10", "empty-10.o") + member("c.o/", "zz")
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"library", linked(TypeDyn, false, false)},
		{"program", linked(TypeExec, false, true)},
		{"without headers", linked(TypeDyn, true, true)},
		{"object", object},
		{"object without sections", empty},
		{"program of one segment", small},
		{"archive", []byte(archiveMagic + members)},
		{"thin archive", []byte(thinMagic + member("/", "0") + member("/SYM64/", "") + member("//", "a_long_name.o/\n") + "/0" + strings.Repeat(" ", 46) + "12345     `\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Logf("%d bytes\n%s", len(c.b), described(c.b))
			recorded.Changed(t, c.name, c.b, described)
		})
	}
}
