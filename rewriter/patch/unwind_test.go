package patch

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// testFDE describes an FDE for testFrame; its start is set later.
type testFDE struct {
	size    int
	program string
}

// testFrame is a CIE and FDEs of functions.
func testFrame(cie string, fdes ...testFDE) []byte {
	b := append(le(nil, uint32(len(cie))), cie...)
	for _, d := range fdes {
		length := (13 + len(d.program) + 3) &^ 3
		b = append(b, le(nil, uint32(length), uint32(len(b)+4), uint32(0), uint32(d.size), byte(0))...)
		b = append(b, pad([]byte(d.program), 1<<20)[:length-13]...)
	}
	return b
}

const (
	plainCIE = "\x00\x00\x00\x00\x01zR\x00\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\x00\x00"
	pushRbx  = "\x41\x0e\x10\x83\x02\x44\x0e\x08" // push %rbx; 4 bytes; pop %rbx
)

// row is the result of call frame instructions for one address.
type row struct {
	offset uint64 // of the frame's address from rsp
	noRA   bool
	kept   []byte // registers with a rule of their own
}

// rowAt runs call frame instructions up to at bytes from their start.
func rowAt(t *testing.T, program []byte, at uint64) row {
	t.Helper()
	r := row{offset: 8}
	i, passed := 0, uint64(0)
	uleb := func() uint64 {
		v, n := binary.Uvarint(program[i:])
		i += n
		return v
	}
	for i < len(program) {
		op := program[i]
		i++
		switch {
		case op == 0x0c: // DW_CFA_def_cfa
			uleb()
			r.offset = uleb()
		case op == 0x0e:
			r.offset = uleb()
		case op == 0x07: // DW_CFA_undefined
			uleb()
			r.noRA = true
		case op&0xc0 == 0x80: // DW_CFA_offset
			uleb()
			if reg := op & 0x3f; reg == elf.DwarfRIP {
				r.noRA = false
			} else if !slices.Contains(r.kept, reg) {
				r.kept = append(r.kept, reg)
			}
		case op&0xc0 == elf.CFARestore:
			r.kept = slices.DeleteFunc(r.kept, func(reg byte) bool { return reg == op&0x3f })
		case op == 0, op == 0x0a:
		default:
			begin := i - 1
			switch {
			case op == elf.CFAAdvance4:
				i += 4
			case op == 0x02:
				i++
			case op == 0x03:
				i += 2
			}
			n, ok := elf.Advanced(program[begin:i])
			if !ok {
				t.Fatalf("instruction %#x", op)
			}
			if passed += n; passed > at {
				return r
			}
		}
	}
	return r
}

