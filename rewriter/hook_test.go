package rewriter

import (
	"bytes"
	"encoding/binary"
	"testing"

	"vfix.dev/vfix/shim"
)

// TestHooks is about what runs at load, and what it goes on to.
func TestHooks(t *testing.T) {
	const fn = testTextOff + 24 // the initialiser of the file itself
	text := append(asm(t, timeStubText), make([]byte, 14)...)
	array := testELF{dyn: true, soname: "l", text: text, data: le(nil, uint64(fn))}.dataVaddrOf()
	init := dyn{tag: dtInit, val: fn}
	initArray := []dyn{{tag: dtInitArray, val: array}, {tag: dtInitArraysz, val: 8}}
	none := uint64(0) // no initialiser of its own: the hole leads to a ret
	for _, c := range []struct {
		name string
		e    testELF
		tag  int64  // whose value is the hook
		word uint64 // vaddr of a word whose relocation's addend is the hook
		next uint64 // where the hook goes on to
		warn bool
	}{
		{"DT_INIT", testELF{extra: []dyn{init}}, dtInit, 0, fn, false},
		{"DT_INIT before init_array", testELF{extra: append([]dyn{init}, initArray...), rela: []testRela{{array, rRelative, fn}}}, dtInit, 0, fn, false},
		{"init_array", testELF{extra: initArray, rela: []testRela{{array + 8, rRelative, 0}, {array, rRelative, fn}}}, 0, array, fn, false},
		{"an entry to spare", testELF{}, dtInit, 0, none, false},
		{"init_array without a relocation", testELF{extra: initArray}, dtInit, 0, none, false},
		{"DT_INIT outside the code", testELF{extra: []dyn{{tag: dtInit, val: 1 << 40}}}, 0, 0, none, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.dyn, c.e.soname, c.e.text, c.e.data = true, "l", text, le(nil, uint64(fn), uint64(0))
			file := c.e.build()
			p := planFile(t, file, Options{})
			out := checkPatched(t, file, p, Options{})
			if got := len(p.Warnings) > 0; got != c.warn {
				t.Fatalf("warnings %q", p.Warnings)
			}
			r := scanFile(t, out)
			segment, version := r.file.injected()
			if version != "3" || r.Injected != version {
				t.Errorf("injected version %q, reported as %q", version, r.Injected)
			}
			layout := shim.Injected()
			hook := segment.vaddr + uint64(layout.InitHook)
			if c.tag != 0 {
				if d := r.file.dyn(c.tag); d == nil || d.val != hook {
					t.Errorf("dynamic entry %+v, want value %#x", d, hook)
				}
			}
			if c.word != 0 {
				off, addend, err := r.file.relativeAddend(c.word)
				if off == 0 || addend != hook || err != nil {
					t.Errorf("the relocation of %#x has addend %#x (%v), want %#x", c.word, addend, err, hook)
				}
				if w, _ := r.file.word(c.word); w != hook {
					t.Errorf("the word itself is %#x, want %#x: prelink skips relocations", w, hook)
				}
			}
			if c.next != none {
				if got := holeTarget(out, segment, layout.InitHole); got != c.next {
					t.Errorf("the hook goes on to %#x, want %#x", got, c.next)
				}
			} else if got := holeTarget(out, segment, layout.InitHole); out[segment.off+got-segment.vaddr] != 0xc3 {
				t.Errorf("the hook goes on to %#x, which is no ret", got)
			}
			if got := holeTarget(out, segment, layout.EntryHole); got != testTextOff {
				t.Errorf("the entry hook goes on to %#x, want %#x", got, testTextOff)
			}
		})
	}
}

// holeTarget returns where the rel32 at a hole of the segment leads.
func holeTarget(file []byte, segment *prog, hole uint32) uint64 {
	rel := int32(binary.LittleEndian.Uint32(file[segment.off+uint64(hole):]))
	return segment.vaddr + uint64(hole) + 4 + uint64(int64(rel))
}

// dataVaddrOf is dataVaddr of a value.
func (e testELF) dataVaddrOf() uint64 { return e.dataVaddr() }

