package patch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
)

// hostileBase is a library with all parts that Scan reads: three sites, a dynamic segment, symbols, relocations, an
// .eh_frame_hdr and section headers.
func hostileBase(t testing.TB) testELF {
	const at = testTextOff
	return testELF{
		dyn: true, soname: "libpthread.so.0", text: append(pad(asm(t, timeStubText), 32), asm(t, storeText)...),
		data:    asm(t, "000860ffffffffff"),
		symbols: []testSym{{"time", at, 18, elf.STTFunc, 1}, {"gettimeofday", at + 32, 30, elf.STTGNUIfunc, 2}},
		rela:    []testRela{{at: 0x201000, typ: elf.RRelative, addend: at}, {at: 0x201008, typ: elf.RIrelative, addend: at + 32}},
		fdes:    []uint64{at, at + 32},
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
	{"no e_ident except the magic", fixed(4), [12]uint8{}, "", 3},
	{"EI_CLASS 1", fixed(4), uint8(1), "", 3},
	{"e_version", fixed(20), uint32(9), "", 3},
	{"aarch64", fixed(18), uint16(183), "another machine", 0},
	{"a core file", fixed(16), uint16(4), "type 4", 0},
	{"e_phentsize", fixed(54), uint16(55), "e_phentsize", 0},
	{"no program headers", fixed(56), uint16(0), "no program headers", 0},
	{"too many program headers", fixed(56), uint16(math.MaxUint16), "program headers", 0},
	{"e_phoff behind the file", fixed(32), uint64(1 << 40), "beyond the file", 0},
	{"e_phoff overflows", fixed(32), uint64(math.MaxUint64 - 8), "beyond the file", 0},
	{"a segment behind the file", progField(elf.PTLoad, 8), uint64(1 << 40), "beyond the file", 0},
	{"a segment's offset overflows", progField(elf.PTLoad, 8), uint64(math.MaxUint64 - 15), "beyond the file", 0},
	{"filesz over memsz", progField(elf.PTLoad, 40), uint64(1), "exceeds memsz", 0},
	{"memsz beyond the address space", progField(elf.PTLoad, 40), uint64(math.MaxUint64), "beyond the address space", 0},
	{"segments overlap in memory", progField(elf.PTLoad, 40), uint64(1 << 30), "overlaps", 0},
	{"dynamic segment behind the file", progField(elf.PTDynamic, 8), uint64(math.MaxUint64 - 1), "dynamic segment", 0},
	{"dynamic segment of no length", progField(elf.PTDynamic, 32), uint64(0), "", 3},
	{"DT_SYMTAB outside", dynField(elf.DTSymtab), uint64(math.MaxUint64 - 3), "", 3},
	{"DT_STRTAB outside", dynField(elf.DTStrtab), uint64(1 << 46), "", 3},
	{"DT_HASH outside", dynField(elf.DTHash), uint64(math.MaxUint64 - 3), "", 3},
	{"DT_RELASZ overflows", dynField(elf.DTRelasz), uint64(math.MaxUint64), "", 3},
	{"DT_RELA outside", dynField(elf.DTRela), uint64(math.MaxUint64 - 7), "", 3},
	{"DT_SONAME outside", dynField(elf.DTSoname), uint64(math.MaxUint64 - 7), "", 3},
	{"e_shoff overflows", fixed(40), uint64(math.MaxUint64 - 63), "", 3},
	{"e_shnum at its most", fixed(60), uint16(math.MaxUint16), "", 3},
	{"e_shstrndx outside", fixed(62), uint16(999), "", 3},
	{".symtab behind the file", sectionField(elf.SHTSymtab, 24), uint64(math.MaxUint64 - 7), "", 3},
	{".symtab of no end", sectionField(elf.SHTSymtab, 32), uint64(math.MaxUint64), "", 3},
	{".symtab without strings", sectionField(elf.SHTSymtab, 40), uint32(math.MaxUint32), "", 3},
	{".text elsewhere", sectionField(elf.SHTProgbits, 16), uint64(1 << 46), "", 2},
	{".text of no end", sectionField(elf.SHTProgbits, 32), uint64(math.MaxUint64), "", 3},
	{".eh_frame_hdr of another version", hdrField(0), uint8(2), "", 3},
	{".eh_frame_hdr with too many entries", hdrField(8), uint32(math.MaxUint32), "", 3},
	{".eh_frame_hdr outside", progField(elf.PTGNUEhFrame, 16), uint64(math.MaxUint64 - 3), "", 3},
}

// TestHostile changes one field of a good file at a time: nothing panics, an impossible header is named, and fields
// that loaders ignore do not matter.
func TestHostile(t *testing.T) {
	base := hostileBase(t)
	good := base.build()
	for _, p := range pokes {
		t.Run(p.name, func(t *testing.T) {
			file := bytes.Clone(good)
			copy(file[p.at(file):], le(nil, p.value))
			r := scanFile(t, file)
			if !strings.Contains(r.Skipped.String(), p.want) || (p.want == "") != (r.Skipped == nil) || len(r.Sites) != p.sites {
				t.Errorf("skipped %q, %d sites; want %q, %d", r.Skipped, len(r.Sites), p.want, p.sites)
			}
			if r.Skipped.Damaged() != strings.HasPrefix(r.Skipped.String(), "damaged ELF") {
				t.Errorf("damaged %v, skipped %q", r.Skipped.Damaged(), r.Skipped)
			}
			checkHostile(t, file, r)
		})
	}
}

// checkHostile plans, applies and verifies a file that may be damaged, if it is examined.
func checkHostile(t *testing.T, file []byte, r *find.Report) {
	t.Helper()
	if r.Skipped != nil {
		return
	}
	out := applyPlan(t, planFile(t, file, Options{}), file)
	if err := verify(file, out, Options{}); err != nil {
		t.Errorf("verify: %v", err)
	}
}

// TestTruncated truncates the file at many lengths.
func TestTruncated(t *testing.T) {
	base := hostileBase(t)
	good := base.build()
	for n := 0; n < len(good); n += 1 + n/64 {
		if r := scanFile(t, good[:n]); n < testTextOff && r.Skipped == nil {
			t.Errorf("%d bytes: examined", n)
		}
	}
}

// TestManySegments: a file whose segments all cover all of it is not read so often.
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
}

