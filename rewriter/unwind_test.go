package rewriter

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"vfix.dev/vfix/shim"
)

// testFrame is a CIE and an FDE of a function of size bytes; the FDE's start is filled in later.
func testFrame(cie string, size int, program string) []byte {
	b := le(nil, uint32(len(cie)))
	b = append(b, cie...)
	length := (13 + len(program) + 3) &^ 3
	fde := le(nil, uint32(length), uint32(len(b)+4), uint32(0), uint32(size), byte(0))
	return append(append(b, fde...), pad([]byte(program), 1<<20)[:length-13]...)
}

const (
	plainCIE = "\x00\x00\x00\x00\x01zR\x00\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\x00\x00"
	pushRbx  = "\x41\x0e\x10\x83\x02\x44\x0e\x08" // push %rbx; 4 bytes; pop %rbx
)

// row is what call frame instructions say of one address.
type row struct {
	offset uint64 // of the frame's address from rsp
	noRA   bool
	kept   []byte // registers with a rule of their own
}

// rowAt runs call frame instructions up to at bytes from their start.
func rowAt(t *testing.T, program []byte, at uint64) row {
	t.Helper()
	r := row{offset: 8}
	i := 0
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
		case op == cfaUndef:
			uleb()
			r.noRA = true
		case op&0xc0 == 0x80: // DW_CFA_offset
			uleb()
			if reg := op & 0x3f; reg == dwarfRIP {
				r.noRA = false
			} else if !slices.Contains(r.kept, reg) {
				r.kept = append(r.kept, reg)
			}
		case op&0xc0 == cfaRestore:
			r.kept = slices.DeleteFunc(r.kept, func(reg byte) bool { return reg == op&0x3f })
		case op == 0, op == 0x0a:
		default:
			switch {
			case op == cfaAdvance4:
				i += 4
			case op == 0x02:
				i++
			case op == 0x03:
				i += 2
			}
			n, ok := advanced(program[:i])
			if !ok {
				t.Fatalf("instruction %#x", op)
			}
			if n > at {
				return r
			}
		}
	}
	return r
}

// TestUnwinding: the search table leads from the trampolines to a description of them, and from
// the last function to what it led to before.
func TestUnwinding(t *testing.T) {
	const at, size = testBase + testTextOff, 18
	fn := []testSym{{"f", at, size, sttFunc, 1}}
	for _, c := range []struct {
		name  string
		e     testELF
		taken bool
	}{
		{"unwind tables behind the segment", testELF{frame: testFrame(plainCIE, size, pushRbx)}, false},
		{"plain", testELF{tight: true, frame: testFrame(plainCIE, size, pushRbx)}, true},
		{"no rows", testELF{tight: true, frame: testFrame(plainCIE, size, "")}, true},
		{"state left over", testELF{tight: true, frame: testFrame(plainCIE, size, "\x41\x0a\x0e\x20\x83\x02\x86\x03")}, true},
		{"a table of landing pads", testELF{tight: true, frame: testFrame("\x00\x00\x00\x00\x01zLR\x00\x01\x78\x10\x02\x1b\x1b\x0c\x07\x08\x90\x01\x00", size, pushRbx)}, false},
		{"another CIE", testELF{tight: true, frame: testFrame(plainCIE[:15]+"\x10"+plainCIE[16:], size, pushRbx)}, false},
		{"an instruction that is none", testELF{tight: true, frame: testFrame(plainCIE, size, "\x41\x3f")}, false},
		{"rows behind the function", testELF{tight: true, frame: testFrame(plainCIE, size, "\x7f\x0e\x10")}, false},
		{"longer than its place", testELF{tight: true, frame: testFrame(plainCIE, 1<<28, pushRbx)}, false},
		{"another function", testELF{tight: true, fdes: []uint64{at, at + 4, at + 8}}, false},
		{"not sorted", testELF{tight: true, fdes: []uint64{at + 8, at}, frame: testFrame(plainCIE, size, pushRbx)}, false},
		{"a function in the segment", testELF{tight: true, fdes: []uint64{at, testBase + 0x3010}, frame: testFrame(plainCIE, size, pushRbx)}, false},
		{"no table", testELF{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.text, c.e.symbols = asm(t, timeStubText), fn
			if c.e.frame != nil && c.e.fdes == nil {
				c.e.fdes = []uint64{at}
			}
			file := c.e.build()
			p := planFile(t, file, Options{})
			out := checkPatched(t, file, p, Options{})
			f := scanFile(t, file).file
			segment, _ := scanFile(t, out).file.injected()
			taken := slices.ContainsFunc(p.Edits, func(e Edit) bool { return e.Why == "unwind table" })
			if taken != c.taken {
				t.Fatalf("the table changed: %v", taken)
			}
			if !taken {
				return
			}
			hdr := f.prog(ptGNUEhFrame).vaddr
			after, err := parse(bytes.NewReader(out), int64(len(out)))
			if err != nil {
				t.Fatal(err)
			}
			word, err := after.mem(hdr+12, 8)
			if err != nil || hdr+signed(word) != at {
				t.Fatalf("the entry is of vaddr %#x: %v", hdr+signed(word), err)
			}
			was, _, err := f.plainFDE(func() uint64 { b, _ := f.mem(hdr+12, 8); return hdr + signed(b[4:]) }())
			if err != nil {
				t.Fatal(err)
			}
			is, cie, err := after.plainFDE(hdr + signed(word[4:]))
			if err != nil || is.start != at || cie == 0 {
				t.Fatalf("%+v: %v", is, err)
			}
			for i := uint64(0); i < size; i++ {
				if got, want := rowAt(t, is.program, i), rowAt(t, was.program, i); got.offset != want.offset || got.noRA || !slices.Equal(got.kept, want.kept) {
					t.Errorf("at +%d: %+v, want %+v", i, got, want)
				}
			}
			if r := rowAt(t, is.program, size); !r.noRA {
				t.Errorf("behind the function: %+v", r)
			}
			layout := shim.Injected()
			if got, want := is.start+is.size, segment.vaddr+uint64(layout.DescribedEnd); got != want {
				t.Errorf("ends at %#x, want %#x", got, want)
			}
			for d := uint64(layout.Described); d < uint64(layout.DescribedEnd); d++ {
				got, want := rowAt(t, is.program, segment.vaddr+d-at), rowAt(t, shim.CFI(), d-uint64(layout.Described))
				if got.offset != want.offset || got.noRA != want.noRA || len(got.kept) != 0 {
					t.Errorf("at +%#x: %+v, want %+v", d, got, want)
				}
			}
			// The scan of the patched file reads the function's own extent.
			r := scanFile(t, out)
			end := uint64(0)
			if err := r.file.eachFDE(func(uint64) bool { return true }, func(fn function) { end = fn.end }); err != nil || end != at+was.size {
				t.Errorf("the function ends at %#x, want %#x: %v", end, at+was.size, err)
			}
		})
	}
}

