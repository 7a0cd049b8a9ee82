package patch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
)

// hostileBase is a library with everything that Scan reads: two sites, a dynamic segment, symbols, relocations, an
// .eh_frame_hdr and section headers.
func hostileBase(t testing.TB) testELF {
	const at = testTextOff
	return testELF{
		dyn: true, soname: "libpthread.so.0", text: asm(t, subRsp+movRaxTime+callRax+addRsp+"c3"+nops16+movRdxGtod+"4885c0 480f44c2 31d2 c3"),
		data:    asm(t, "000860ffffffffff"),
		symbols: []testSym{{"time", at, 18, elf.STTFunc, 1}, {"gettimeofday", at + 34, 30, elf.STTGNUIfunc, 2}},
		rela:    []testRela{{at: 0x201000, typ: elf.RRelative, addend: at}, {at: 0x201008, typ: elf.RIrelative, addend: at + 34}},
		fdes:    []uint64{at, at + 34},
	}
}

// poke is a change that makes one field of the base hostile.
type poke struct {
	name  string
	at    func(file []byte) int // offset of the field
	value any
	want  string // part of Skipped; "" if the file is still examined
	sites int
}

func fixed(off int) func([]byte) int { return func([]byte) int { return off } }

// progField finds a field of the first program header of a type.
func progField(typ uint32, field int) func([]byte) int {
	return func(file []byte) int {
		for off := elf.EhdrSize; ; off += elf.PhdrSize {
			if binary.LittleEndian.Uint32(file[off:]) == typ {
				return off + field
			}
		}
	}
}

// dynField finds the value of a dynamic entry.
func dynField(tag int64) func([]byte) int {
	return func(file []byte) int {
		off := int(binary.LittleEndian.Uint64(file[progField(elf.PTDynamic, 8)(file):]))
		for ; ; off += elf.DynSize {
			if int64(binary.LittleEndian.Uint64(file[off:])) == tag {
				return off + 8
			}
		}
	}
}

// sectionField finds a field of the first section of a type.
func sectionField(typ uint32, field int) func([]byte) int {
	return func(file []byte) int {
		off := int(binary.LittleEndian.Uint64(file[40:]))
		for ; ; off += elf.ShdrSize {
			if binary.LittleEndian.Uint32(file[off+4:]) == typ {
				return off + field
			}
		}
	}
}

func hdrField(field int) func([]byte) int {
	return func(file []byte) int {
		return int(binary.LittleEndian.Uint64(file[progField(elf.PTGNUEhFrame, 8)(file):])) + field
	}
}

