package patch

import (
	"bytes"
	debugelf "debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// setsAll overwrites every register that C code may change but rax.
const setsAll = "31c9 31d2 31f6 31ff 4531c0 4531c9 4531d2 4531db"

// leaRaxTime is the address as a displacement.
const leaRaxTime = "488d0425 000460ff"

const timeStubText = subRsp + movRaxTime + callRax + addRsp + "c3"

// planFile scans a file and plans it.
func planFile(t testing.TB, file []byte, o Options) *Plan {
	t.Helper()
	p, err := NewPlan(scanFile(t, file), o)
	if err != nil {
		t.Fatal(err)
	}
	note(t, planned(p))
	return p
}

// applyPlan returns the patched file, and compares it with the recorded result.
func applyPlan(t testing.TB, p *Plan, file []byte) []byte {
	t.Helper()
	out, err := io.ReadAll(p.Apply(bytes.NewReader(file)))
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(out)) != p.Size {
		t.Fatalf("got %d bytes, want %d", len(out), p.Size)
	}
	note(t, string(out)+planned(p))
	return out
}

// TestForms is about the form that a site gets, and its bytes.
func TestForms(t *testing.T) {
	const at = testBase + testTextOff
	fn := []testSym{{"f", at, 100, elf.STTFunc, 0}}
	public := []testSym{{"time", at, 18, elf.STTFunc, 1}}
	overlay := func(b []byte) []byte { return append(b, "PK\x05\x06 an archive"...) }
	// The rel32 is computed here from the place of the segment: behind the text, where the
	// 2 MiB layout has its hole.
	hole := uint64(at + testPage)
	layout := shim.Injected()
	rel := func(from uint64, to uint32) string { return fmt.Sprintf("%x", le(nil, uint32(hole+uint64(to)-from-4))) }
	libc := testELF{dyn: true, dynamic: true, soname: "libc.so.6", symbols: []testSym{{"time", testTextOff, 18, elf.STTFunc, 1}}}
	libcRel := func(from uint64, to uint32) string {
		return fmt.Sprintf("%x", le(nil, uint32(testPage+uint64(to)-from-4)))
	}
	for _, c := range []struct {
		name   string
		e      testELF
		text   string
		change func([]byte) []byte
		forms  []Form
		form   Form
		after  string
		reason string // part of it
	}{
		{"time of libc.so.6", libc, timeStubText, nil, nil, Entry, "e9" + libcRel(1, layout.Time.Plain) + "660f1f440000", "stub"},
		{"time of a static program", testELF{symbols: public, comment: gcc4}, timeStubText + glibc, nil, nil, Entry, "e9" + rel(at+1, layout.Time.Keep) + "660f1f440000", "stub"},
		{"a stub of a local function", testELF{symbols: fn}, timeStubText, nil, nil, Entry, "e9" + rel(at+1, layout.Time.Keep) + "660f1f440000", "stub"},
		{"mov, call", testELF{symbols: fn}, "53" + movRaxTime + callRax + "5b c3", nil, nil, Lea, "488d05" + rel(at+4, layout.Time.Keep), "only called"},
		{"mov, call of a public function", testELF{symbols: public}, "53" + movRaxTime + callRax + "5b c3", nil, nil, Lea, "488d05" + rel(at+4, layout.Time.Keep), "only called"},
		{"lea, call", testELF{symbols: fn}, "53" + leaRaxTime + callRax + "5b c3", nil, nil, Lea, "90 488d05" + rel(at+5, layout.Time.Keep), "only called"},
		{"lea, apart", testELF{symbols: fn}, leaRaxTime + "31ff" + callRax + "c3", nil, nil, Lea, "90 488d05" + rel(at+4, layout.Time.Keep), "only called"},
		{"mov, jmp behind other code", testELF{symbols: fn}, "31c9" + movRaxTime + "ffe0", nil, nil, Lea, "488d05" + rel(at+5, layout.Time.Keep), "only called"},
		{"movabs r11, call", testELF{symbols: fn}, "53 49bb 000460ffffffffff 41ffd3 5b c3", nil, nil, Lea, "0f1f00 4c8d1d" + rel(at+7, layout.Time.Keep), "only called"},
		{"a stub with movabs", testELF{symbols: fn}, "4883ec08 48b8 000460ffffffffff ffd0 4883c408 c3", nil, nil, Entry, "e9" + rel(at+1, layout.Time.Keep) + "0f1f840000000000 90", "stub"},
		{"a stub with movabs and jmp", testELF{symbols: fn}, "48b8 000460ffffffffff ffe0", nil, nil, Entry, "e9" + rel(at+1, layout.Time.Keep) + "0f1f440000", "stub"},
		{"apart", testELF{symbols: fn}, movRaxTime + "31ff" + callRax + "c3", nil, nil, Lea, "488d05" + rel(at+3, layout.Time.Keep), "only called"},
		{"a hoisted register, called twice", testELF{symbols: fn}, "4155 49c7c5 000460ff 41ffd5 41ffd5 415d c3", nil, nil, Lea, "4c8d2d" + rel(at+5, layout.Time.Keep), "2 times"},
		{"a call reached from elsewhere", testELF{symbols: fn}, "4885ff 7407" + movRaxTime + callRax + "c3", nil, nil, Lea, "488d05" + rel(at+8, layout.Time.Keep), "only called"},
		{"Go", testELF{symbols: fn, noteSection: ".note.go.buildid"}, "53" + movRaxTime + callRax + "5b c3", nil, nil, Syscall, "48c7c0c9000000 0f05", "Go"},
		{"Go, apart", testELF{symbols: fn, noteSection: ".note.go.buildid"}, movRaxTime + "31ff" + callRax + "c3", nil, nil, Left, "", "not adjacent"},
		{"no PT_NOTE, rcx and r11 may be needed", testELF{symbols: fn, full: true, notes: -1}, "53" + movRaxTime + callRax + "5b c3", nil, nil, Left, "", "rcx and r11"},
		{"no PT_NOTE", testELF{symbols: fn, full: true, notes: -1}, "53" + movRaxTime + callRax + "5b" + setsAll + "c3", nil, nil, Syscall, "48c7c0c9000000 0f05", "PT_NOTE"},
		{"no PT_NOTE, a tail jump", testELF{symbols: fn, full: true, notes: -1, comment: gcc4}, movRaxTime + "ffe0", nil, nil, Left, "", "rcx and r11"},
		{"no PT_NOTE, apart", testELF{symbols: fn, full: true, notes: -1}, movRaxTime + "31ff" + callRax + "c3", nil, nil, Left, "", "PT_NOTE"},
		{"something appended", testELF{symbols: fn, comment: gcc4}, timeStubText + glibc, overlay, nil, Syscall, "51 4153 b8c9000000 0f05 415b 59 c3", "15 bytes"},
		{"a direct call", testELF{symbols: fn}, fmt.Sprintf("e8 %x c3", directCall(0)[1:5]), nil, nil, Call, "e8" + rel(at+1, layout.Time.Keep), "direct"},
		{"a direct call, only lea allowed", testELF{symbols: fn}, fmt.Sprintf("e8 %x c3", directCall(0)[1:5]), nil, []Form{Lea}, Left, "", "direct"},
		{"Go, only lea allowed", testELF{symbols: fn, noteSection: ".note.go.buildid"}, "53" + movRaxTime + callRax + "5b c3", nil, []Form{Lea}, Left, "", "Go"},
		{"only lea allowed", testELF{symbols: public}, timeStubText, nil, []Form{Lea}, Lea, "488d05" + rel(at+7, layout.Time.Keep), ""},
		{"only call allowed", testELF{symbols: public, comment: gcc4}, timeStubText + glibc, nil, []Form{Call}, Left, "", "no form is allowed"},
		{"only syscall allowed", testELF{symbols: public, comment: gcc4}, timeStubText + glibc, nil, []Form{Syscall}, Syscall, "51 4153 b8c9000000 0f05 415b 59 c3", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.text = asm(t, c.text)
			file := c.e.build()
			if c.change != nil {
				file = c.change(file)
			}
			p := planFile(t, file, Options{Forms: c.forms})
			if len(p.Patches) != 1 {
				t.Fatalf("got %+v", p.Patches)
			}
			q := p.Patches[0]
			if want := asm(t, c.after); q.Form != c.form || !bytes.Equal(q.After, want) || !strings.Contains(q.Reason, c.reason) {
				t.Errorf("got %v % x (%s); want %v % x (%s)", q.Form, q.After, q.Reason, c.form, want, c.reason)
			}
			if (c.form == Left) != p.Empty() || (c.form == Left) != (len(p.LeftOver()) == 1) {
				t.Errorf("form %v, but %d edits and %d left over", c.form, len(p.Edits), len(p.LeftOver()))
			}
			checkPatched(t, file, p, Options{Forms: c.forms})
		})
	}
}

