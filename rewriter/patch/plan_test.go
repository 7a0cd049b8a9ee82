package patch

import (
	"bytes"
	debugelf "debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// Machine code of the tests.
const (
	movRaxTime   = "48c7c0000460ff"
	movRdxTime   = "48c7c2000460ff"
	callRax      = "ffd0"
	timeStubText = "4883ec08" + movRaxTime + callRax + "4883c408 c3"
	pushed       = "53" + movRaxTime + callRax + "5b c3"
	apartText    = movRaxTime + "31ff" + callRax + "c3"
	chosenText   = movRdxTime + "4885c0 480f45d0 644833142530000000 48c1c211 488915 00100000 c3" // cmov, mangled, stored
	storeText    = "55 4889e5 48c745f8000460ff 488b45f8 31ff ffd0 c9 c3"
	storeFarText = "55 4889e5 48c78578ffffff000460ff 488b8578ffffff 31ff ffd0 c9 c3"
)

// TestForms: the form of a site, its bytes and its reason.
func TestForms(t *testing.T) {
	const at = testBase + testTextOff
	hole := uint64(at + testPage) // the segment: behind the text, where the 2 MiB layout has its hole
	layout := shim.Injected()
	keep, plain := layout.Time.Keep, layout.Time.Plain
	rel := func(next uint64, to uint32) string { return fmt.Sprintf("%x", le(nil, uint32(hole+uint64(to)-next))) }
	public := []testSym{{"time", testTextOff, 18, elf.STTFunc, 1}}
	libc := testELF{dyn: true, dynamic: true, soname: "libc.so.6", symbols: public}
	libcRel := func(next uint64, to uint32) string {
		return fmt.Sprintf("%x", le(nil, uint32(testPage+uint64(to)-next)))
	}
	goNote := testELF{noteSection: ".note.go.buildid"}
	none := testELF{notes: -1}
	manyHeaders := func(b []byte) []byte { // the last of them is other bytes, which look like an unused one
		copy(b[elf.EhdrSize+int(b[56])*elf.PhdrSize+4:], strings.Repeat("data", 13))
		b[56]++
		return b
	}
	overlay := func(b []byte) []byte { return append(b, "PK\x05\x06 an archive"...) }
	for _, c := range []struct {
		name   string
		e      testELF
		text   string
		change func([]byte) []byte
		o      Options
		form   Form
		cause  Cause
		after  string
	}{
		{"time of libc.so.6", libc, timeStubText, nil, Options{}, Entry, WholeStub, "e9" + libcRel(5, plain) + "660f1f440000"},
		{"another function of libc.so.6", testELF{dyn: true, dynamic: true, soname: "libc.so.6", symbols: []testSym{{"times", testTextOff, 18, elf.STTFunc, 1}}},
			timeStubText, nil, Options{}, Entry, WholeStub, "e9" + libcRel(5, keep) + "660f1f440000"},
		{"time of another library", testELF{dyn: true, dynamic: true, soname: "libx.so", symbols: public}, timeStubText, nil, Options{}, Entry, WholeStub, "e9" + libcRel(5, keep) + "660f1f440000"},
		{"time of a static program", testELF{}, timeStubText, nil, Options{}, Entry, WholeStub, "e9" + rel(at+5, keep) + "660f1f440000"},
		{"a stub without alignment", testELF{}, movRaxTime + "ffd0c3", nil, Options{}, Entry, WholeStub, "e9" + rel(at+5, keep) + "6690"},
		{"a stub with movabs and jmp", testELF{}, "48b8000460ffffffffff ffe0", nil, Options{}, Entry, WholeStub, "e9" + rel(at+5, keep) + "0f1f440000"},
		{"mov, call", testELF{}, pushed, nil, Options{}, Lea, OnlyCalled, "488d05" + rel(at+8, keep)},
		{"apart", testELF{}, apartText, nil, Options{}, Lea, OnlyCalled, "488d05" + rel(at+7, keep)},
		{"movabs r11", testELF{}, "53 49bb000460ffffffffff 41ffd3 5b c3", nil, Options{}, Lea, OnlyCalled, "0f1f00 4c8d1d" + rel(at+11, keep)},
		{"a store", testELF{}, storeText, nil, Options{}, Imm, FrameWord, "48c745f8" + fmt.Sprintf("%x", le(nil, uint32(hole+uint64(keep))))},
		{"Go", goNote, pushed, nil, Options{}, Syscall, SmallStack, "48c7c0c9000000 0f05"},
		{"Go, a tail jump", goNote, "53 5b" + movRaxTime + "ffe0", nil, Options{}, Syscall, SmallStack, "b8c9000000 0f05 c3 90"},
		{"Go, apart", goNote, apartText, nil, Options{}, Left, NotForGo, ""},
		{"no PT_NOTE", none, pushed, nil, Options{}, Left, NoRoom, ""},
		{"no PT_NOTE, a stub", none, timeStubText, nil, Options{}, Syscall, NoRoomStub, "51 4153 b8c9000000 0f05 415b 59 c3"},
		{"no PT_NOTE, a short stub", none, movRaxTime + "ffd0c3", nil, Options{}, Left, NoRoom, ""},
		{"no PT_NOTE, unknown", none, movRaxTime + "4839c7 c3", nil, Options{}, Left, ByVerdict, ""},
		{"no PT_NOTE, and the headers of a PIE", testELF{dyn: true, soname: "p", interp: "/ld.so", notes: -1, phdr: true}, pushed, nil, Options{}, Left, NoRoom, ""},
		{"something appended", testELF{}, pushed, overlay, Options{}, Left, NoRoom, ""},
		{"a program header too many", none, pushed, manyHeaders, Options{}, Left, NoRoom, ""},
		{"dormant alone", testELF{}, chosenText, nil, Options{}, Left, Unneeded, ""},
		{"dormant, requested", testELF{}, chosenText, nil, Options{Dormant: true}, Lea, OnlyCalled, "488d15" + rel(at+7, keep)},
		{"unknown", testELF{}, movRaxTime + "4839c7 c3", nil, Options{}, Left, ByVerdict, ""},
		{"Go, a store", goNote, storeText, nil, Options{}, Left, NotForGo, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.text = asm(t, c.text)
			file := c.e.build()
			if c.change != nil {
				file = c.change(file)
			}
			p := planFile(t, file, c.o)
			if len(p.Patches) != 1 {
				t.Fatalf("got %+v", p.Patches)
			}
			q := p.Patches[0]
			if want := asm(t, c.after); q.Form != c.form || !bytes.Equal(q.After, want) || q.Reason.Cause != c.cause || q.Reason.String() == "" {
				t.Errorf("got %v % x (%s); want %v % x", q.Form, q.After, q.Reason, c.form, want)
			}
			dormant := q.Site.Verdict == find.Dormant
			if (c.form == Left) != p.Empty() || (c.form == Left && !dormant) != (len(p.LeftOver()) == 1) {
				t.Errorf("form %v, but %d edits and %d left over", c.form, len(p.Edits), len(p.LeftOver()))
			}
			checkPatched(t, file, p, c.o)
		})
	}
}

