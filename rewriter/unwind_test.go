package rewriter

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
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
		case op == elf.CFAUndef:
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
			switch {
			case op == elf.CFAAdvance4:
				i += 4
			case op == 0x02:
				i++
			case op == 0x03:
				i += 2
			}
			n, ok := elf.Advanced(program[:i])
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
	fn := []testSym{{"f", at, size, elf.STTFunc, 1}}
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
			hdr := f.Prog(elf.PTGNUEhFrame).Vaddr
			after, err := parse(bytes.NewReader(out), int64(len(out)))
			if err != nil {
				t.Fatal(err)
			}
			word, err := after.Mem(hdr+12, 8)
			if err != nil || hdr+elf.Signed(word) != at {
				t.Fatalf("the entry is of vaddr %#x: %v", hdr+elf.Signed(word), err)
			}
			was, _, err := f.PlainFDE(func() uint64 { b, _ := f.Mem(hdr+12, 8); return hdr + elf.Signed(b[4:]) }())
			if err != nil {
				t.Fatal(err)
			}
			is, cie, err := after.PlainFDE(hdr + elf.Signed(word[4:]))
			if err != nil || is.Start != at || cie == 0 {
				t.Fatalf("%+v: %v", is, err)
			}
			for i := uint64(0); i < size; i++ {
				if got, want := rowAt(t, is.Program, i), rowAt(t, was.Program, i); got.offset != want.offset || got.noRA || !slices.Equal(got.kept, want.kept) {
					t.Errorf("at +%d: %+v, want %+v", i, got, want)
				}
			}
			if r := rowAt(t, is.Program, size); !r.noRA {
				t.Errorf("behind the function: %+v", r)
			}
			layout := shim.Injected()
			if got, want := is.Start+is.Size, segment.Vaddr+uint64(layout.DescribedEnd); got != want {
				t.Errorf("ends at %#x, want %#x", got, want)
			}
			for d := uint64(layout.Described); d < uint64(layout.DescribedEnd); d++ {
				got, want := rowAt(t, is.Program, segment.Vaddr+d-at), rowAt(t, shim.CFI(), d-uint64(layout.Described))
				if got.offset != want.offset || got.noRA != want.noRA || len(got.kept) != 0 {
					t.Errorf("at +%#x: %+v, want %+v", d, got, want)
				}
			}
			// The scan of the patched file reads the function's own extent.
			r := scanFile(t, out)
			end := uint64(0)
			if err := r.file.EachFDE(func(uint64) bool { return true }, func(fn elf.Func) { end = fn.End }); err != nil || end != at+was.Size {
				t.Errorf("the function ends at %#x, want %#x: %v", end, at+was.Size, err)
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
	s := f.Section(debugFrame)
	if s == nil || s.Flags != 0 || s.Addr != 0 {
		t.Fatalf("section %+v", s)
	}
	b, err := f.Bytes(s.Off, s.Size)
	if err != nil {
		t.Fatal(err)
	}
	cie := 4 + binary.LittleEndian.Uint32(b)
	fde := b[cie:]
	if got, want := binary.LittleEndian.Uint64(fde[8:]), segment.Vaddr+uint64(shim.Injected().Described); got != want || int(cie)+4+int(binary.LittleEndian.Uint32(fde)) != len(b) {
		t.Errorf("describes %#x, want %#x: % x", got, want, b)
	}
	u := &unwinding{own: elf.FrameDescription{Start: 1, Size: 2, Program: []byte{0x41, 0x0e, 0x10}}}
	old := bytes.Repeat([]byte{7}, 16)
	if got := u.debugFrame(bytes.Clone(old)); !bytes.HasPrefix(got, old) || binary.LittleEndian.Uint32(got[16+cie+4:]) != 16 {
		t.Errorf("% x", got)
	}
}