// TestLimits: too many references are damage, too much code to follow is unknown, and a caller may set a limit.
func TestLimits(t *testing.T) {
	const most = 4096 // references in a file
	site := asm(t, movRaxTime+callRax+"c3")
	for n, damaged := range map[int]bool{most - 1: false, most: true} {
		e := testELF{text: bytes.Repeat(site, n)}
		if r := scanFile(t, e.build()); r.Skipped.Damaged() != damaged {
			t.Errorf("%d references: skipped %q", n, r.Skipped)
		}
	}
	for n, want := range map[int]find.Verdict{4000: find.Live, 4200: find.Unknown} {
		text := append(asm(t, "53 48c7c3000460ff"), bytes.Repeat([]byte{0xf8}, n)...)
		e := testELF{text: append(text, asm(t, "ffd3 5b c3")...)}
		if r := scanFile(t, e.build()); len(r.Sites) != 1 || r.Sites[0].Verdict != want || want == find.Unknown && r.Sites[0].Reason.Cause != find.TooFar {
			t.Errorf("%d instructions: got %+v", n, r.Sites)
		}
	}
}

// TestBoundary: a reference counts only where decoding from the last known start leads to it.
func TestBoundary(t *testing.T) {
	const at = testBase + testTextOff
	f := []testSym{{"f", at, 64, elf.STTFunc, 0}}
	for _, c := range []struct {
		name string
		e    testELF
		text string
		want find.Cause
	}{
		{"from a symbol", testELF{symbols: f}, "90" + pushed, find.Called},
		{"from the section", testELF{entry: testBase}, "90" + pushed, find.Called},
		{"from the entry, without sections", testELF{bare: true}, "90" + pushed, find.Called},
		{"no start, without sections", testELF{bare: true, entry: testBase + 8}, "06 90" + pushed, find.MaybeData},
		{"a part of another instruction", testELF{symbols: f}, "48b8" + movRaxTime + "00 90 ffd0 c3", find.MaybeData},
		{"behind bytes that are not code", testELF{symbols: f}, "eb01 06" + pushed, find.MaybeData},
		{"a later start", testELF{symbols: append(f, testSym{"g", at + 3, 12, elf.STTFunc, 0})}, "eb01 06" + pushed, find.Called},
		{"an object in code", testELF{symbols: append(f, testSym{"g", at + 3, 12, elf.STTObject, 0})}, "eb01 06" + pushed, find.MaybeData},
	} {
		c.e.text = asm(t, c.text)
		r := scanFile(t, c.e.build())
		if len(r.Sites) != 1 || r.Sites[0].Reason.Cause != c.want {
			t.Errorf("%s: got %+v", c.name, r.Sites)
		}
	}
}

// TestStub: a function is a stub only if it begins at a known start, and nothing begins in it.
func TestStub(t *testing.T) {
	const at = testBase + testTextOff
	for _, c := range []struct {
		name    string
		symbols []testSym
		text    string
		stub    uint64
	}{
		{"a whole function", nil, timeStubText, 18},
		{"without a frame", nil, movRaxTime + "ffd0 c3", 10},
		{"a jump", nil, movRaxTime + "ffe0", 9},
		{"add without sub", nil, "0f1f4000" + movRaxTime + callRax + "4883c408 c3", 0},
		{"an entry at its second byte", []testSym{{"g", at + 1, 17, elf.STTFunc, 0}}, timeStubText, 0},
		{"an entry at its last byte", []testSym{{"g", at + 17, 1, elf.STTFunc, 0}}, timeStubText, 0},
		{"an entry behind it", []testSym{{"g", at + 18, 1, elf.STTFunc, 0}}, timeStubText, 18},
		{"a second entry", []testSym{{"g", at + 4, 14, elf.STTFunc, 0}}, timeStubText, 0},
		{"code before it", nil, "90" + timeStubText, 0},
		{"another frame", nil, "4883ec18" + movRaxTime + callRax + "4883c418 c3", 0},
		{"code behind the call", nil, "4883ec08" + movRaxTime + callRax + "90 4883c408 c3", 0},
		{"another register", nil, "4883ec08" + movRdxTime + "ffd2 4883c408 c3", 0},
	} {
		e := testELF{text: asm(t, c.text), symbols: c.symbols}
		r := scanFile(t, e.build())
		if s := r.Sites[0]; s.Verdict != find.Live || s.Stub.Len != c.stub || c.stub != 0 && s.Stub.Vaddr != at {
			t.Errorf("%s: got %+v", c.name, s)
		}
	}
}