var pokes = []poke{
	{"nothing", fixed(0), uint8(0x7f), "", 3},
	{"not ELF", fixed(0), uint8(0), "not an ELF file", 0},
	{"EI_CLASS 0", fixed(4), uint8(0), "", 3},
	{"EI_CLASS 1", fixed(4), uint8(1), "", 3},
	{"EI_CLASS 9", fixed(4), uint8(9), "", 3},
	{"EI_DATA 2", fixed(5), uint8(2), "", 3},
	{"EI_DATA 0", fixed(5), uint8(0), "", 3},
	{"EI_VERSION", fixed(6), uint8(0), "", 3},
	{"no e_ident but the magic", fixed(4), [12]uint8{}, "", 3},
	{"e_version", fixed(20), uint32(9), "", 3},
	{"e_flags", fixed(48), uint32(math.MaxUint32), "", 3},
	{"e_ehsize", fixed(52), uint16(0), "", 3},
	{"e_shentsize", fixed(58), uint16(1), "", 3},
	{"aarch64", fixed(18), uint16(183), "another machine", 0},
	{"a core file", fixed(16), uint16(4), "type 4", 0},
	{"e_phentsize", fixed(54), uint16(55), "e_phentsize", 0},
	{"no program headers", fixed(56), uint16(0), "no program headers", 0},
	{"too many program headers", fixed(56), uint16(math.MaxUint16), "program headers", 0},
	{"e_phoff behind the file", fixed(32), uint64(1 << 40), "beyond the file", 0},
	{"e_phoff overflows", fixed(32), uint64(math.MaxUint64 - 8), "beyond the file", 0},
	{"a segment behind the file", progField(elf.PTLoad, 8), uint64(1 << 40), "beyond the file", 0},
	{"a segment's offset overflows", progField(elf.PTLoad, 8), uint64(math.MaxUint64 - 15), "beyond the file", 0},
	{"a segment longer than the file", progField(elf.PTLoad, 32), uint64(math.MaxUint64), "beyond the file", 0},
	{"filesz over memsz", progField(elf.PTLoad, 40), uint64(1), "exceeds memsz", 0},
	{"memsz beyond the address space", progField(elf.PTLoad, 40), uint64(math.MaxUint64), "beyond the address space", 0},
	{"segments overlap in memory", progField(elf.PTLoad, 40), uint64(1 << 30), "", 3},
	{"dynamic segment behind the file", progField(elf.PTDynamic, 8), uint64(math.MaxUint64 - 1), "dynamic segment", 0},
	{"dynamic segment of no length", progField(elf.PTDynamic, 32), uint64(0), "", 3},
	{"DT_SYMTAB outside", dynField(elf.DTSymtab), uint64(math.MaxUint64 - 3), "", 3},
	{"DT_STRTAB outside", dynField(elf.DTStrtab), uint64(1 << 46), "", 3},
	{"DT_HASH outside", dynField(elf.DTHash), uint64(math.MaxUint64 - 3), "", 3},
	{"DT_RELASZ overflows", dynField(elf.DTRelasz), uint64(math.MaxUint64), "", 3},
	{"DT_RELA outside", dynField(elf.DTRela), uint64(math.MaxUint64 - 7), "", 3},
	{"DT_SONAME outside", dynField(elf.DTSoname), uint64(math.MaxUint64 - 7), "", 3},
	{"no interpreter's flags", dynField(elf.DTHash), uint64(0), "", 3},
	{"e_shoff overflows", fixed(40), uint64(math.MaxUint64 - 63), "", 3},
	{"e_shnum at its most", fixed(60), uint16(math.MaxUint16), "", 3},
	{"e_shstrndx outside", fixed(62), uint16(999), "", 3},
	{".symtab behind the file", sectionField(elf.SHTSymtab, 24), uint64(math.MaxUint64 - 7), "", 3},
	{".symtab of no end", sectionField(elf.SHTSymtab, 32), uint64(math.MaxUint64), "", 3},
	{".symtab without strings", sectionField(elf.SHTSymtab, 40), uint32(math.MaxUint32), "", 3},
	{".text elsewhere", sectionField(elf.SHTProgbits, 16), uint64(1 << 46), "", 3},
	{".text of no end", sectionField(elf.SHTProgbits, 32), uint64(math.MaxUint64), "", 3},
	{".eh_frame_hdr of another version", hdrField(0), uint8(2), "", 3},
	{".eh_frame_hdr with too many entries", hdrField(8), uint32(math.MaxUint32), "", 3},
	{".eh_frame_hdr outside", progField(elf.PTGNUEhFrame, 16), uint64(math.MaxUint64 - 3), "", 3},
}

// TestHostile changes one field of a good file at a time: nothing panics, an impossible header is named, and
// fields that loaders ignore do not matter here.
func TestHostile(t *testing.T) {
	base := hostileBase(t)
	good := base.build()
	for _, p := range pokes {
		t.Run(p.name, func(t *testing.T) {
			file := bytes.Clone(good)
			at := p.at(file)
			copy(file[at:], le(nil, p.value))
			r := scanFile(t, file)
			if !strings.Contains(r.Skipped.String(), p.want) || (p.want == "") != (r.Skipped == nil) || len(r.Sites) != p.sites {
				t.Errorf("skipped %q, %d sites; want %q, %d", r.Skipped, len(r.Sites), p.want, p.sites)
			}
			if r.Skipped.Damaged() != strings.HasPrefix(r.Skipped.String(), "damaged ELF") {
				t.Errorf("damaged %v, skipped %q", r.Skipped.Damaged(), r.Skipped)
			}
		})
	}
}

