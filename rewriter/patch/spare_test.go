package patch

import (
	"bytes"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// withNote changes the type of the first note of a file.
func withNote(t *testing.T, file []byte, typ byte) []byte {
	t.Helper()
	file[scanFile(t, file).File.Prog(elf.PTNote).Off+8] = typ
	return file
}

// noteAt is the offset of the first note behind n program headers.
func noteAt(n int) uint64 { return uint64(elf.EhdrSize + n*elf.PhdrSize) }

// TestSpare is about the program header that is replaced.
func TestSpare(t *testing.T) {
	const ntBuildID = 3
	interp := "/lib64/ld-linux-x86-64.so.2"
	soname := testELF{dyn: true, soname: "libx.so.1", extra: []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}}
	library := func(e testELF) testELF { e.dyn, e.soname, e.extra = true, soname.soname, soname.extra; return e }
	pie := func(e testELF) testELF {
		e = library(e)
		e.extra = append(e.extra[:1:1], elf.Dyn{Tag: elf.DTDebug})
		return e
	}
	for _, c := range []struct {
		name   string
		e      testELF
		id     bool   // the first note is a build ID
		gone   uint32 // the type of the header that is spent
		grows  bool
		change func(file []byte)
		why    string // the word of the reason if there is no room
		lost   bool   // the build ID
	}{
		{name: "an ABI tag", gone: elf.PTNote},
		{name: "an ABI tag before PT_PHDR", e: testELF{phdr: true, interp: interp}, gone: elf.PTNote},
		{name: "PT_PHDR of a program at a fixed address", e: testELF{phdr: true, interp: interp, full: true}, id: true, gone: elf.PTPhdr},
		{name: "the same without a note", e: testELF{phdr: true, interp: interp, full: true, notes: -1}, gone: elf.PTPhdr},
		{name: "never that of a PIE", e: testELF{phdr: true, interp: interp, full: true, dyn: true}, id: true, gone: elf.PTNote, lost: true},
		{name: "nor without a note", e: testELF{phdr: true, interp: interp, full: true, dyn: true, notes: -1}, why: "program header"},
		{name: "that of a library", e: library(testELF{phdr: true, full: true, notes: -1}), gone: elf.PTPhdr},
		{name: "PT_INTERP of a library that nothing starts", e: library(testELF{phdr: true, interp: interp, full: true, notes: -1}), gone: elf.PTInterp},
		{name: "that one before the build ID", e: library(testELF{phdr: true, interp: interp, full: true}), id: true, gone: elf.PTInterp},
		{name: "not of one with an entry of its own, such as libc.so.6", e: library(testELF{phdr: true, interp: interp, full: true, notes: -1,
			text: append([]byte{0xc3}, asm(t, timeStubText)...), entry: testTextOff + 1}), why: "program header"},
		{name: "nor of a PIE with a name", e: pie(testELF{phdr: true, interp: interp, full: true, notes: -1}), why: "program header"},
		{name: "nor if no section says what the entry is", e: library(testELF{phdr: true, interp: interp, full: true, notes: -1, bare: true}), why: "program header"},
		{name: "not before a note", e: library(testELF{phdr: true, full: true}), id: true, gone: elf.PTNote, lost: true},
		{name: "the table grows before the build ID goes", e: testELF{notes: -1}, grows: true},
		{name: "also that of a library", e: library(testELF{notes: -1}), grows: true},
		{name: "PT_PHDR grows with it", e: testELF{dyn: true, phdr: true, soname: "x", notes: -1}, grows: true},
		{name: "a note of somebody else's", e: testELF{notes: 2, oneNote: true}, gone: elf.PTNote, lost: true, change: func(b []byte) {
			b[noteAt(3)+12] = 'X'
		}},
		{name: "no section headers that call it padding", e: testELF{notes: -1, bare: true}, why: "program header"},
		{name: "not zero", e: testELF{notes: -1, full: true}, why: "program header"},
		{name: "ABI tag and build ID in one", e: testELF{notes: 2, oneNote: true}, gone: elf.PTNote, lost: true},
		{name: "those of a library", e: library(testELF{notes: 2, oneNote: true}), gone: elf.PTNote, lost: true},
		{name: "no sections", e: testELF{notes: 2, oneNote: true, bare: true}, gone: elf.PTNote, lost: true},
		{name: "PT_NULL", e: testELF{notes: 2}, id: true, gone: elf.PTNull, change: func(b []byte) {
			copy(b[elf.EhdrSize+3*elf.PhdrSize:], make([]byte, elf.PhdrSize)) // the second note
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.e.text == nil {
				c.e.text = asm(t, timeStubText)
			}
			file := c.e.build()
			if c.id {
				file = withNote(t, file, ntBuildID)
			}
			if c.change != nil {
				c.change(file)
			}
			p := planFile(t, file, Options{})
			if c.why != "" {
				if q := p.Patches[0]; q.Form != Left && q.Form != Syscall || !strings.Contains(q.Reason, c.why) {
					t.Errorf("form %v: %s", q.Form, q.Reason)
				}
				return
			}
			out := checkPatched(t, file, p, Options{})
			before, after := scanFile(t, file).File, scanFile(t, out).File
			count := func(progs []elf.Prog, typ uint32) (n int) {
				for _, p := range progs {
					if p.Type == typ {
						n++
					}
				}
				return n
			}
			want := len(before.Progs)
			if c.grows {
				want++
			}
			if len(after.Progs) != want {
				t.Fatalf("%d program headers, want %d", len(after.Progs), want)
			}
			for _, typ := range []uint32{elf.PTNull, elf.PTNote, elf.PTPhdr, elf.PTInterp, elf.PTDynamic} {
				want := count(before.Progs, typ)
				if !c.grows && typ == c.gone {
					want--
				}
				if got := count(after.Progs, typ); got != want {
					t.Errorf("%d program headers of type %d, want %d", got, typ, want)
				}
			}
			if ph := after.Prog(elf.PTPhdr); ph != nil && ph.Filesz != uint64(len(after.Progs))*elf.PhdrSize {
				t.Errorf("PT_PHDR has %d bytes for %d program headers", ph.Filesz, len(after.Progs))
			}
			for i, s := range before.Sections {
				if s.Type != elf.SHTNote {
					continue
				}
				was := before.Bytes(s.Off, s.Size)
				if is := after.Mem(after.Sections[i].Addr, s.Size); !bytes.Equal(was, is) {
					t.Errorf("section %s: % x, want % x", s.Name, is, was)
				}
			}
			if after.TableLoad() < 0 {
				t.Error("the program headers are not loaded")
			}
			if lost := strings.Contains(strings.Join(p.Notes, "\n"), "build ID"); lost != c.lost {
				t.Errorf("warnings %q", p.Warnings)
			}
			if was, is := before.BuildID(), after.BuildID(); was != "" && (is == was) == c.lost {
				t.Errorf("build ID %q, before %q", is, was)
			}
		})
	}
}
