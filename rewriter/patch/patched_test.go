package patch

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/shim"
)

// TestBroken: damage of a patched file by a later tool is detected in the file alone.
func TestBroken(t *testing.T) {
	e := testELF{text: asm(t, "53"+movRaxTime+callRax+"5b c3"), dyn: true, tight: true, soname: "libx.so.1",
		extra: []elf.Dyn{{Tag: elf.DTInit, Val: testTextOff}, {Tag: elf.DTGNUHash, Val: testTextOff}, {Tag: elf.DTNeeded, Val: 1}}}
	file := e.build()
	p := planFile(t, file, Options{})
	patched := checkPatched(t, file, p, Options{})
	f := scanFile(t, patched).File
	segment, _ := injected(f.File)
	if segment == nil {
		t.Fatalf("no segment: %s", p.Patches[0].Reason)
	}
	put := func(off, v uint64) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[off:], v) }
	}
	header := func(i, field int) uint64 { return elf.EhdrSize + uint64(i*elf.PhdrSize+field) }
	for _, c := range []struct {
		name   string
		change func(b []byte)
		why    string // "" for nothing
	}{
		{"nothing", func([]byte) {}, ""},
		{"the segment is elsewhere", put(header(segment.Index, 16), segment.Vaddr+elf.PageSize), "damaged since"},
		{"the segment is shorter", put(header(segment.Index, 32), elf.PageSize), "filesz 0x1000"},
		{"the segment is longer in memory", put(header(segment.Index, 40), shim.SegmentSize+1), "memsz 0x2001"},
		{"the segment is writable", func(b []byte) { b[header(segment.Index, 4)] |= elf.PFW }, "flags 0x7"},
		{"other code", func(b []byte) { b[segment.Off+uint64(shim.Injected().Time.Keep)] ^= 1 }, "not what vfix injects"},
		{"the hook leads out", func(b []byte) { b[segment.Off+uint64(shim.Injected().InitHole)+3] = 0x40 }, "the hook"},
		{"a hash table among the program headers", put(f.Dyn(elf.DTGNUHash).Off+8, f.Progs[0].Vaddr+elf.EhdrSize), "DT_GNU_HASH"},
		{"strings in no segment", put(f.Dyn(elf.DTStrtab).Off+8, 1<<40), "DT_STRTAB"},
		{"another place of .dynamic", put(header(f.Prog(elf.PTDynamic).Index, 16), f.Prog(elf.PTDynamic).Vaddr+8), "PT_DYNAMIC"},
	} {
		b := bytes.Clone(patched)
		c.change(b)
		r := scanFile(t, b)
		if got := r.Skipped.String(); c.why == "" && got != "" || c.why != "" && (!r.Skipped.Damaged() || !strings.Contains(got, c.why)) {
			t.Errorf("%s: skipped %q, want %q", c.name, got, c.why)
		}
	}
}

// TestPatchedCode: the code in the page is known by each of its bytes, except where the hooks continue.
func TestPatchedCode(t *testing.T) {
	file := (&testELF{text: asm(t, timeStubText)}).build()
	b := applyPlan(t, planFile(t, file, Options{}), file)
	f, err := elf.Parse(elf.Memory(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	segment, _ := injected(f)
	layout := shim.Injected()
	for i := range uint64(len(shim.Code())) {
		hole := i-uint64(layout.EntryHole) < 4 || i-uint64(layout.InitHole) < 4
		b[segment.Off+i] ^= 1
		if (patched(f) != nil) != hole {
			t.Errorf("another byte at %#x: %v", i, patched(f))
		}
		b[segment.Off+i] ^= 1
	}
}

// TestLost: a file whose injected segment a later tool removed, overwrote or made data is broken; a file of debug
// symbols, which has no content of it, is not.
func TestLost(t *testing.T) {
	e := testELF{text: asm(t, timeStubText), notes: 2, symbols: []testSym{{"f", testBase + testTextOff, 18, elf.STTFunc, 1}}}
	file := e.build()
	patched := checkPatched(t, file, planFile(t, file, Options{}), Options{})
	f := scanFile(t, patched).File
	segment, _ := injected(f.File)
	header := f.ShOff + uint64(f.Section(injectedName).Index)*elf.ShdrSize
	emptied := func(b []byte) { clear(b[segment.Off:][:shim.SegmentSize]) }
	for _, c := range []struct {
		name   string
		change func(b []byte)
		lost   bool
	}{
		{"nothing", func([]byte) {}, false},
		{"removed", func(b []byte) { emptied(b); clear(b[header:][:4]) }, true},
		{"overwritten", emptied, true},
		{"not executable", func(b []byte) { b[elf.EhdrSize+segment.Index*elf.PhdrSize+4] = elf.PFR }, true},
		{"debug symbols", func(b []byte) { emptied(b); b[header+4] = elf.SHTNobits }, false},
	} {
		b := bytes.Clone(patched)
		c.change(b)
		r := scanFile(t, b)
		if got := r.Skipped.String(); c.lost != r.Skipped.Damaged() || c.lost && !strings.Contains(got, "no longer has") {
			t.Errorf("%s: skipped %q", c.name, got)
		}
	}
}

// TestInOrder: section headers remain in the order of offsets, with their names.
func TestInOrder(t *testing.T) {
	for _, e := range []testELF{
		{notes: 2},
		{dyn: true, soname: "libx.so.1", tight: true},
	} {
		e.text = asm(t, timeStubText)
		before := e.build()
		was := scanFile(t, before).File
		f := scanFile(t, checkPatched(t, before, planFile(t, before, Options{}), Options{})).File
		last := uint64(0)
		for i, s := range f.Sections {
			if i < len(was.Sections) && s.Off != was.Sections[i].Off {
				t.Errorf("section %d is at offset %#x, before %#x", i, s.Off, was.Sections[i].Off)
			}
			if i >= len(was.Sections) && s.Off < last {
				t.Errorf("section %s at offset %#x follows one at offset %#x", s.Name, s.Off, last)
			}
			if s.Name == movedName && (s.Size != 0 || s.Type != elf.SHTProgbits) {
				t.Errorf("section %d has moved, and has %d bytes", i, s.Size)
			}
			if last = max(last, s.Off); i < len(was.Sections) && i != was.ShStrNdx && s.Name != was.Sections[i].Name {
				t.Errorf("section %d is %s, before %s", i, s.Name, was.Sections[i].Name)
			}
		}
	}
}

// TestCutSections: section headers, or a section, that end beyond the file do not become readable in the longer
// patched file.
func TestCutSections(t *testing.T) {
	e := testELF{text: asm(t, timeStubText), notes: 2, symbols: []testSym{{"f", testBase + testTextOff, 18, elf.STTFunc, 1}}}
	whole := e.build()
	f := scanFile(t, whole).File
	loaded := f.Progs[len(f.Progs)-1].Off
	for i := range f.Progs {
		loaded = max(loaded, f.Progs[i].Off+f.Progs[i].Filesz)
	}
	grew := 0
	for n := int(loaded); n < len(whole); n++ {
		before := bytes.Clone(whole[:n])
		p := planFile(t, before, Options{})
		if p.Empty() || !p.usesSegment() { // as long as before
			continue
		}
		grew++
		if after := scanFile(t, checkPatched(t, before, p, Options{})).File; after.ShNum != 0 || after.ShOff != 0 {
			t.Errorf("%d of %d bytes: %d section headers at offset %#x", n, len(whole), after.ShNum, after.ShOff)
		}
	}
	if grew == 0 {
		t.Error("no file got a segment")
	}
}