// stacked has its second segment at its first one.
func stacked(base testELF) []byte {
	file := base.build()
	second := progField(elf.PTLoad, 0)(file) + elf.PhdrSize
	copy(file[second+16:], le(nil, uint64(0)))
	return file
}

// An address may be in either of two segments: a site is at its bytes.
func TestStacked(t *testing.T) {
	file := stacked(hostileBase(t))
	r := scanFile(t, file)
	if len(r.Sites) != 3 {
		t.Errorf("got %d sites, want 3", len(r.Sites))
	}
	for _, s := range r.Sites {
		if !bytes.Contains(file[s.Offset:s.Offset+uint64(s.Len)], []byte{0x60, 0xff}) || s.Verdict != Unknown {
			t.Errorf("%s at vaddr %#x: %s, and no reference at offset %#x", s.Kind, s.Vaddr, s.Verdict, s.Offset)
		}
	}
}

// TestTruncated truncates the file at every length.
func TestTruncated(t *testing.T) {
	base := hostileBase(t)
	good := base.build()
	for n := 0; n < len(good); n += 1 + n/64 {
		r := scanFile(t, good[:n])
		if n < testTextOff && r.Skipped == nil {
			t.Errorf("%d bytes: examined", n)
		}
	}
}

// TestManySegments: a file whose segments all cover all of it costs no more than a share.
func TestManySegments(t *testing.T) {
	e := testELF{text: []byte{0xc3}}
	file := e.build()
	const n = 40
	progs := []byte{}
	for i := range uint64(n) {
		progs = le(progs, uint32(elf.PTLoad), uint32(elf.PFR|elf.PFX), uint64(0), i<<30, i<<30, uint64(len(file)), uint64(len(file)), uint64(testPage))
	}
	copy(file[elf.EhdrSize:], progs)
	binary.LittleEndian.PutUint16(file[56:], n)
	if r := scanFile(t, file); !r.Skipped.Damaged() || !strings.Contains(r.Skipped.String(), "cover the file") {
		t.Errorf("got %q", r.Skipped)
	}
	if r, err := ScanWithin(bytes.NewReader(file), int64(len(file)), 1); err != nil || !r.Skipped.Damaged() {
		t.Errorf("with a limit: got %+v, %v", r, err)
	}
}

// counted counts the bytes that are read.
type counted struct {
	io.ReaderAt
	bytes *int
}

func (c counted) ReadAt(b []byte, off int64) (int, error) {
	*c.bytes += len(b)
	return c.ReaderAt.ReadAt(b, off)
}

// TestManyCalls: a file is not read once for each address that seems to be called, in or before a site.
func TestManyCalls(t *testing.T) {
	const most = 40 // times the file is read
	call := func(text []byte, to int) []byte { return le(append(text, 0xe8), uint32(to-len(text)-5)) }
	read := map[string]int{}
	for name, in := range map[string]int{"before sites": 0, "in sites": 3} {
		for _, n := range []int{20, 400} {
			// The symbols name a function at the start of the text; the sites are in nameless ones, behind
			// calls of each that are data.
			text := asm(t, "c3")
			first := 16 + 5*n
			for i := range n {
				text = call(text, first+10*i+in)
			}
			text = append(text, make([]byte, first-len(text))...)
			for range n {
				text = append(text, asm(t, movRaxTime+callRax+"c3")...)
			}
			e := testELF{text: text, symbols: []testSym{{"f", testBase + testTextOff, 1, elf.STTFunc, 0}}}
			for range 4 * n {
				e.symbols = append(e.symbols, testSym{"g", testBase + testTextOff, 1, elf.STTFunc, 0})
			}
			if in > 0 {
				e.symbols = append(e.symbols, testSym{"h", testBase + testTextOff + uint64(first), uint64(10 * n), elf.STTFunc, 0})
			}
			file := e.build()
			bytesRead := 0
			if _, err := Scan(counted{bytes.NewReader(file), &bytesRead}, int64(len(file))); err != nil {
				t.Fatal(err)
			}
			read[name] = bytesRead / len(file)
			t.Logf("%s, %d: %d times", name, n, read[name])
		}
		if read[name] > most {
			t.Errorf("%s: the file is read %d times", name, read[name])
		}
	}
}