// TestHookOutOfReach is a segment so far off that its hooks could not go on to the file's
// own entry and initialiser.
func TestHookOutOfReach(t *testing.T) {
	const fn = testTextOff + 24
	text := append(asm(t, timeStubText), make([]byte, 14)...)
	for _, e := range []testELF{
		{extra: []dyn{{tag: dtInit, val: fn}}},
		{extra: []dyn{{tag: dtInitArray, val: 0}, {tag: dtInitArraysz, val: 8}}, rela: []testRela{{0, rRelative, fn}}},
	} {
		e.dyn, e.soname, e.text, e.data = true, "l", text, le(nil, uint64(fn), uint64(0))
		if len(e.rela) > 0 {
			e.extra[0].val, e.rela[0].at = e.dataVaddr(), e.dataVaddr()
		}
		f := scanFile(t, e.build()).file
		const farthest = 1<<31 - testPage // from a hole in the first page of code to the entry
		for vaddr, want := range map[uint64]uint64{4 * testPage: fn, farthest: fn, farthest + 3*testPage: 0, 1 << 40: 0} {
			h, err := f.planHooks(vaddr, shim.Injected())
			if err != nil {
				t.Fatal(err)
			}
			if h.init != want || (h.entry != 0) != (want != 0) {
				t.Errorf("segment at vaddr %#x: entry %#x, initialiser %#x, want %#x", vaddr, h.entry, h.init, want)
			}
		}
	}
}

// TestNoHook is a library that nothing can be hooked in: the plan says so.
func TestNoHook(t *testing.T) {
	e := testELF{dyn: true, soname: "l", text: asm(t, timeStubText), symbols: []testSym{{"time", testTextOff, 18, sttFunc, 1}}}
	file := e.build()
	// The two DT_NULLs at the end: the second becomes something else, so none is to spare.
	f := scanFile(t, file).file
	binary.LittleEndian.PutUint64(file[f.dynSpare[len(f.dynSpare)-1]:], dtNull)
	binary.LittleEndian.PutUint64(file[f.dynSpare[1]:], 0x6ffffffe)
	p := planFile(t, file, Options{})
	if len(p.Warnings) != 1 || p.Patches[0].Form != Entry {
		t.Errorf("warnings %q, form %v", p.Warnings, p.Patches[0].Form)
	}
	checkPatched(t, file, p, Options{})
}

// TestRelr decodes a table by the example of the gABI proposal: an address and a bitmap.
func TestRelr(t *testing.T) {
	const base = 0x400000
	table := little(uint64(0x10000), uint64(1|1<<1|1<<3|1<<63), uint64(0x20000))
	f := &elfFile{r: bytes.NewReader(table), size: uint64(len(table)),
		progs:   []prog{{typ: ptLoad, vaddr: base, filesz: uint64(len(table)), memsz: uint64(len(table))}},
		dynamic: []dyn{{tag: dtRelr, val: base}, {tag: dtRelrsz, val: uint64(len(table))}}}
	for vaddr, want := range map[uint64]bool{
		0x10000: true, 0x10008: true, 0x10010: false, 0x10018: true, 0x10008 + 62*8: true, 0x10008 + 63*8: false,
		0x1000c: false, 0x20000: true, 0x20008: false, 0: false,
	} {
		if got := f.inRelr(vaddr); got != want {
			t.Errorf("vaddr %#x: got %v, want %v", vaddr, got, want)
		}
	}
}

// TestNoEntry is a library whose e_entry is 0: the first byte of its text segment is no entry.
func TestNoEntry(t *testing.T) {
	e := testELF{dyn: true, soname: "l", text: append(asm(t, timeStubText), 0xc3), extra: []dyn{{tag: dtInit, val: testTextOff + 18}}}
	file := e.build()
	const entryOff = 24
	binary.LittleEndian.PutUint64(file[entryOff:], 0)
	out := checkPatched(t, file, planFile(t, file, Options{}), Options{})
	if got := binary.LittleEndian.Uint64(out[entryOff:]); got != 0 {
		t.Errorf("e_entry became %#x", got)
	}
}