// checkPatched applies a plan and checks the properties of every patched file.
func checkPatched(t *testing.T, file []byte, p *Plan, o Options) []byte {
	t.Helper()
	out := applyPlan(t, p, file)
	if _, err := Verify(bytes.NewReader(file), int64(len(file)), bytes.NewReader(out), int64(len(out)), o); err != nil {
		t.Errorf("verify: %v", err)
	}
	if again := planFile(t, out, o); !again.Empty() {
		t.Errorf("the patched file would be patched again: %d edits", len(again.Edits))
	}
	for _, q := range p.Patches {
		if at := q.Site.Offset; q.Form == Entry && bytes.Contains(out[at:at+uint64(q.Site.Len)], asm(t, "60ff")) {
			t.Errorf("the address stays behind the jump: % x", out[at:at+uint64(q.Site.Len)])
		}
	}
	if _, err := debugelf.NewFile(bytes.NewReader(out)); err != nil {
		t.Errorf("debug/elf: %v", err)
	}
	return out
}

// TestSegment is about the place of the injected segment.
func TestSegment(t *testing.T) {
	text := asm(t, timeStubText)
	large := append(bytes.Clone(text), make([]byte, 0x1ff000-testTextOff-len(text))...) // a page short of 2 MiB
	for _, c := range []struct {
		name   string
		e      testELF
		vaddr  uint64
		index  int // among the PT_LOADs
		spent  int // which PT_NOTE is gone, from 0
		header bool
	}{
		{"hole of the 2 MiB layout", testELF{}, testBase + 2*testPage, 1, 0, true},
		{"behind the last segment", testELF{tight: true}, testBase + 3*testPage, 2, 0, true},
		{"library", testELF{dyn: true, tight: true, soname: "libx.so.1", extra: []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}}, 3 * testPage, 2, 0, true},
		{"the hole of a library ends at p_align", testELF{dyn: true, soname: "libx.so.1", text: large, extra: []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}}, 0x400000, 2, 0, true},
		{"the hole of a program does not", testELF{text: large}, testBase + 0x1ff000, 1, 0, true},
		{"no section headers", testELF{bare: true}, testBase + 2*testPage, 1, 0, false},
		{"the build id is kept", testELF{notes: 2}, testBase + 2*testPage, 1, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.e.text == nil {
				c.e.text = text
			}
			file := c.e.build()
			p := planFile(t, file, Options{})
			out := checkPatched(t, file, p, Options{})
			before, _ := debugelf.NewFile(bytes.NewReader(file))
			after, err := debugelf.NewFile(bytes.NewReader(out))
			if err != nil {
				t.Fatal(err)
			}
			if len(after.Progs) != len(before.Progs) {
				t.Fatalf("got %d program headers, want %d", len(after.Progs), len(before.Progs))
			}
			var loads []*debugelf.Prog
			notes := 0
			for _, q := range after.Progs {
				switch q.Type {
				case debugelf.PT_LOAD:
					loads = append(loads, q)
				case debugelf.PT_NOTE:
					notes++
					if id, _ := io.ReadAll(q.Open()); binary.LittleEndian.Uint32(id[8:]) != 3 {
						t.Error("the note with the build id was spent")
					}
				}
			}
			if want := max(c.e.notes, 1) - 1; notes != want {
				t.Errorf("got %d PT_NOTEs, want %d", notes, want)
			}
			for i := 1; i < len(loads); i++ {
				if loads[i].Vaddr < loads[i-1].Vaddr+loads[i-1].Memsz {
					t.Errorf("segment at vaddr %#x is out of order", loads[i].Vaddr)
				}
			}
			got := loads[c.index]
			if got.Vaddr != c.vaddr || got.Flags != debugelf.PF_R|debugelf.PF_X || got.Filesz != shim.SegmentSize || got.Memsz != shim.SegmentSize || got.Off%testPage != 0 {
				t.Errorf("got %+v, want vaddr %#x", got.ProgHeader, c.vaddr)
			}
			if s := after.Section(injectedName); (s != nil) != c.header {
				t.Errorf("section %s: %v", injectedName, s)
			} else if s != nil && (s.Addr != c.vaddr || s.Size != shim.SegmentSize || s.Offset != got.Off) {
				t.Errorf("section %+v does not cover the segment %+v", s.SectionHeader, got.ProgHeader)
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

// TestInterpreter is about possible interpreters of a PT_INTERP: nothing may follow their .bss.
func TestInterpreter(t *testing.T) {
	text := asm(t, timeStubText)
	const (
		pie  = 0x08000000
		none = 1 // stands for 0, which testELF takes for the start of the text
	)
	for _, c := range []struct {
		name string
		e    testELF
		form Form
	}{
		{"interpreter", testELF{tight: true, soname: "ld.so"}, Syscall},
		{"interpreter with a hole", testELF{soname: "ld.so"}, Entry},
		{"library that needs another", testELF{tight: true, extra: []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}}}, Entry},
		{"library that cannot be entered", testELF{tight: true, soname: "l", entry: 1 << 40}, Entry},
		{"library without an entry point", testELF{tight: true, soname: "l", entry: none}, Entry},
		{"static-pie", testELF{tight: true, extra: []elf.Dyn{{Tag: elf.DTFlags1, Val: pie}}}, Entry},
		{"PIE", testELF{tight: true, soname: "p", interp: "/ld.so"}, Entry},
	} {
		c.e.dyn, c.e.text = true, text
		c.e.symbols = []testSym{{"time", testTextOff, 18, elf.STTFunc, 1}}
		file := c.e.build()
		if c.e.entry == none {
			binary.LittleEndian.PutUint64(file[24:], 0) // e_entry
		}
		p := planFile(t, file, Options{})
		if got := p.Patches[0]; got.Form != c.form {
			t.Errorf("%s: form %v, want %v: %s", c.name, got.Form, c.form, got.Reason)
		}
		checkPatched(t, file, p, Options{})
	}
}