// TestManySites: an endless number of references, or of constants that may be half of one, is damage, and is not kept in
// memory.
func TestManySites(t *testing.T) {
	site, half, word := asm(t, movRaxTime+callRax+"c3"), asm(t, "b8000060ff"), asm(t, "000060ff")
	for _, c := range []struct {
		name         string
		unit         []byte
		data, sites  bool
		most, beyond int
	}{
		{"references", site, false, true, maxSites - 1, maxSites + 100},
		{"instructions", half, false, false, maxCandidates - 1, maxCandidates},
		{"words", word, true, false, maxCandidates - 1, maxCandidates},
	} {
		for _, n := range []int{c.most, c.beyond} {
			e := testELF{text: bytes.Repeat(c.unit, n)}
			if c.data {
				e = testELF{text: asm(t, nops16), data: e.text}
			}
			damaged := n == c.beyond
			if r := scanLong(t, e.build()); r.Skipped.Damaged() != damaged || (len(r.Sites) > 0) != (c.sites && !damaged) {
				t.Errorf("%d %s: skipped %q, %d sites", n, c.name, r.Skipped, len(r.Sites))
			}
		}
	}
}

// TestMuchCode: the verdict on a value that is followed through endless code is unknown.
func TestMuchCode(t *testing.T) {
	text := asm(t, "4155"+movR13Time)
	text = append(text, bytes.Repeat([]byte{0x90}, 2*maxFlow)...)
	e := testELF{text: append(text, asm(t, "41ffd5 415d c3")...)}
	if r := scanFile(t, e.build()); len(r.Sites) != 1 || r.Sites[0].Verdict != Unknown || !strings.Contains(r.Sites[0].Reason, "too much code") {
		t.Errorf("got %+v", r.Sites)
	}
	// A half that is a number takes nothing from one that is called, in the largest function.
	text = append(append(asm(t, "b8000060ff 89c7"), bytes.Repeat(asm(t, "8d4701"), 60000)...), asm(t, "4883ec08 31f6 b8000060ff 4898 ffd0 4883c408 c3")...)
	e = testELF{text: text, symbols: []testSym{{"f", testBase + testTextOff, uint64(len(text)), elf.STTFunc, 0}}}
	if r := scanLong(t, e.build()); len(r.Sites) != 1 || r.Sites[0].Verdict != Unknown {
		t.Errorf("large: got %+v", r.Sites)
	}
}

// TestExhausted: if the work on a file reaches its limit, no earlier result counts; up to there all do.
func TestExhausted(t *testing.T) {
	for _, c := range []struct {
		n    int
		want Verdict
	}{{52, Live}, {53, Unknown}} {
		const each, long = 12, maxFlow - 100
		text := asm(t, movRaxTime+callRax+"c3 9090")
		symbols := []testSym{}
		for i := range c.n { // each goes to the same long code
			symbols = append(symbols, testSym{"f", testBase + testTextOff + uint64(len(text)), each, elf.STTFunc, 0})
			text = append(text, asm(t, movR13Time)...)
			text = le(append(text, 0xe9), uint32((c.n-i-1)*each))
		}
		text = append(text, bytes.Repeat([]byte{0x90}, long)...)
		e := testELF{text: append(text, asm(t, "41ffd5 4d31ed c3")...), symbols: symbols}
		r := scanLong(t, e.build())
		if len(r.Sites) != c.n+1 {
			t.Fatalf("got %d sites", len(r.Sites))
		}
		for _, s := range r.Sites {
			if s.Verdict != c.want || (s.Calls == 0) == (c.want == Live) {
				t.Fatalf("%d sites: got %+v, want %v", c.n, s, c.want)
			}
		}
	}
}

