package patch

import (
	"encoding/binary"
	"slices"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/shim"
)

// TestHooks is about the hooks at load time, and their continuations.
func TestHooks(t *testing.T) {
	const fn = testTextOff + 24 // the initialiser of the file itself
	text := append(asm(t, timeStubText), make([]byte, 14)...)
	array := testELF{dyn: true, soname: "l", text: text, data: le(nil, uint64(fn))}.dataVaddrOf()
	init := elf.Dyn{Tag: elf.DTInit, Val: fn}
	initArray := []elf.Dyn{{Tag: elf.DTInitArray, Val: array}, {Tag: elf.DTInitArraysz, Val: 8}}
	none := uint64(0) // no initialiser of its own: the hole leads to a ret
	for _, c := range []struct {
		name string
		e    testELF
		tag  int64  // whose value is the hook
		word uint64 // vaddr of a word whose relocation's addend is the hook
		next uint64 // the continuation of the hook
		warn bool
	}{
		{"DT_INIT", testELF{extra: []elf.Dyn{init}}, elf.DTInit, 0, fn, false},
		{"DT_INIT before init_array", testELF{extra: append([]elf.Dyn{init}, initArray...), rela: []testRela{{array, elf.RRelative, fn}}}, elf.DTInit, 0, fn, false},
		{"init_array", testELF{extra: initArray, rela: []testRela{{array + 8, elf.RRelative, 0}, {array, elf.RRelative, fn}}}, 0, array, fn, false},
		{"init_array before another", testELF{extra: initArray, rela: []testRela{{array, elf.RRelative, fn}, {array + 8, elf.RRelative, 0}}}, 0, array, fn, false},
		{"an empty init_array", testELF{extra: []elf.Dyn{initArray[0], {Tag: elf.DTInitArraysz, Val: 7}}, rela: []testRela{{array, elf.RRelative, fn}}}, 0, 0, none, true},
		{"init_array without content", testELF{extra: []elf.Dyn{{Tag: elf.DTInitArray, Val: 1 << 30}, initArray[1]}, rela: []testRela{{1 << 30, elf.RRelative, fn}}}, 0, 0, none, true},
		{"init_array without a relocation", testELF{extra: initArray}, 0, 0, none, true},
		{"init_array with packed relocations", testELF{extra: append([]elf.Dyn{{Tag: elf.DTRelr, Val: 8}}, initArray...)}, 0, array, fn, false},
		{"init_array with packed relocations and its own", testELF{extra: append([]elf.Dyn{{Tag: elf.DTRelr, Val: 8}}, initArray...), rela: []testRela{{array, elf.RRelative, fn}}}, 0, array, fn, false},
		{"init_array with another relocation", testELF{extra: initArray, rela: []testRela{{array, 1, fn}}}, 0, 0, none, true},
		{"DT_INIT in data", testELF{extra: []elf.Dyn{{Tag: elf.DTInit, Val: array}}}, 0, 0, none, true},
		{"DT_INIT outside the code", testELF{extra: []elf.Dyn{{Tag: elf.DTInit, Val: 1 << 40}}}, 0, 0, none, true},
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
			segment, version := injected(r.File.File)
			if version != "1" || r.Injected != version {
				t.Errorf("injected version %q, reported as %q", version, r.Injected)
			}
			layout := shim.Injected()
			hook := segment.Vaddr + uint64(layout.InitHook)
			if c.tag != 0 {
				if d := r.File.Dyn(c.tag); d == nil || d.Val != hook {
					t.Errorf("dynamic entry %+v, want value %#x", d, hook)
				}
			}
			if c.word != 0 {
				var addend uint64
				r.File.EachRela(func(r elf.Rela) {
					if r.Type == elf.RRelative && r.At == c.word {
						addend = r.Addend
					}
				})
				if addend != hook && len(c.e.rela) > 0 {
					t.Errorf("the relocation of %#x has addend %#x, want %#x", c.word, addend, hook)
				}
				if w, _ := r.File.Word(c.word); w != hook {
					t.Errorf("the word itself is %#x, want %#x: prelink skips relocations", w, hook)
				}
			}
			if c.next != none {
				if got := holeTarget(out, segment, layout.InitHole); got != c.next {
					t.Errorf("the hook goes on to %#x, want %#x", got, c.next)
				}
			} else if got := holeTarget(out, segment, layout.InitHole); out[segment.Off+got-segment.Vaddr] != 0xc3 {
				t.Errorf("the hook goes on to %#x, which is not a ret", got)
			}
			if got := holeTarget(out, segment, layout.EntryHole); got != testTextOff {
				t.Errorf("the entry hook goes on to %#x, want %#x", got, testTextOff)
			}
		})
	}
}