// TestBuildIDKept has the note with the build ID before the one without: the second header is replaced.
func TestBuildIDKept(t *testing.T) {
	e := testELF{text: asm(t, timeStubText), notes: 2}
	file := e.build()
	f := scanFile(t, file).File
	types := []byte{3, 1} // NT_GNU_BUILD_ID, NT_GNU_ABI_TAG
	for _, p := range f.Progs {
		if p.Type == elf.PTNote {
			file[p.Off+8] = types[0]
			types = types[1:]
		}
	}
	id := f.Prog(elf.PTNote).Off
	out := checkPatched(t, file, planFile(t, file, Options{}), Options{})
	if left := scanFile(t, out).File.Prog(elf.PTNote); left == nil || left.Off != id {
		t.Errorf("got %+v left, want the note at offset %#x", left, id)
	}
}

// TestVerifyFinds changes one byte of a patched file at a time.
func TestVerifyFinds(t *testing.T) {
	e := testELF{text: append(asm(t, timeStubText), make([]byte, 64)...)}
	file := e.build()
	good := applyPlan(t, planFile(t, file, Options{}), file)
	verify := func(after []byte) error {
		_, err := Verify(bytes.NewReader(file), int64(len(file)), bytes.NewReader(after), int64(len(after)), Options{})
		return err
	}
	if err := verify(good); err != nil {
		t.Fatal(err)
	}
	for _, off := range []int{4, 24, elf.EhdrSize + 4, testTextOff, testTextOff + 40, len(file) - 1, len(file) + 1, len(good) - 1} {
		bad := bytes.Clone(good)
		bad[off] ^= 0x10
		if err := verify(bad); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("offset %#x", off)) {
			t.Errorf("byte at offset %#x changed: got error %v", off, err)
		}
	}
	for name, bad := range map[string][]byte{"unpatched": file, "shorter": good[:len(good)-8], "longer": append(bytes.Clone(good), 0)} {
		if err := verify(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestPlanOfSkipped is about files that are not for vfix.
func TestPlanOfSkipped(t *testing.T) {
	for _, file := range []string{"", "#!/bin/sh\n", "\x7fELF"} {
		if p := planFile(t, []byte(file), Options{}); !p.Empty() || len(p.Patches) != 0 {
			t.Errorf("%q: %+v", file, p)
		}
		if _, err := Verify(strings.NewReader(file), int64(len(file)), strings.NewReader(file), int64(len(file)), Options{}); err != nil {
			t.Errorf("%q: %v", file, err)
		}
		changed := file + "x"
		if _, err := Verify(strings.NewReader(file), int64(len(file)), strings.NewReader(changed), int64(len(changed)), Options{}); err == nil {
			t.Errorf("%q: a change was not noticed", file)
		}
	}
}

// TestOverlappingFields is a hostile file whose program headers lie over its call site.
func TestOverlappingFields(t *testing.T) {
	e := testELF{text: append(asm(t, timeStubText), make([]byte, 512)...)}
	file := e.build()
	n := int(binary.LittleEndian.Uint16(file[56:])) * elf.PhdrSize
	table := bytes.Clone(file[elf.EhdrSize : elf.EhdrSize+n])
	// The last header, a PT_NOTE, ends with the stub in its p_filesz and beyond.
	at := testTextOff - n + 32
	copy(file[at:], table[:n-32])
	binary.LittleEndian.PutUint64(file[32:], uint64(at))
	r := scanFile(t, file)
	if len(r.Sites) != 1 {
		t.Skipf("the file is refused earlier: %s", r.Skipped)
	}
	p, err := NewPlan(r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Empty() || !strings.Contains(p.Patches[0].Reason, "overlaps") {
		t.Errorf("got %+v", p.Patches)
	}
}

// FuzzPlan patches whatever Scan accepts, and proves the result.
func FuzzPlan(f *testing.F) {
	for _, e := range []testELF{
		{text: asm(f, timeStubText)},
		{text: asm(f, timeStubText), dyn: true, tight: true, soname: "libx.so.1", extra: []elf.Dyn{{Tag: elf.DTInit, Val: testTextOff}}},
		{text: asm(f, "53"+movRaxTime+callRax+"5b c3"), notes: -1},
		{text: asm(f, timeStubText), notes: 2, oneNote: true},
		{text: asm(f, timeStubText), tight: true, fdes: []uint64{testBase + testTextOff}, frame: testFrame(plainCIE, testFDE{18, pushRbx})},
		{text: asm(f, movRaxTime+"31ff"+callRax+"c3"), bare: true, notes: 2},
	} {
		f.Add(e.build())
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := Scan(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPlan(r, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if p.Empty() {
			return
		}
		out := applyPlan(t, p, file)
		if _, err := Verify(bytes.NewReader(file), int64(len(file)), bytes.NewReader(out), int64(len(out)), Options{}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestChoose: the form of a site by what is known of it, of the file, and of what is allowed.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name    string
		s       Site
		goFile  bool
		typ     uint16
		allowed []Form
		want    Form
	}{
		{"not live", Site{Kind: MovImm32, Verdict: Dormant}, false, elf.TypeDyn, nil, Left},
		{"a call", Site{Kind: CallRel32}, false, elf.TypeDyn, nil, Call},
		{"a call in Go", Site{Kind: CallRel32}, true, elf.TypeDyn, nil, Left},
		{"a call, not allowed", Site{Kind: CallRel32}, false, elf.TypeDyn, []Form{Lea}, Left},
		{"a push", Site{Kind: PushImm32}, false, elf.TypeDyn, nil, Imm},
		{"a push in a program", Site{Kind: PushImm32}, false, elf.TypeExec, nil, Imm},
		{"a push in Go", Site{Kind: PushImm32}, true, elf.TypeExec, nil, Left},
		{"a push, not allowed", Site{Kind: PushImm32}, false, elf.TypeExec, []Form{Lea}, Left},
		{"a word of data", Site{Kind: DataWord}, false, elf.TypeDyn, nil, Left},
		{"a stub", Site{Kind: MovImm32, Stub: Extent{Len: 18}}, false, elf.TypeDyn, nil, Entry},
		{"a stub, not allowed", Site{Kind: MovImm32, Stub: Extent{Len: 18}}, false, elf.TypeDyn, []Form{Lea}, Lea},
		{"a mov", Site{Kind: MovImm32}, false, elf.TypeDyn, nil, Lea},
		{"a mov, free for a system call", Site{Kind: MovImm32, Free: true}, false, elf.TypeDyn, []Form{Syscall}, Syscall},
		{"a mov, not free", Site{Kind: MovImm32}, false, elf.TypeDyn, []Form{Syscall}, Left},
		{"nothing allowed that fits", Site{Kind: MovImm32, Free: true}, false, elf.TypeDyn, []Form{Call}, Left},
		{"a mov in Go", Site{Kind: MovImm32, Alone: true}, true, elf.TypeExec, nil, Syscall},
		{"a mov in Go, not alone", Site{Kind: MovImm32}, true, elf.TypeExec, nil, Left},
		{"a mov in Go, not allowed", Site{Kind: MovImm32, Alone: true}, true, elf.TypeExec, []Form{Lea}, Left},
	} {
		if c.s.Verdict != Dormant {
			c.s.Verdict = Live
		}
		r := &Report{Go: c.goFile, File: &File{File: &elf.File{Type: c.typ}}}
		if got, why := choose(&c.s, r, c.allowed); got != c.want {
			t.Errorf("%s: form %v: %s", c.name, got, why)
		}
	}
	for _, c := range []struct {
		s       Site
		was     Form
		allowed []Form
		want    Form
		why     string
	}{
		{Site{Free: true}, Left, nil, Left, "why"},
		{Site{Free: true}, Syscall, nil, Syscall, "why"},
		{Site{Free: true}, Lea, nil, Syscall, "no room for a trampoline: why"},
		{Site{Free: true}, Lea, []Form{Lea, Syscall}, Syscall, "no room for a trampoline: why"},
		{Site{Free: true, Alone: true}, Lea, []Form{Lea}, Left, "no room for a trampoline: why; a system call would change rcx and r11"},
		{Site{}, Lea, nil, Left, "no room for a trampoline: why"},
	} {
		if got, why := withoutRoom(&c.s, c.was, c.allowed, "why"); got != c.want || why != c.why {
			t.Errorf("%+v without room, form %v: %v, %s", c.s, c.was, got, why)
		}
	}
	for _, form := range []Form{Lea, Call, Entry, Imm} {
		s := Site{Vaddr: 0x1000, Len: 7, Kind: MovImm32, Stub: Extent{Vaddr: 0x1000, Len: 18}}
		if _, code, err := encode(&s, form, 1<<40, make([]byte, 7)); err == nil {
			t.Errorf("form %v, out of reach: % x", form, code)
		}
	}
	for n, whole := range map[uint64]bool{13: false, 14: true, 18: true} {
		s := Site{Vaddr: 0x1001, Len: 7, CallLen: 2, Function: Time, Stub: Extent{Vaddr: 0x1000, Len: n}}
		if at, code, err := encode(&s, Syscall, 0, nil); err != nil || (at == 0x1000) != whole || (len(code) == 14) != whole {
			t.Errorf("a stub of %d bytes: %#x: % x, %v", n, at, code, err)
		}
	}
}

// TestOverlap: changes of code that touch the program headers, or one another.
func TestOverlap(t *testing.T) {
	f := &file{File: &File{File: &elf.File{PhOff: elf.EhdrSize, Progs: make([]elf.Prog, 2)}}}
	const end = elf.EhdrSize + 2*elf.PhdrSize
	edit := func(why string, at, n uint64) Edit { return Edit{Why: why, Offset: at, New: make([]byte, n)} }
	for _, c := range []struct {
		edits []Edit
		want  string
	}{
		{[]Edit{edit(callSite, elf.EhdrSize-5, 5)}, ""},
		{[]Edit{edit(callSite, elf.EhdrSize-4, 5)}, "program headers"},
		{[]Edit{edit(callSite, end-1, 5)}, "program headers"},
		{[]Edit{edit(callSite, end, 5)}, ""},
		{[]Edit{edit("e_entry", elf.EhdrSize, 5)}, ""},
		{[]Edit{edit(callSite, 1000, 5), edit(callSite, 1005, 5)}, ""},
		{[]Edit{edit(callSite, 1000, 5), edit(callSite, 1004, 5)}, "offset 0x3ec"},
	} {
		if got := (&Plan{file: f, Edits: c.edits}).overlap(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c.edits, got)
		}
	}
}

// TestSameBytes: the first byte that differs is named.
func TestSameBytes(t *testing.T) {
	for at := range 5 {
		var unplanned *UnplannedError
		got := []byte("01234")
		got[at] ^= 1
		if err := SameBytes(strings.NewReader("01234"), 5, bytes.NewReader(got), 5); !errors.As(err, &unplanned) || unplanned.Offset != int64(at) || unplanned.Got != got[at] {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	for n, want := range map[int64]bool{4: false, 5: true, 6: false} {
		if err := SameBytes(strings.NewReader("01234"), 5, strings.NewReader("012345"), n); (err == nil) != want {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