// failing is a reader with one failing read, which returns EOF or an error, and perhaps all that follow it.
type failing struct {
	*bytes.Reader
	left *int
	once bool
	err  error
}

func (f failing) ReadAt(b []byte, off int64) (int, error) {
	*f.left--
	if *f.left == -1 || *f.left < 0 && !f.once {
		return 0, f.err
	}
	return f.Reader.ReadAt(b, off)
}

// TestReadErrors: Scan and ScanWithin return an error for each failing read.
func TestReadErrors(t *testing.T) {
	base := hostileBase(t)
	good := base.build()
	broken := errors.New("the disk is on fire")
	within := func(r io.ReaderAt, size int64) (*Report, error) { return ScanWithin(r, size, 1<<20) }
	for i, f := range []failing{{err: broken}, {err: broken, once: true}, {err: io.EOF}, {err: io.EOF, once: true}, {err: broken}} {
		scan := Scan
		if i == 0 {
			scan = within
		}
		for n := 0; ; n++ {
			if n > 1000 {
				t.Fatal("Scan reads without end")
			}
			left := n
			f.Reader, f.left = bytes.NewReader(good), &left
			r, err := scan(f, int64(len(good)))
			if left >= 0 {
				if err != nil || len(r.Sites) != 3 {
					t.Errorf("%d reads: %v, %+v", n, err, r)
				}
				break
			}
			if err == nil {
				t.Errorf("read %d failed and Scan did not: %+v", n, r)
			}
			if f.err == broken && !errors.Is(err, broken) {
				t.Errorf("read %d: got %v", n, err)
			}
		}
	}
}

// scanSeeds are files with all that Scan reads, and damaged ones.
func scanSeeds(f *testing.F) {
	base := hostileBase(f)
	good := base.build()
	f.Add(good)
	for _, p := range pokes {
		file := bytes.Clone(good)
		copy(file[p.at(file):], le(nil, p.value))
		f.Add(file)
	}
	static := testELF{text: asm(f, movR13Time+"41ffd5 68000460ff c3"), symbols: []testSym{{"f", testBase + testTextOff, 30, elf.STTFunc, 1}}}
	f.Add(static.build())
	static.data = asm(f, "000860ffffffffff")
	tangled := static.build() // the first segment of the file is the last in memory
	copy(tangled[progField(elf.PTLoad, 16)(tangled):], le(nil, uint64(0x1000000000)))
	f.Add(tangled)
	f.Add(stacked(base))
	object := testObject{text: asm(f, movRaxTime+callRax+"e900000000"), rela: []testRela{{10, relaPC32, Time.Vaddr() - 4}}}.build()
	f.Add(object)
	f.Add(archive("/", "\x00", "//", "x.o/\n", "/0", string(object), "#1/4", "b.o\x00"+string(object)))
	f.Add([]byte(arThin))
}

// FuzzScan: no input makes Scan panic, or report bytes that the file does not have.
func FuzzScan(f *testing.F) {
	scanSeeds(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		r := scanFile(t, file)
		for i, s := range r.Sites {
			end := s.Offset + uint64(s.Len)
			if end > uint64(len(file)) {
				t.Fatalf("site %+v outside of the file (%d bytes)", s, len(file))
			}
			if i > 0 && (!r.Object && r.Sites[i-1].Vaddr >= s.Vaddr || r.Object && r.Sites[i-1].Offset >= s.Offset) {
				t.Fatalf("sites out of order: %+v", r.Sites)
			}
			if s.Kind != CallRel32 && !r.Object && !bytes.Contains(file[s.Offset:end], []byte{0x60, 0xff}) {
				t.Fatalf("no reference in % x", file[s.Offset:end])
			}
			if s.Reason == "" || s.Verdict.Patchable() && s.Calls == 0 && s.Verdict == Live {
				t.Fatalf("a verdict without evidence: %+v", s)
			}
			if s.Stub.Len != 0 && (s.Calls != 1 || s.Verdict != Live) {
				t.Fatalf("not a stub: %+v", s)
			}
		}
	})
}