// TestUnwinding: the search table leads from the trampolines to a description of them, from each function to its
// previous description, and from other addresses to nothing.
func TestUnwinding(t *testing.T) {
	const at, size, second, third = testBase + testTextOff, 18, 32, 64
	starts := []uint64{at, at + second}
	text := func(t *testing.T, between string) []byte {
		return pad(append(pad(append(asm(t, timeStubText), asm(t, between)...), second), asm(t, "53 90909090 5b c3")...), third+8)
	}
	const sigreturn = "48c7c00f000000 0f05"
	two := testFrame(plainCIE, testFDE{size, pushRbx}, testFDE{7, "\x41\x0e\x20"})
	for _, c := range []struct {
		name    string
		e       testELF
		between string // code
		taken   bool
	}{
		{"unwind tables behind the segment", testELF{frame: two}, "", false},
		{"plain", testELF{tight: true, frame: two}, "", true},
		{"nops between", testELF{tight: true, frame: two}, "cc 6690 0f1f4000", true},
		{"no rows", testELF{tight: true, frame: testFrame(plainCIE, testFDE{size, ""}, testFDE{7, ""})}, "", true},
		{"state left over", testELF{tight: true, frame: testFrame(plainCIE, testFDE{size, "\x41\x0a\x0e\x20\x83\x02\x86\x03"}, testFDE{7, pushRbx})}, "", true},
		{"a signal-return stub between", testELF{tight: true, frame: two}, sigreturn, false},
		{"one function alone", testELF{tight: true, fdes: starts[:1], frame: testFrame(plainCIE, testFDE{size, pushRbx})}, "", false},
		{"a third one that cannot be joined", testELF{tight: true, fdes: append(starts[:2:2], at+third),
			frame: testFrame(plainCIE, testFDE{size, pushRbx}, testFDE{7, ""}, testFDE{4, "\x7f\x0e\x10"})}, "", true},
		{"a table of landing pads", testELF{tight: true, frame: testFrame("\x00\x00\x00\x00\x01zLR\x00\x01\x78\x10\x02\x1b\x1b\x0c\x07\x08\x90\x01\x00", testFDE{size, pushRbx}, testFDE{7, ""})}, "", false},
		{"another CIE", testELF{tight: true, frame: testFrame(plainCIE[:15]+"\x10"+plainCIE[16:], testFDE{size, pushRbx}, testFDE{7, ""})}, "", false},
		{"an unknown instruction", testELF{tight: true, frame: testFrame(plainCIE, testFDE{size, "\x41\x3f"}, testFDE{7, ""})}, "", false},
		{"rows behind the function", testELF{tight: true, frame: testFrame(plainCIE, testFDE{size, "\x7f\x0e\x10"}, testFDE{7, ""})}, "", false},
		{"longer than its place", testELF{tight: true, frame: testFrame(plainCIE, testFDE{1 << 28, pushRbx}, testFDE{7, ""})}, "", false},
		{"far apart", testELF{tight: true, frame: testFrame(plainCIE, testFDE{size, pushRbx}, testFDE{7, ""}), fdes: []uint64{at, at + 1<<20}}, "", false},
		{"not sorted", testELF{tight: true, fdes: []uint64{at + second, at}, frame: two}, "", false},
		{"a function in the segment", testELF{tight: true, fdes: append(starts[:2:2], testBase+0x3010), frame: two}, "", false},
		{"no table", testELF{}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.text, c.e.symbols = text(t, c.between), []testSym{{"f", at, size, elf.STTFunc, 1}}
			if c.e.frame != nil && c.e.fdes == nil {
				c.e.fdes = starts
			}
			before := c.e.build()
			p := planFile(t, before, Options{})
			out := checkPatched(t, before, p, Options{})
			f, after := scanFile(t, before).File, scanFile(t, out).File
			segment, _ := injected(after.File)
			taken := slices.ContainsFunc(p.Edits, func(e Edit) bool { return e.Why == "unwind table" })
			if taken != c.taken {
				t.Fatalf("the table changed: %v", taken)
			}
			if !taken {
				return
			}
			// As libgcc does: the last entry that begins before, if its description reaches so far.
			lookup := func(f *find.File, pc uint64) (d elf.FrameDescription, found bool) {
				_, table := f.SearchTable()
				if len(table) != len(c.e.fdes) {
					t.Fatalf("%d entries", len(table))
				}
				n := sort.Search(len(table), func(i int) bool { return table[i].Start > pc }) - 1
				if n < 0 {
					return d, false
				}
				d, _ = f.PlainFDE(table[n].FDE)
				if d.Start != table[n].Start {
					t.Fatalf("%+v", d)
				}
				return d, pc < d.Start+d.Size
			}
			for pc := uint64(at); pc < segment.Vaddr+shim.SegmentSize; pc++ {
				was, described := lookup(f, pc)
				is, found := lookup(after, pc)
				want := row{}
				layout := shim.Injected()
				own := pc - segment.Vaddr - uint64(layout.Described)
				switch {
				case described:
					want = rowAt(t, was.Program, pc-was.Start)
				case own < uint64(layout.DescribedEnd-layout.Described):
					described, want = true, rowAt(t, shim.CFI(), own)
				case pc >= at+size && pc < at+second:
					continue // padding between the two
				}
				if found != described {
					t.Fatalf("vaddr %#x is described: %v, want %v", pc, found, described)
				}
				if got := rowAt(t, is.Program, pc-is.Start); found && (got.offset != want.offset || got.noRA != want.noRA || !slices.Equal(got.kept, want.kept)) {
					t.Fatalf("at vaddr %#x: %+v, want %+v", pc, got, want)
				}
			}
		})
	}
}

