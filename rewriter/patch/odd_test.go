package patch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/tests/recorded"
)

// TestOddHeaders changes each field of the headers and tables of some files, one at a time, to numbers near it and far
// from it. The results are recorded, and each patched file passes the verification.
func TestOddHeaders(t *testing.T) {
	const interp = "/lib64/ld-linux-x86-64.so.2"
	text := asm(t, timeStubText)
	library := hostileBase(t)
	library.extra = []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}
	tight := library
	tight.tight, tight.notes, tight.phdr, tight.interp = true, -1, true, interp
	const second = 32
	pair := testELF{
		tight: true, text: append(pad(bytes.Clone(text), second), asm(t, "53 90909090 5b c3")...),
		fdes:  []uint64{testBase + testTextOff, testBase + testTextOff + second},
		frame: testFrame(plainCIE, testFDE{int(second), pushRbx}, testFDE{7, "\x41\x0e\x20"}),
	}
	bare := library
	bare.bare, bare.notes = true, 2
	// It is patched, except for a call.
	twice := testELF{text: append(pad(bytes.Clone(text), second), directCall(second)...), notes: 2, interp: interp, dynamic: true,
		symbols: []testSym{{"f", testBase + testTextOff, 18, elf.STTFunc, 1}, {"g", testBase + testTextOff + second, 6, elf.STTFunc, 1}}}
	file := twice.build()
	patched := applyPlan(t, planFile(t, file, Options{Forms: []Form{Entry}}), file)
	for name, e := range map[string]testELF{
		"patched":         twice,
		"program":         {text: text},
		"without a note":  {text: text, notes: -1, phdr: true, interp: interp},
		"full":            {text: text, notes: -1, phdr: true, interp: interp, full: true},
		"library":         library,
		"tight library":   tight,
		"without headers": bare,
		"unwind tables":   pair,
	} {
		t.Run(name, func(t *testing.T) {
			file := e.build()
			if name == "patched" {
				file = patched
			}
			var all strings.Builder
			changed := 0
			for _, f := range headerFields(file, len(e.frame)) {
				was := number(file[f.at : f.at+f.size])
				for _, v := range []uint64{0, was + 1, was - 1, was + 8, was + elf.PageSize, was ^ 4, ^uint64(0)} {
					odd := bytes.Clone(file)
					copy(odd[f.at:f.at+f.size], binary.LittleEndian.AppendUint64(nil, v))
					out, how := oddResult(t, odd)
					if out != nil {
						changed++
					}
					fmt.Fprintf(&all, "%d %#x: %s %x\n", f.at, v, how, out)
				}
			}
			if changed < 100 {
				t.Errorf("only %d files are patched", changed)
			}
			recorded.Check(t, t.Name(), all.String())
		})
	}
}

type headerField struct{ at, size int }

// headerFields are the fields of the ELF header, the program and section headers, the words of the dynamic table, and
// the bytes of the unwind table's head and of the table, which has so many.
func headerFields(file []byte, frame int) (all []headerField) {
	at := 0
	add := func(sizes ...int) {
		for _, s := range sizes {
			all, at = append(all, headerField{at, s}), at+s
		}
	}
	le := binary.LittleEndian
	at = 16
	add(2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2)
	for i := range int(le.Uint16(file[56:])) {
		at = elf.EhdrSize + i*elf.PhdrSize
		typ, off, size := le.Uint32(file[at:]), int(le.Uint64(file[at+8:])), int(le.Uint64(file[at+32:]))
		add(4, 4, 8, 8, 8, 8, 8, 8)
		switch typ {
		case elf.PTDynamic:
			for at = off; at < off+size; {
				add(8)
			}
		case elf.PTGNUEhFrame:
			at = off
			add(1, 1, 1, 1, 4, 4, 4, 4)
			for end := off + size + frame; frame > 0 && at < end; {
				add(1)
			}
		}
	}
	for i := range int(le.Uint16(file[60:])) {
		at = int(le.Uint64(file[40:])) + i*elf.ShdrSize
		add(4, 4, 8, 8, 8, 8, 4, 4, 8, 8)
	}
	return all
}

func number(b []byte) uint64 {
	return binary.LittleEndian.Uint64(append(bytes.Clone(b), make([]byte, 8)...))
}

// directCall is a call of the page, and a ret, at an offset in the text of a program.
func directCall(at int) []byte {
	const length = 5
	return append(le([]byte{0xe8}, uint32(Time.Vaddr()-uint64(testBase+testTextOff+at+length))), 0xc3)
}

// oddResult patches a file, and returns the result, or nil, and how it came.
func oddResult(t *testing.T, file []byte) (out []byte, how string) {
	t.Helper()
	r, size := bytes.NewReader(file), int64(len(file))
	report, err := Scan(r, size)
	if err != nil {
		return nil, "not read"
	}
	if report.Skipped != nil {
		return nil, report.Skipped.String()
	}
	p, err := NewPlan(report, Options{})
	if err != nil {
		return nil, err.Error()
	}
	for _, q := range p.Patches {
		how += fmt.Sprint(q.Form, " ", q.Reason, "; ")
	}
	how += fmt.Sprint(p.Warnings, p.Consequences, p.Notes)
	if p.Empty() {
		return nil, how
	}
	if out, err = io.ReadAll(p.Apply(r)); err != nil {
		t.Errorf("%s: %v", how, err)
	}
	if _, err := Verify(r, size, bytes.NewReader(out), int64(len(out)), Options{}); err != nil {
		t.Errorf("%s: %v", how, err)
	}
	return out, how
}