// TestKinds: the encodings of references, and words of data.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		text, data string
		kind       find.Kind
		function   find.Function
		size       uint8
	}{
		{"48c7c3000060ff ffd3 c3", "", find.MovImm32, find.Gettimeofday, 7},
		{"49c7c7000860ff 41ffd7 c3", "", find.MovImm32, find.Getcpu, 7},
		{"49bf000460ffffffffff 41ffd7 c3", "", find.MovImm64, find.Time, 10},
		{"68000460ff c3", "", find.PushImm32, find.Time, 5},
		{"4881ff000460ff c3", "", find.CmpImm32, find.Time, 7},
		{"483d000460ff c3", "", find.CmpImm32, find.Time, 6},
		{"48c703000460ff c3", "", find.StoreImm32, find.Time, 7},
		{"48c704c7000460ff c3", "", find.StoreImm32, find.Time, 8},
		{"64 48c70425f8ffffff000460ff c3", "", find.StoreImm32, find.Time, 13},
		{"65 48c70425f8ffffff000460ff c3", "", find.StoreImm32, find.Time, 13},
		{"c3", "000460ffffffffff", find.DataWord, find.Time, 8},
	} {
		e := testELF{text: asm(t, c.text), data: asm(t, c.data)}
		r := scanFile(t, e.build())
		if len(r.Sites) != 1 || r.Sites[0].Kind != c.kind || r.Sites[0].Function != c.function || r.Sites[0].Len != c.size {
			t.Errorf("%s %s: got %+v", c.text, c.data, r.Sites)
		}
		if s := r.Sites[0]; c.data == "" && (s.Vaddr != e.textVaddr() || s.Offset != testTextOff) {
			t.Errorf("%s: at vaddr %#x, offset %#x", c.text, s.Vaddr, s.Offset)
		}
	}
	for _, text := range []string{"48c7c3010460ff", "48c7c3000160ff", "48c7c3000461ff", "4881c7000460ff", "b8000460ff", "48bb000460ff00000000", "3d000460ff", "c745f8000460ff", "2ec745f8000460ff"} {
		e := testELF{text: asm(t, text+"c3")}
		if r := scanFile(t, e.build()); len(r.Sites) != 0 {
			t.Errorf("%s: got %+v", text, r.Sites)
		}
	}
	e := testELF{text: []byte{0xc3}, data: asm(t, "00 000460ffffffffff")}
	if r := scanFile(t, e.build()); len(r.Sites) != 0 {
		t.Errorf("an unaligned word: %+v", r.Sites)
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

// TestReadErrors: Scan returns an error for each failing read.
func TestReadErrors(t *testing.T) {
	base := hostileBase(t)
	good := base.build()
	broken := errors.New("the disk is on fire")
	for _, f := range []failing{{err: broken}, {err: broken, once: true}, {err: io.EOF}, {err: io.EOF, once: true}} {
		for n := 0; ; n++ {
			if n > 1000 {
				t.Fatal("Scan reads without end")
			}
			left := n
			f.Reader, f.left = bytes.NewReader(good), &left
			r, err := Scan(f, int64(len(good)))
			if left >= 0 {
				if err != nil || len(r.Sites) != 3 {
					t.Errorf("%d reads: %v, %+v", n, err, r)
				}
				break
			}
			if err == nil || f.err == broken && !errors.Is(err, broken) {
				t.Errorf("read %d failed: got %v, %+v", n, err, r)
			}
		}
	}
}

// FuzzScan: no input makes Scan panic, or report bytes that the file does not have.
func FuzzScan(f *testing.F) {
	base := hostileBase(f)
	good := base.build()
	f.Add(good)
	for _, p := range pokes {
		file := bytes.Clone(good)
		copy(file[p.at(file):], le(nil, p.value))
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r := scanFile(t, file)
		for i, s := range r.Sites {
			end := s.Offset + uint64(s.Len)
			if end > uint64(len(file)) || !bytes.Contains(file[s.Offset:end], []byte{0x60, 0xff}) {
				t.Fatalf("no reference at %+v (%d bytes)", s, len(file))
			}
			if i > 0 && r.Sites[i-1].Vaddr >= s.Vaddr {
				t.Fatalf("sites out of order: %+v", r.Sites)
			}
			if s.Reason.String() == "" || s.Verdict == find.Live && (s.Call == 0 || !s.Called) {
				t.Fatalf("a verdict without evidence: %+v", s)
			}
		}
		checkHostile(t, file, r)
	})
}