// TestWithoutRoom: only a whole stub that is long enough becomes a system call.
func TestWithoutRoom(t *testing.T) {
	for _, c := range []struct {
		form  Form
		stub  uint64
		want  Form
		cause Cause
	}{
		{Left, 18, Left, NotForGo},
		{Syscall, 0, Syscall, NotForGo},
		{Entry, exactLen, Syscall, NoRoomStub},
		{Entry, exactLen - 1, Left, NoRoom},
	} {
		s := find.Site{Stub: find.Extent{Len: c.stub}}
		if form, reason := withoutRoom(&s, c.form, Reason{Cause: NotForGo}, "why"); form != c.want || reason.Cause != c.cause {
			t.Errorf("%+v: got %v, %v", c, form, reason)
		}
	}
}

// TestOutOfReach: a displacement of 32 bits leads to the trampoline from the whole instruction, or there is no code.
func TestOutOfReach(t *testing.T) {
	e := testELF{dyn: true, soname: "l", text: asm(t, timeStubText), extra: []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}}
	p := planFile(t, e.build(), Options{})
	s := p.Patches[0].Site
	const far = 1 << 31
	keep := uint64(shim.Injected().Time.Keep)
	for _, form := range []Form{Entry, Lea} {
		for segment, want := range map[uint64]bool{far - keep: true, far + 0x800: true, far + 0x1000 + testPage: false, 1 << 40: false, s.Vaddr - far - keep - testPage: false} {
			if _, _, err := p.encode(&s, form, segment); (err == nil) != want {
				t.Errorf("%v, segment at vaddr %#x: got %v", form, segment, err)
			}
		}
	}
}

