package patch

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/x86"
)

// show writes a listing with a mark at changed lines.
func show(lines []x86.Line) string {
	var b strings.Builder
	for _, l := range lines {
		mark := " "
		if l.Changed {
			mark = "|"
		}
		fmt.Fprintf(&b, "%s %x: %x %s\n", mark, l.Vaddr, l.Bytes, l.Text)
	}
	return b.String()
}

func TestListing(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		wantBefore          string
		wantAfter           string
	}{
		{"call form", movRaxTime + callRax + "c3", "0f1f4000 e800010000 c3", `
| 1000: 48c7c0000460ff mov $0xffffffffff600400,%rax
| 1007: ffd0 call *%rax
  1009: c3 ret
`, `
| 1000: 0f1f4000 nopl (%rax)
| 1004: e800010000 call 0x1109
  1009: c3 ret
`},
		{"entry form, which leaves a remnant", subRsp + movRaxTime + callRax + addRsp + "c3", "e9 00010000 c7c0000460ff" + callRax + addRsp + "c3", `
| 1000: 4883ec08 sub $0x8,%rsp
| 1004: 48c7c0000460ff mov $0xffffffffff600400,%rax
  100b: ffd0 call *%rax
  100d: 4883c408 add $0x8,%rsp
  1011: c3 ret
`, `
| 1000: e900010000 jmp 0x1105
| 1005: c7c0000460ff mov $0xff600400,%eax
  100b: ffd0 call *%rax
  100d: 4883c408 add $0x8,%rsp
  1011: c3 ret
`},
		{"a remnant that is not an instruction", movRaxTime + callRax + "c3", "e9 00010000 60ff" + callRax + "c3", `
| 1000: 48c7c0000460ff mov $0xffffffffff600400,%rax
  1007: ffd0 call *%rax
  1009: c3 ret
`, `
| 1000: e900010000 jmp 0x1105
| 1005: 60 .byte 0x60
| 1006: ff .byte 0xff
  1007: ffd0 call *%rax
  1009: c3 ret
`},
		{"a remnant that would run into what follows", movRaxTime + "50 c3", "e9 00010000 48b8 50 c3", `
| 1000: 48c7c0000460ff mov $0xffffffffff600400,%rax
  1007: 50 push %rax
  1008: c3 ret
`, `
| 1000: e900010000 jmp 0x1105
| 1005: 48 .byte 0x48
| 1006: b8 .byte 0xb8
  1007: 50 push %rax
  1008: c3 ret
`},
		{"lea form, and words as in objdump", "f30f1efa 55" + movRaxTime + "488b0425 00000000 c9 c3", "f30f1efa 55 488d0500010000 488b0425 00000000 c9 c3", `
  1000: f30f1efa endbr64
  1004: 55 push %rbp
| 1005: 48c7c0000460ff mov $0xffffffffff600400,%rax
  100c: 488b042500000000 mov 0x0,%rax
  1014: c9 leave
  1015: c3 ret
`, `
  1000: f30f1efa endbr64
  1004: 55 push %rbp
| 1005: 488d0500010000 lea 0x100(%rip),%rax  # 0x110c
  100c: 488b042500000000 mov 0x0,%rax
  1014: c9 leave
  1015: c3 ret
`},
		{"an instruction cut off at the end", "c3 48c7c0", "c3 48c7c0", "\n  1000: c3 ret\n", "\n  1000: c3 ret\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, a := x86.Listing(asm(t, c.before), asm(t, c.after), 0x1000)
			if got := "\n" + show(b); got != c.wantBefore {
				t.Errorf("before: got %s", got)
			}
			if got := "\n" + show(a); got != c.wantAfter {
				t.Errorf("after: got %s", got)
			}
		})
	}
}