// TestDebugFrame: the section describes the trampolines, and what a file had stays in it.
func TestDebugFrame(t *testing.T) {
	e := testELF{text: asm(t, timeStubText)}
	file := e.build()
	out := checkPatched(t, file, planFile(t, file, Options{}), Options{})
	f := scanFile(t, out).file
	segment, _ := f.injected()
	s := f.section(debugFrame)
	if s == nil || s.flags != 0 || s.addr != 0 {
		t.Fatalf("section %+v", s)
	}
	b, err := f.bytes(s.off, s.size)
	if err != nil {
		t.Fatal(err)
	}
	cie := 4 + binary.LittleEndian.Uint32(b)
	fde := b[cie:]
	if got, want := binary.LittleEndian.Uint64(fde[8:]), segment.vaddr+uint64(shim.Injected().Described); got != want || int(cie)+4+int(binary.LittleEndian.Uint32(fde)) != len(b) {
		t.Errorf("describes %#x, want %#x: % x", got, want, b)
	}
	u := &unwinding{own: frameDescription{start: 1, size: 2, program: []byte{0x41, 0x0e, 0x10}}}
	old := bytes.Repeat([]byte{7}, 16)
	if got := u.debugFrame(bytes.Clone(old)); !bytes.HasPrefix(got, old) || binary.LittleEndian.Uint32(got[16+cie+4:]) != 16 {
		t.Errorf("% x", got)
	}
}

// TestAdvanced: how far instructions get, and that what is not known is not guessed at.
func TestAdvanced(t *testing.T) {
	for _, c := range []struct {
		program string
		n       uint64
		ok      bool
	}{
		{"", 0, true},
		{"\x41\x0e\x10", 1, true},
		{"\x02\xff\x03\x00\x01\x04\x00\x00\x01\x00", 255 + 256 + 65536, true},
		{"\x0f\x03\x01\x02\x03\x45", 5, true}, // a block is no instructions
		{"\x10\x06\x01\x41\x41", 1, true},
		{"\x0f\x7f\x41", 0, false},
		{"\x01\x00\x00\x00\x00", 0, false}, // set_loc
		{"\x04\x01", 0, false},
		{"\x0c\x07", 0, false},
		{"\x3f", 0, false},
		{"\x0e\x80", 0, false},
	} {
		if n, ok := advanced([]byte(c.program)); ok != c.ok || ok && n != c.n {
			t.Errorf("%x: %d, %v", c.program, n, ok)
		}
	}
}