// TestDormantBeside: a dormant site is patched in a file that has a live one.
func TestDormantBeside(t *testing.T) {
	const second = 48
	e := testELF{text: append(pad(asm(t, chosenText), second), asm(t, pushed)...)}
	e.symbols = []testSym{{"f", e.textVaddr(), second, elf.STTFunc, 0}, {"g", e.textVaddr() + second, 12, elf.STTFunc, 0}}
	file := e.build()
	p := planFile(t, file, Options{})
	if len(p.Patches) != 2 || p.Patches[0].Form != Lea || p.Patches[1].Form != Lea {
		t.Errorf("got %+v", p.Patches)
	}
	checkPatched(t, file, p, Options{})
}

// TestAside: in a file without a fixed address, a store becomes a jump to code that stores the trampoline's address.
func TestAside(t *testing.T) {
	for text, word := range map[string]string{storeText: "45f8", storeFarText: "8578ffffff"} {
		e := testELF{dyn: true, soname: "l", text: asm(t, text), extra: []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}}
		e.symbols = []testSym{{"f", e.textVaddr(), uint64(len(e.text)), elf.STTFunc, 0}}
		file := e.build()
		p := planFile(t, file, Options{})
		q := p.Patches[0]
		if q.Form != Imm || len(q.After) != int(q.Site.Len) || q.After[len(q.After)-jumpLen] != 0xe9 {
			t.Fatalf("got %v % x: %s", q.Form, q.After, q.Reason)
		}
		after := scanFile(t, checkPatched(t, file, p, Options{})).File
		segment, _ := injected(after.File)
		next := q.Site.Vaddr + uint64(q.Site.Len)
		at := next + elf.Signed(q.After[len(q.After)-4:])
		code := after.Mem(at, asideLen)
		n := len(asm(t, word))
		want := asm(t, "4889"+word+"488d05")
		if !bytes.HasPrefix(code, want) || at != segment.Vaddr+uint64(asideStart()) {
			t.Fatalf("aside at %#x: % x", at, code)
		}
		lea := at + uint64(len(want)) + 4
		if got := lea + elf.Signed(code[len(want):]); got != segment.Vaddr+uint64(shim.Injected().Time.Keep) {
			t.Errorf("stores %#x", got)
		}
		rest := code[len(want)+4:]
		if !bytes.HasPrefix(rest, asm(t, "4887"+word+"e9")) {
			t.Fatalf("behind the lea: % x", rest)
		}
		if back := lea + uint64(2+n) + jumpLen + elf.Signed(rest[2+n+1:]); back != next {
			t.Errorf("continues at %#x, want %#x", back, next)
		}
	}
}

// TestGoWord: a word of Go's data gets the address of a system call if all code that refers to it calls it.
func TestGoWord(t *testing.T) {
	for _, c := range []struct {
		name, text string
		dyn        bool
		want       Form
	}{
		{"called", "488b0425WORD ffd0 c3", false, Imm},
		{"called relative to rip", "488b05NEAR ffd0 c3", false, Imm},
		{"called twice", "488b0425WORD ffd0 488b05NEAR ffd0 c3", false, Imm},
		{"compared", "488b0425WORD ffd0 483b0425WORD c3", false, Left},
		{"called, and loaded where another register is called", "488b0425WORD ffd0 488b05NEAR ffd3 c3", false, Left},
		{"jumped to", "488b0425WORD ffe0", false, Left},
		{"loaded, and not called", "488b0425WORD 31ff ffd0 c3", false, Left},
		{"not referred to", "c3", false, Left},
		{"in a PIE", "488b05NEAR ffd0 c3", true, Left},
	} {
		e := testELF{dyn: c.dyn, noteSection: ".note.go.buildid", data: le(nil, find.Gettimeofday.Vaddr())}
		if c.dyn {
			e.soname, e.interp = "p", "/ld.so"
		}
		e.text = make([]byte, 64) // for the place of the data
		for _, part := range strings.Split(strings.NewReplacer("WORD", "|W|", "NEAR", "|N|").Replace(c.text), "|") {
			n := len(e.text) - 64
			switch part {
			case "W":
				e.text = le(e.text, uint32(e.dataVaddr()))
			case "N":
				e.text = le(e.text, uint32(e.dataVaddr()-(e.textVaddr()+uint64(n)+4)))
			default:
				e.text = append(e.text, asm(t, part)...)
			}
		}
		e.text = pad(e.text[64:], 64)
		file := e.build()
		if p := planFile(t, file, Options{}); !p.Empty() {
			t.Errorf("%s: patched without a request", c.name)
		}
		o := Options{Dormant: true}
		p := planFile(t, file, o)
		if q := p.Patches[0]; len(p.Patches) != 1 || q.Form != c.want || q.Site.Verdict != find.Dormant || q.Reason.String() == "" {
			t.Errorf("%s: got %+v", c.name, p.Patches)
			continue
		}
		out := checkPatched(t, file, p, o)
		if c.want == Imm {
			word, _ := scanFile(t, out).File.Word(e.dataVaddr())
			if got := scanFile(t, out).File.Mem(word, 8); !bytes.Equal(got, asm(t, "b860000000 0f05 c3")) {
				t.Errorf("%s: the word leads to % x", c.name, got)
			}
		}
	}
}