// holeTarget returns where the rel32 at a hole of the segment leads.
func holeTarget(file []byte, segment *elf.Prog, hole uint32) uint64 {
	rel := int32(binary.LittleEndian.Uint32(file[segment.Off+uint64(hole):]))
	return segment.Vaddr + uint64(hole) + 4 + uint64(int64(rel))
}

// dataVaddrOf is dataVaddr of a value.
func (e testELF) dataVaddrOf() uint64 { return e.dataVaddr() }

// TestHookOutOfReach is a segment from which hooks could not reach the file's own entry and initializer.
func TestHookOutOfReach(t *testing.T) {
	const fn = testTextOff + 24
	text := append(asm(t, timeStubText), make([]byte, 14)...)
	for _, e := range []testELF{
		{extra: []elf.Dyn{{Tag: elf.DTInit, Val: fn}}},
		{extra: []elf.Dyn{{Tag: elf.DTInitArray, Val: 0}, {Tag: elf.DTInitArraysz, Val: 8}}, rela: []testRela{{0, elf.RRelative, fn}}},
	} {
		e.dyn, e.soname, e.text, e.data = true, "l", text, le(nil, uint64(fn), uint64(0))
		if len(e.rela) > 0 {
			e.extra[0].Val, e.rela[0].at = e.dataVaddr(), e.dataVaddr()
		}
		f := fileOf(scanFile(t, e.build()))
		const farthest = 1<<31 - testPage // from a hole in the first page of code to the entry
		before := uint64(testTextOff)     // the segment at the other end of the address space, as far from the entry
		before -= 1 << 31
		for vaddr, want := range map[uint64]uint64{before: 0, 4 * testPage: fn, farthest: fn, farthest + testPage: 0, farthest + 3*testPage: 0, 1 << 40: 0} {
			h := f.planHooks(vaddr, shim.Injected())
			if h.init != want || (h.entry != 0) != (want != 0) {
				t.Errorf("segment at vaddr %#x: entry %#x, initialiser %#x, want %#x", vaddr, h.entry, h.init, want)
			}
		}
	}
}

// TestProgramHook: the entry of a program at a fixed address runs before its initializers, which stay.
func TestProgramHook(t *testing.T) {
	e := testELF{dynamic: true, interp: "/ld.so", text: append(asm(t, timeStubText), 0xc3), extra: []elf.Dyn{{Tag: elf.DTInit, Val: testBase + testTextOff + 18}}}
	file := e.build()
	p := planFile(t, file, Options{})
	var why []string
	for _, edit := range p.Edits {
		why = append(why, edit.Why)
	}
	if !slices.Contains(why, "e_entry") || slices.Contains(why, "DT_INIT") {
		t.Errorf("got %q", why)
	}
	checkPatched(t, file, p, Options{})
}

// TestNoEntry is a library whose e_entry is 0: the first byte of its text segment is not an entry.
func TestNoEntry(t *testing.T) {
	e := testELF{dyn: true, soname: "l", text: append(asm(t, timeStubText), 0xc3), extra: []elf.Dyn{{Tag: elf.DTInit, Val: testTextOff + 18}},
		symbols: []testSym{{"time", testTextOff, 18, elf.STTFunc, 1}}}
	file := e.build()
	const entryOff = 24
	binary.LittleEndian.PutUint64(file[entryOff:], 0)
	out := checkPatched(t, file, planFile(t, file, Options{}), Options{})
	if got := binary.LittleEndian.Uint64(out[entryOff:]); got != 0 {
		t.Errorf("e_entry became %#x", got)
	}
	if was := fileOf(scanFile(t, out)).was; was == nil || was.hooks.init != testTextOff+18 {
		t.Errorf("the patched file: %+v", was)
	}
}