// TestExplain explains a plan: from the start of the function, with the trampoline's name.
func TestExplain(t *testing.T) {
	e := testELF{text: asm(t, nops16+"5331db"+movRaxTime+callRax+"5bc3"+nops16+nops16), data: asm(t, "000460ffffffffff")}
	at := e.textVaddr()
	e.symbols = []testSym{{"f", at + 16, 40, elf.STTFunc, 1}}
	file := e.build()
	r := scanFile(t, file)
	if len(r.Sites) != 2 {
		t.Fatalf("got %+v", r.Sites)
	}
	s := r.Sites[0]
	target := uint32(0x10000)
	after := append(asm(t, "0f1f4000 e8"), le(nil, target)...)
	edit := Edit{Offset: s.Offset, Old: bytes.Clone(file[s.Offset : s.Offset+9]), New: after}
	f := fileOf(r)
	p := &Plan{file: f, Edits: []Edit{{Offset: 24, New: []byte{1}}, edit}}
	x, err := p.Explain(Patch{Site: s, Form: Call})
	if err != nil {
		t.Fatal(err)
	}
	before, now := show(x.Before), show(x.After)
	if !strings.HasPrefix(before, fmt.Sprintf("  %x: 53 push %%rbx\n", at+16)) || !strings.Contains(before, fmt.Sprintf("| %x: ffd0 call *%%rax\n", s.Call)) {
		t.Errorf("before:\n%s", before)
	}
	if want := fmt.Sprintf("| %x: e800000100 call %#x <keep_time>\n", s.Vaddr+4, s.Vaddr+9+uint64(target)); !strings.Contains(now, want) {
		t.Errorf("after, without %s:\n%s", want, now)
	}
	// The imm form has the trampoline's own address where the page's was.
	for text, want := range map[string]string{"68 000460ff 8f45f8": "push $0x100000 <keep_time>", "48c745f8 000460ff": "movq $0x100000,-0x8(%rbp) <keep_time>"} {
		old := asm(t, text)
		_, lines := x86.Listing(old, bytes.Replace(old, asm(t, "000460ff"), le(nil, uint32(0x100000)), 1), at)
		nameTrampoline(lines, r.File, "keep_time")
		if lines[0].Text != want {
			t.Errorf("imm form: got %s, want %s", lines[0].Text, want)
		}
	}
	// A site that stays has one side; a word in data has none.
	p.Edits = p.Edits[:1]
	if x, err = p.Explain(Patch{Site: s}); err != nil || len(x.After) != 0 || len(x.Before) == 0 || strings.Contains(show(x.Before), "|") {
		t.Errorf("unchanged: %+v, %v", x, err)
	}
	if x, err = p.Explain(Patch{Site: r.Sites[1]}); err != nil || len(x.Before)+len(x.After) != 0 {
		t.Errorf("data: %+v, %v", x, err)
	}
}

// Bytes in a listing that never run are not shown as instructions, nor named as a jump to a trampoline.
func TestDeadBytesAreNoCode(t *testing.T) {
	lines := []x86.Line{{Vaddr: 0x1000, Bytes: []byte{0xe9, 0, 1, 0, 0}, Text: "jmp 0x1105", Changed: true},
		{Vaddr: 0x1005, Bytes: []byte{0xc7, 0xc0, 0, 4, 0x60, 0xff}, Text: "mov $0xff600400,%eax", Changed: true}, {Vaddr: 0x100b, Bytes: []byte{0xff, 0xd0}, Text: "call *%rax"}}
	x86.Bury(lines[1:])
	nameTrampoline(lines, &find.File{File: &elf.File{}}, "vfix_time")
	if got, want := show(lines), "| 1000: e900010000 jmp 0x1105 <vfix_time>\n| 1005: c7c0000460ff (never runs)\n  100b: ffd0 (never runs)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestExplainNothing: without a file there is nothing to show, and a failed read is an error.
func TestExplainNothing(t *testing.T) {
	if e, err := (&Plan{}).Explain(Patch{}); err != nil || len(e.Before) != 0 {
		t.Errorf("got %+v, %v", e, err)
	}
	b := (&testELF{text: asm(t, timeStubText)}).build()
	p := planFile(t, b, Options{})
	left, broken := 0, errors.New("broken")
	p.file.R = failing{Reader: bytes.NewReader(b), left: &left, err: broken}
	if _, err := p.Explain(p.Patches[0]); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