// TestImmFar: a store has room for addresses below 2 GiB only, and code aside must fit.
func TestImmFar(t *testing.T) {
	store := find.Site{Kind: find.StoreImm32, Function: find.Time, Vaddr: 1 << 30, Len: 8}
	far := maxImm - trampoline(&store, Imm)
	for segment, stays := range map[uint64]bool{far - 1: true, far: false} {
		p := &Plan{file: &file{File: &find.File{File: &elf.File{Type: elf.TypeExec}}}}
		code, err := p.imm(&store, segment, asm(t, "48c745f8000460ff"))
		if err != nil || len(code) != 8 || (code[0] == 0x48) != stays || (len(p.aside) == 0) != stays {
			t.Errorf("segment at %#x: got % x, %v", segment, code, err)
		}
	}
	p := &Plan{aside: make([]byte, maxAside)}
	if _, err := p.imm(&find.Site{Kind: find.DataWord}, testBase, nil); err == nil {
		t.Error("no space: no error")
	}
}

// TestManyAside: code aside takes a part of the page; other stores are left.
func TestManyAside(t *testing.T) {
	const each, n = 32, maxAside/asideLen + 3
	e := testELF{dyn: true, soname: "l", extra: []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}}
	for i := range n {
		e.text = append(e.text, pad(asm(t, storeText), each)[:each]...)
		e.symbols = append(e.symbols, testSym{"f", e.textVaddr() + uint64(each*i), each, elf.STTFunc, 0})
	}
	file := e.build()
	p := planFile(t, file, Options{})
	if left := p.LeftOver(); len(left) != 3 || left[0].Reason.Cause != NoRoom {
		t.Errorf("%d of %d left", len(left), n)
	}
	checkPatched(t, file, p, Options{})
}

