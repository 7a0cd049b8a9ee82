package patch

import (
	"bytes"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/x86"
)

// TestAside: stores and pushes of a file without a fixed place, of which more than fit are in it, patched at once and
// in two steps.
func TestAside(t *testing.T) {
	e := testELF{dyn: true}
	add := func(code string) {
		e.symbols = append(e.symbols, testSym{"f", e.textVaddr() + uint64(len(e.text)), uint64(len(asm(t, code))), elf.STTFunc, 1})
		e.text = append(e.text, asm(t, code)...)
	}
	add("53" + movRaxTime + callRax + "5b c3")
	for range 15 {
		add("68000460ff ff1424 59 c3")
		add("55 4889e5 4881ec00010000 48c78524ffffff000460ff ff9524ffffff c9 c3") // movq to -0xdc(%rbp)
	}
	file := e.build()
	whole := planFile(t, file, Options{})
	out := checkPatched(t, file, whole, Options{})
	first := applyPlan(t, planFile(t, file, Options{Forms: []Form{Lea}}), file)
	second := planFile(t, first, Options{})
	again := applyPlan(t, second, first)
	if p := planFile(t, again, Options{}); !p.Empty() {
		t.Errorf("a third patch: %d edits", len(p.Edits))
	}
	if n := len(whole.LeftOver()); n == 0 || n > 10 || len(second.LeftOver()) != n || bytes.Equal(first, again) {
		t.Errorf("left over at once: %d, in two steps: %d; want the same", n, len(second.LeftOver()))
	}
	for _, b := range [][]byte{out, again} {
		f := scanFile(t, b).File
		for _, q := range whole.Patches {
			if q.Form != Imm {
				continue
			}
			s := q.Site
			code := f.Mem(s.Vaddr, uint64(s.Len))
			jump, ok := x86.Decode(code[s.Len-jumpLen:], s.Vaddr+uint64(s.Len)-jumpLen)
			code = f.Mem(jump.Target, asideLen)
			var names []string
			var last x86.Instr
			for at := jump.Target; ok && at < jump.Target+asideLen; at = last.Next() {
				if last, ok = x86.Decode(code[at-jump.Target:], at); last.Flow == x86.FlowJump {
					break
				}
				names = append(names, last.Op.String())
			}
			if last.Target != s.Vaddr+uint64(s.Len) || len(names) != 3 || names[1] != "LEA" || names[2] != "XCHG" {
				t.Errorf("%#x: %v at %#x, back to %#x", s.Vaddr, names, jump.Target, last.Target)
			}
			off, _ := f.Offset(jump.Target, asideLen)
			broken := bytes.Clone(b)
			broken[off+uint64(bytes.IndexByte(code, 0x8d))+2]++ // the displacement of the lea
			if r := scanFile(t, broken); !r.Skipped.Damaged() {
				t.Errorf("%#x: code aside that leads elsewhere: %v", s.Vaddr, r.Skipped)
			}
			broken[off+uint64(bytes.IndexByte(code, 0x8d))+2]--
			broken[off+uint64(bytes.IndexByte(code, 0x8d))] = 0x8b // a mov
			if r := scanFile(t, broken); !r.Skipped.Damaged() {
				t.Errorf("%#x: code aside that stores another value: %v", s.Vaddr, r.Skipped)
			}
		}
	}
	// In a program with a fixed place, the address itself is replaced.
	e = testELF{tight: true}
	add("68000460ff ff1424 59 c3")
	file = e.build()
	p := planFile(t, file, Options{})
	if out := checkPatched(t, file, p, Options{}); p.Patches[0].Form != Imm || scanFile(t, out).Skipped != nil {
		t.Errorf("form %v; then %v", p.Patches[0].Form, scanFile(t, out).Skipped)
	}
}

// TestAsideOperand: the code aside stores to the word that the instruction stores to, or is not made.
func TestAsideOperand(t *testing.T) {
	for code, want := range map[string]bool{
		"48c7042400000000": true, "48c745f800000000": true, "48c78508ffffff00000000": true, // (%rsp), -8(%rbp), -0xf8(%rbp)
		"48c7000000000000": false, "48c743f800000000": false, "49c7442408 00000000": false, // (%rax), -8(%rbx), 8(%r12)
		"48c70500100000 00000000": false, "48c744c408 00000000": false, // 0x1000(%rip), 8(%rsp,%rax,8)
	} {
		old := asm(t, code)
		s := find.Site{Kind: find.StoreImm32, Vaddr: 0x1000, Len: uint8(len(old))}
		if _, err := (&Plan{file: &file{}}).goAside(&s, 0x4000, old); (err == nil) != want {
			t.Errorf("%s: got %v", code, err)
		}
		if _, err := (&Plan{file: &file{}}).goAside(&s, 1<<40, old); err == nil {
			t.Errorf("%s: a page out of reach", code)
		}
	}
}