// namelessChecked returns Nameless of a file, through buffers of several sizes. If it is true, Scan must find
// nothing.
func namelessChecked(t *testing.T, file []byte) bool {
	t.Helper()
	if !namelessEverywhere(t, file, elf.EhdrSize, elf.EhdrSize+1, 4096, len(file)+elf.EhdrSize) {
		return false
	}
	if r, err := ScanWithin(bytes.NewReader(file), int64(len(file)), 1<<30); err != nil || len(r.Sites) > 0 {
		t.Fatalf("called nameless: got %+v, %v", r, err)
	}
	return true
}

// namelessEverywhere is what Nameless says, with buffers of several sizes.
func namelessEverywhere(t *testing.T, file []byte, sizes ...int) bool {
	t.Helper()
	var all []bool
	for _, size := range sizes {
		nameless, err := Nameless(bytes.NewReader(file), int64(len(file)), make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, nameless); nameless != all[0] {
			t.Fatalf("buffers of several sizes: got %v", all)
		}
	}
	return all[0]
}

// FuzzNameless: a file for which Nameless returns true has no site for Scan.
func FuzzNameless(f *testing.F) {
	scanSeeds(f)
	plain := hostileBase(f)
	plain.text, plain.data = asm(f, nops16+"c3"), nil
	plain.symbols, plain.rela, plain.fdes = nil, nil, nil
	f.Add(plain.build())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) { namelessChecked(t, file) })
}

// Nameless finds each of the addresses at any place, also across two buffers, and returns false for programs at
// fixed addresses.
func TestNameless(t *testing.T) {
	base := hostileBase(t)
	base.text, base.data, base.symbols, base.rela, base.fdes = asm(t, nops16+"c3"), nil, nil, nil, nil
	clean := base.build()
	if !namelessChecked(t, clean) {
		t.Errorf("not nameless: a file without the addresses")
	}
	for _, f := range Functions {
		for at := elf.EhdrSize; at+4 <= len(clean); at++ {
			named := bytes.Clone(clean)
			binary.LittleEndian.PutUint32(named[at:], uint32(f.Vaddr()))
			if namelessChecked(t, named) {
				t.Fatalf("nameless: %v at offset %d", f, at)
			}
		}
	}
	for _, code := range []string{
		"b801000000 48c1e00a 482d0000a000 31ff ffd0 c3", // mov $1,%eax; shl $10,%rax; sub $0xa00000,%rax; call
		"b801000000 4881e800fc9f00 31ff ffd0 c3",
		"b800fc9f00 48f7d8 31ff ffd0 c3", // mov $0x9ffc00,%eax; neg
		"48c7c1fffb9f00 48f7d1 31ff ffd1 c3",
	} {
		base.text = asm(t, code)
		if r, err := ScanWithin(bytes.NewReader(base.build()), int64(len(base.build())), 1<<30); err != nil || len(r.Sites) == 0 || namelessChecked(t, base.build()) {
			t.Errorf("nameless, or without a site: %s: %+v, %v", code, r, err)
		}
	}
	base.dyn, base.text = false, asm(t, "c3")
	if namelessChecked(t, base.build()) {
		t.Error("nameless: a program at fixed addresses")
	}
	for _, n := range []int{10, 100} {
		if _, err := Nameless(bytes.NewReader(clean[:n]), int64(len(clean)), make([]byte, 64)); err == nil {
			t.Errorf("a file that has become %d bytes short: got no error", n)
		}
	}
}