// TestSegment: the place of the injected segment, its headers, and what stays.
func TestSegment(t *testing.T) {
	text := asm(t, timeStubText)
	large := append(bytes.Clone(text), make([]byte, 0x1ff000-testTextOff-len(text))...) // a page short of 2 MiB
	needed := []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}
	for _, c := range []struct {
		name  string
		e     testELF
		vaddr uint64
		index int // among the PT_LOADs
	}{
		{"hole of the 2 MiB layout", testELF{}, testBase + 2*testPage, 1},
		{"behind the last segment", testELF{tight: true}, testBase + 3*testPage, 2},
		{"library", testELF{dyn: true, tight: true, soname: "libx.so.1", extra: needed}, 3 * testPage, 2},
		{"the hole of a library ends at p_align", testELF{dyn: true, soname: "libx.so.1", text: large, extra: needed}, 0x400000, 2},
		{"the hole of a program does not", testELF{text: large}, testBase + 0x1ff000, 1},
		{"no section headers", testELF{bare: true}, testBase + 2*testPage, 1},
		{"the build id is kept", testELF{notes: 2}, testBase + 2*testPage, 1},
		{"a note without a build id is spent first", testELF{notes: 2, phdr: true, dynamic: true}, testBase + 2*testPage, 1},
		{"the program headers' own header is spent", testELF{notes: -1, phdr: true, dynamic: true}, testBase + 2*testPage, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.e.text == nil {
				c.e.text = text
			}
			file := c.e.build()
			p := planFile(t, file, Options{})
			if len(p.Notes) > 0 { // no build ID is spent
				t.Errorf("notes %q", p.Notes)
			}
			out := checkPatched(t, file, p, Options{})
			before, _ := debugelf.NewFile(bytes.NewReader(file))
			after, err := debugelf.NewFile(bytes.NewReader(out))
			if err != nil || len(after.Progs) != len(before.Progs) {
				t.Fatalf("got %d program headers, want %d: %v", len(after.Progs), len(before.Progs), err)
			}
			var loads []*debugelf.Prog
			for _, q := range after.Progs {
				if q.Type == debugelf.PT_LOAD {
					loads = append(loads, q)
				}
				if q.Type == debugelf.PT_NOTE && binary.LittleEndian.Uint32(out[q.Off+8:]) != 3 {
					t.Error("the note with the build id was spent")
				}
			}
			if !slices.IsSortedFunc(loads, func(a, b *debugelf.Prog) int { return int(int64(a.Vaddr) - int64(b.Vaddr)) }) {
				t.Error("segments out of order")
			}
			got := loads[c.index]
			if got.Vaddr != c.vaddr || got.Flags != debugelf.PF_R|debugelf.PF_X || got.Filesz != shim.SegmentSize || got.Memsz != shim.SegmentSize || got.Off%testPage != 0 {
				t.Errorf("got %+v, want vaddr %#x", got.ProgHeader, c.vaddr)
			}
			if s := after.Section(injectedName); (s == nil) != c.e.bare || s != nil && (s.Addr != c.vaddr || s.Size != shim.SegmentSize || s.Offset != got.Off) {
				t.Errorf("section %+v does not cover the segment", s)
			}
			if moved := after.Section(movedName); !c.e.bare && (moved == nil || moved.Size != 0 || moved.Addralign != 1) {
				t.Errorf("what is left of .shstrtab: %+v", moved)
			}
			headers := func(q *debugelf.Prog) bool { return q.Type == debugelf.PT_PHDR }
			if got := slices.ContainsFunc(after.Progs, headers); got != (c.e.phdr && c.e.notes > 0) {
				t.Errorf("PT_PHDR: %v", got)
			}
			if want := c.vaddr + uint64(shim.Injected().EntryHook); after.Entry != want {
				t.Errorf("e_entry %#x, want %#x", after.Entry, want)
			}
			for _, s := range before.Sections {
				if a := after.Section(s.Name); s.Name != ".shstrtab" && (a == nil || a.SectionHeader != s.SectionHeader) {
					t.Errorf("section %s changed: %+v", s.Name, a)
				}
			}
		})
	}
}

// TestBuildID: the note with the build ID is spent if a file has no other header to spare, and a note says so.
func TestBuildID(t *testing.T) {
	e := testELF{text: asm(t, timeStubText)}
	file := e.build()
	before, err := debugelf.NewFile(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range before.Progs {
		if q.Type == debugelf.PT_NOTE {
			file[q.Off+8] = 3 // NT_GNU_BUILD_ID
		}
	}
	p := planFile(t, file, Options{})
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "the build ID is no longer") {
		t.Errorf("notes %q", p.Notes)
	}
	checkPatched(t, file, p, Options{})
}

// TestInterpreter: nothing may follow the .bss of a possible interpreter.
func TestInterpreter(t *testing.T) {
	for _, c := range []struct {
		name string
		e    testELF
		form Form
	}{
		{"interpreter", testELF{tight: true, soname: "ld.so"}, Syscall},
		{"interpreter without .bss", testELF{tight: true, soname: "ld.so"}, Entry},
		{"interpreter with a hole", testELF{soname: "ld.so"}, Entry},
		{"library that needs another", testELF{tight: true, extra: []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}}, Entry},
		{"static-pie", testELF{tight: true, extra: []elf.Dyn{{Tag: elf.DTFlags1, Val: elf.DF1PIE}}}, Entry},
		{"PIE", testELF{tight: true, soname: "p", interp: "/ld.so"}, Entry},
	} {
		c.e.dyn, c.e.text = true, asm(t, timeStubText)
		file := c.e.build()
		if strings.Contains(c.name, "without .bss") {
			data := elf.EhdrSize + elf.PhdrSize // the second program header
			copy(file[data+40:], file[data+32:data+40])
		}
		p := planFile(t, file, Options{})
		if got := p.Patches[0]; got.Form != c.form {
			t.Errorf("%s: form %v, want %v: %s", c.name, got.Form, c.form, got.Reason)
		}
		checkPatched(t, file, p, Options{})
	}
}