// TestPair: two functions get one description if all between them is padding, and both are understood.
func TestPair(t *testing.T) {
	const vaddr, code = 0x10000, 0x200
	nops := func(n int) string { return string(bytes.Repeat([]byte{0x90}, n)) }
	for _, c := range []struct {
		name    string
		x, y    testFDE
		between string
		beside  uint64 // 1: of the second entry, 2: of the first
		ok      bool
	}{
		{"adjacent", testFDE{8, pushRbx}, testFDE{8, ""}, "", 0, true},
		{"a nop between", testFDE{8, ""}, testFDE{8, ""}, nops(1), 0, true},
		{"code between", testFDE{8, ""}, testFDE{8, ""}, "\xc3", 0, false},
		{"the longest padding", testFDE{8, ""}, testFDE{8, ""}, nops(63), 0, true},
		{"longer padding", testFDE{8, ""}, testFDE{8, ""}, nops(64), 0, false},
		{"padding that ends", testFDE{8, ""}, testFDE{8, ""}, "", 8, false},
		{"overlapping", testFDE{9, ""}, testFDE{8, ""}, "", 0, false},
		{"rows to the end", testFDE{8, "\x48\x0e\x10"}, testFDE{8, "\x48"}, "", 0, true},
		{"rows behind the first", testFDE{8, "\x49\x0e\x10"}, testFDE{8, ""}, "", 0, false},
		{"rows behind the second", testFDE{8, ""}, testFDE{8, "\x49"}, "", 0, false},
		{"an unknown instruction", testFDE{8, ""}, testFDE{8, "\x3f"}, "", 0, false},
		{"an empty function", testFDE{0, ""}, testFDE{8, ""}, nops(8), 0, false},
		{"an empty second one", testFDE{8, ""}, testFDE{0, ""}, "", 0, false},
		{"the entry of another function", testFDE{8, ""}, testFDE{8, ""}, "", 1, false},
		{"the first entry of another function", testFDE{8, ""}, testFDE{8, ""}, "", 2, false},
	} {
		b := testFrame(plainCIE, c.x, c.y)
		first := uint64(4 + len(plainCIE))
		second := first + 4 + uint64(binary.LittleEndian.Uint32(b[first:]))
		x, y := uint64(code), code+8+uint64(len(c.between))
		if c.beside > 2 { // the content of the segment ends between
			y += c.beside
		}
		binary.LittleEndian.PutUint32(b[first+8:], uint32(x-(first+8)))
		binary.LittleEndian.PutUint32(b[second+8:], uint32(y-(second+8)))
		b = slices.Concat(b, make([]byte, code-len(b)), make([]byte, 8), []byte(c.between))
		n := uint64(len(b))
		f := &file{File: &find.File{File: &elf.File{R: elf.Memory(b), Size: n, Progs: []elf.Prog{{Type: elf.PTLoad, Vaddr: vaddr, Filesz: n, Memsz: n}}}}}
		both, cie := f.pair(elf.SearchEntry{Start: vaddr + x + c.beside>>1&1, FDE: vaddr + first}, elf.SearchEntry{Start: vaddr + y + c.beside&1, FDE: vaddr + second})
		if (both != nil) != c.ok || c.ok && cie != vaddr {
			t.Errorf("%s: %+v, CIE at %#x", c.name, both, cie)
		}
	}
}

// TestUnwindRoom: the descriptions take the space that they need, and no table with functions at or behind the segment.
func TestUnwindRoom(t *testing.T) {
	const at = testBase + testTextOff
	e := testELF{tight: true, text: make([]byte, 64), fdes: []uint64{at, at + 8, at + 16}, frame: testFrame(plainCIE, testFDE{8, ""}, testFDE{8, ""}, testFDE{8, ""})}
	b := e.build()
	parsed, err := find.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	f := &file{File: parsed}
	const segment = at + testPage
	need := len(f.planUnwinding(segment, elf.PageSize).tail)
	for _, c := range []struct {
		segment uint64
		space   int
		taken   bool
	}{{segment, need, true}, {segment, need - 1, false}, {at + 16, need, false}, {at + 17 - shim.SegmentSize, need, false}} {
		if u := f.planUnwinding(c.segment, c.space); (u.tail != nil) != c.taken || need == 0 {
			t.Errorf("segment at %#x, %d bytes of %d: % x", c.segment, c.space, need, u.tail)
		}
	}
}

// TestDebugFrame: the section describes the trampolines, and the file's own descriptions stay in it.
func TestDebugFrame(t *testing.T) {
	e := testELF{text: asm(t, timeStubText)}
	file := e.build()
	out := checkPatched(t, file, planFile(t, file, Options{}), Options{})
	f := scanFile(t, out).File
	segment, _ := injected(f.File)
	s := f.Section(debugFrame)
	if s == nil || s.Flags != 0 || s.Addr != 0 {
		t.Fatalf("section %+v", s)
	}
	b := f.Bytes(s.Off, s.Size)
	cie := 4 + binary.LittleEndian.Uint32(b)
	fde := b[cie:]
	if got, want := binary.LittleEndian.Uint64(fde[8:]), segment.Vaddr+uint64(shim.Injected().Described); got != want || int(cie)+4+int(binary.LittleEndian.Uint32(fde)) != len(b) {
		t.Errorf("describes %#x, want %#x: % x", got, want, b)
	}
	u := &unwinding{described: []elf.FrameDescription{{Start: 1, Size: 2, Program: []byte{0x41, 0x0e, 0x10}}}}
	old := bytes.Repeat([]byte{7}, 16)
	if got := u.debugFrame(bytes.Clone(old)); !bytes.HasPrefix(got, old) || binary.LittleEndian.Uint32(got[16+cie+4:]) != 16 {
		t.Errorf("% x", got)
	}
}