// TestNamed: which bytes may be an address of the page, or an instruction with a part of one.
func TestNamed(t *testing.T) {
	for text, want := range map[string]bool{
		"000060ff": true, "000460ff": true, "000860ff": true, "010060ff": false, "000160ff": false, "000061ff": false,
		"2d 0000a000": true, "2d 00fc9f00": true, "2d 0100a000": false, "2d 00009f00": false, "2c 0000a000": false, "0000a000": false,
		"35 ffff9f00": true, "35 fffb9f00": true, "34 ffff9f00": false, "b8 0000a000": true, "bf 0000a000": true, "b7 0000a000": false, "c0 0000a000": false,
		"c7c0 0000a000": true, "c7c7 0000a000": true, "c7c8 0000a000": false, "c6c0 0000a000": false,
		"81e8 0000a000": true, "81f0 0000a000": true, "81e0 0000a000": false, "81f8 0000a000": false, "80e8 0000a000": false,
		"816d08 0000a000": true, "816c2408 0000a000": true, "816c240808 0000a000": false, "81ad00010001 0000a000": true,
		"81ac2400010001 0000a000": true, "81ac240001000101 0000a000": false,
	} {
		b := asm(t, text)
		if got, err := Named(bytes.NewReader(b), int64(len(b)), make([]byte, 64)); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

// TestManyTables: a file full of addresses of possible tables of offsets is given up in time.
func TestManyTables(t *testing.T) {
	const table = 1 << 14
	// All of one table, anywhere in the file.
	text := append(asm(t, timeStubText), make([]byte, table)...)
	named := testELF{symbols: []testSym{{"f", testBase + testTextOff, 18, elf.STTFunc, 0}}}
	for range 1 << 17 {
		text = rel32(text, 18, opLea...)
	}
	named.text = text
	// Tables and labels of one function, which jumps through one of them.
	text = asm(t, movR13Time)
	jumps := testELF{}
	const each = 500
	for n := range each {
		text = rel32(text, 7*n, opLea...)
	}
	end := len(text) + 7*each + 2
	for n := range each {
		text = rel32(text, end+4*n, opLea...)
	}
	text = append(append(text, asm(t, "ffe0")...), make([]byte, table)...)
	jumps.text, jumps.symbols = text, []testSym{{"f", testBase + testTextOff, uint64(end), elf.STTFunc, 0}}
	for name, e := range map[string]testELF{"named": named, "jumps": jumps} {
		begun := time.Now()
		r, err := Scan(elf.Memory(e.build()), int64(len(e.build())))
		if err != nil || len(r.Sites) != 1 || !strings.Contains(r.Sites[0].Reason, "too much code") {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
		t.Logf("%s: %v", name, time.Since(begun))
	}
}

// TestManyHalves: no constant that may be half an address hides calls behind it, neither by many others with long code
// behind them nor by one with many tables.
func TestManyHalves(t *testing.T) {
	const each = 1 << 14 // as many instructions follow each of them
	var long []byte
	for k := maxSteps / each; k >= 0; k-- { // test %edi,%edi; je to the next one; mov $half,%eax; jmp to the nops
		long = le(append(long, asm(t, "85ff 740a b8000060ff e9")...), uint32(k*14))
	}
	long = append(long, asm(t, strings.Repeat("90", each)+"c3")...)
	// As GHC's library has one: labels, and zeros behind the function, which are offsets to each of them.
	const labels, zeros = 400, 1 << 14
	tables := asm(t, "b8000060ff 85c0")
	end := len(tables) + 2*7*labels + 2
	for n := range labels {
		tables = rel32(rel32(tables, 7*n, opLea...), end+8*n, opLea...)
	}
	tables = append(tables, asm(t, "ffe7")...)
	for name, a := range map[string][]byte{"long": long, "tables": tables} {
		f := uint64(len(a) + zeros)
		text := append(append(a, make([]byte, zeros)...), asm(t, "4883ec08 b8000460ff 4898 ffd0 31f6 b8000060ff 4898 ffd0 4883c408 c3")...)
		e := testELF{text: text, symbols: []testSym{
			{"a", testBase + testTextOff, f - zeros, elf.STTFunc, 0}, {"f", testBase + testTextOff + f, uint64(len(text)) - f, elf.STTFunc, 0}}}
		begun := time.Now()
		var called []Function
		for _, s := range scanLong(t, e.build()).Sites {
			if s.Symbol == "f" && s.Verdict == Live {
				called = append(called, s.Function)
			}
		}
		if !slices.Equal(called, []Function{Time, Gettimeofday}) {
			t.Errorf("%s: called are %v", name, called)
		}
		t.Logf("%s: %v", name, time.Since(begun))
	}
}