// TestVerifyFinds changes one byte of a patched file at a time.
func TestVerifyFinds(t *testing.T) {
	e := testELF{text: append(asm(t, timeStubText), make([]byte, 64)...)}
	file := e.build()
	good := applyPlan(t, planFile(t, file, Options{}), file)
	if err := verify(file, good, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, off := range []int{4, 24, elf.EhdrSize + 4, testTextOff, testTextOff + 40, len(file) - 1, len(file) + 1, len(good) - 1} {
		bad := bytes.Clone(good)
		bad[off] ^= 0x10
		if err := verify(file, bad, Options{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("offset %#x", off)) {
			t.Errorf("byte at offset %#x changed: got error %v", off, err)
		}
	}
	for name, bad := range map[string][]byte{"unpatched": file, "shorter": good[:len(good)-8], "longer": append(bytes.Clone(good), 0)} {
		if err := verify(file, bad, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestPlanOfSkipped: files that are not for vfix stay, and a change of one is noticed.
func TestPlanOfSkipped(t *testing.T) {
	for _, file := range []string{"", "#!/bin/sh\n", "\x7fELF"} {
		if p := planFile(t, []byte(file), Options{}); !p.Empty() || len(p.Patches) != 0 {
			t.Errorf("%q: %+v", file, p)
		}
		if err := verify([]byte(file), []byte(file), Options{}); err != nil {
			t.Errorf("%q: %v", file, err)
		}
		if err := verify([]byte(file), []byte(file+"x"), Options{}); err == nil {
			t.Errorf("%q: a change was not noticed", file)
		}
	}
}

// TestOverlappingFields is a hostile file whose program headers lie over its call site.
func TestOverlappingFields(t *testing.T) {
	e := testELF{text: asm(t, timeStubText)}
	file := e.build()
	copy(file[testTextOff+64:], file[elf.EhdrSize:][:5*elf.PhdrSize])
	binary.LittleEndian.PutUint64(file[32:], testTextOff+8) // e_phoff
	copy(file[testTextOff+8:], file[elf.EhdrSize:][:3*elf.PhdrSize])
	p := planFile(t, file, Options{})
	if !p.Empty() {
		t.Errorf("planned: %+v", p.Patches)
	}
}

// TestExplain: the listing before and after, with the name of the injected code.
func TestExplain(t *testing.T) {
	e := testELF{text: asm(t, timeStubText)}
	p := planFile(t, e.build(), Options{Explain: true})
	l := p.Patches[0].Listing
	if l == nil || len(l.Before) != 5 || !strings.Contains(l.After[0].Text, "<keep_time>") || !l.After[0].Changed || !l.After[len(l.After)-1].Dead {
		t.Errorf("got %+v", l)
	}
	for _, line := range l.After {
		if behind := line.Vaddr > e.textVaddr() && line.Vaddr < e.textVaddr()+18; line.Dead != behind {
			t.Errorf("got %+v", line)
		}
	}
	e.text = asm(t, pushed)
	l = planFile(t, e.build(), Options{Explain: true}).Patches[0].Listing
	if l == nil || len(l.After) != 5 || !strings.Contains(l.After[1].Text, "<keep_time>") {
		t.Errorf("of another form: got %+v", l)
	}
	for i, line := range l.After {
		if line.Dead || line.Changed != (i == 1) || strings.Contains(line.Text, "<") != (i == 1) {
			t.Errorf("of another form: got %+v", line)
		}
	}
	e.text = asm(t, "53"+movRaxTime+"4839c7 5b c3")
	if l := planFile(t, e.build(), Options{Explain: true}).Patches[0].Listing; l == nil || len(l.Before) == 0 || l.After != nil {
		t.Errorf("of a site that stays: %+v", l)
	}
}
