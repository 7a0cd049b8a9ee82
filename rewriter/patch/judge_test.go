package patch

import (
	"encoding/binary"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
)

// TestJudge: the verdict on the first reference of a function, and its evidence.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, text string
		verdict    find.Verdict
		cause      find.Cause
	}{
		{"straight, adjacent", "53 48c7c0000460ff ffd0 5b c3", find.Live, find.Called},                                       // push %rbx; mov $time,%rax; call *%rax; pop %rbx; ret
		{"straight, apart", "48c7c0000460ff 31ff 488d742408 ffd0 c3", find.Live, find.Called},                                // mov $time,%rax; xor %edi,%edi; lea 8(%rsp),%rsi; call *%rax; ret
		{"straight, twelve instructions", "48c7c0000460ff f9 f9 f9 f9 f9 f9 f9 f9 f9 f9 f9 ffd0 c3", find.Live, find.Called}, // mov $time,%rax; stc ×11; call *%rax; ret
		{"straight, a tail jump", "48c7c0000460ff 31ff ffe0", find.Live, find.Called},                                        // mov $time,%rax; xor %edi,%edi; jmp *%rax
		{"a nop with rax", "48c7c0000460ff 0f1f00 ffd0 c3", find.Live, find.Called},
		{"flow, a nop with the register", "53 48c7c3000460ff 0f1f03 0f1f4300 ffd3 5b c3", find.Live, find.Called},
		{"movabs", "48b8000460ffffffffff ffd0 c3", find.Live, find.Called},                                                                                           // movabs $time,%rax; call *%rax; ret
		{"flow, farther than straight code", "48c7c0000460ff f9 f9 f9 f9 f9 f9 f9 f9 f9 f9 f9 f9 ffd0 c3", find.Live, find.Called},                                   // mov $time,%rax; stc ×11; stc; call *%rax; ret
		{"flow, another register", "48c7c2000460ff ffd2 c3", find.Live, find.Called},                                                                                 // mov $time,%rdx; call *%rdx; ret
		{"flow, a copy", "48c7c2000460ff 4889d0 ffd0 c3", find.Live, find.Called},                                                                                    // mov $time,%rdx; mov %rdx,%rax; call *%rax; ret
		{"flow, a branch before the call", "48c7c0000460ff 85ff 7402 31f6 ffd0 c3", find.Live, find.Called},                                                          // mov $time,%rax; test %edi,%edi; je 1f; xor %esi,%esi; 1: call *%rax; ret
		{"flow, a loop", "53 48c7c3000460ff 31ff ffd3 ffcd 75f8 5b c3", find.Live, find.Called},                                                                      // push %rbx; mov $time,%rbx; 1: xor %edi,%edi; call *%rbx; dec %ebp; jne 1b; pop %rbx; ret
		{"flow, called on one path alone", "53 48c7c3000460ff 85ff 7402 ffd3 5b c3", find.Live, find.Called},                                                         // push %rbx; mov $time,%rbx; test %edi,%edi; je 1f; call *%rbx; 1: pop %rbx; ret
		{"flow, over a call", "53 48c7c3000460ff e804000000 ffd3 5b c3 c3", find.Live, find.Called},                                                                  // push %rbx; mov $time,%rbx; call 2f; call *%rbx; pop %rbx; ret; 2: ret
		{"flow, an argument", "48c7c7000460ff e801000000 c3 4889f8 31ff ffe0", find.Live, find.Called},                                                               // mov $time,%rdi; call 2f; ret; 2: mov %rdi,%rax; xor %edi,%edi; jmp *%rax
		{"flow, a word of the frame", "55 4889e5 4883ec10 48c7c0000460ff 488945f8 488b55f8 31ff ffd2 c9 c3", find.Live, find.Called},                                 // push %rbp; mov %rsp,%rbp; sub $16,%rsp; mov $time,%rax; mov %rax,-8(%rbp); mov -8(%rbp),%rdx; xor %edi,%edi; call *%rdx; leave; ret
		{"flow, a call through the frame", "f30f1efa 55 4889e5 4883ec10 48c7c0000460ff 488945f8 ff55f8 c9 c3", find.Live, find.Called},                               // endbr64; push %rbp; mov %rsp,%rbp; sub $16,%rsp; mov $time,%rax; mov %rax,-8(%rbp); call *-8(%rbp); leave; ret
		{"flow, a store into the frame", "55 4889e5 4883ec10 48c745f8000460ff 488b55f8 ffd2 c9 c3", find.Live, find.Called},                                          // push %rbp; mov %rsp,%rbp; sub $16,%rsp; movq $time,-8(%rbp); mov -8(%rbp),%rdx; call *%rdx; leave; ret
		{"flow, another word beside it", "55 4889e5 4883ec20 48c745f8000460ff 48c745f000000000 c745e801000000 488d7de0 488b55f8 ffd2 c9 c3", find.Live, find.Called}, // push %rbp; mov %rsp,%rbp; sub $32,%rsp; movq $time,-8(%rbp); movq $0,-16(%rbp); movl $1,-24(%rbp); lea -32(%rbp),%rdi; mov -8(%rbp),%rdx; call *%rdx; leave; ret
		{"flow, the word above it", "55 4889e5 4883ec20 48c745f0000460ff 488b7df8 488b55f0 ffd2 c9 c3", find.Live, find.Called},
		{"flow, a call that does not return, at the end", "53 48c7c3000460ff ffd3 e801000000 90 53 c3", find.Live, find.Called},              // push %rbx; mov $time,%rbx; call *%rbx; call next; .align 16; next: push %rbx; ret
		{"flow, a call that does not return, last of the code", "53 48c7c3000460ff 85ff 7404 ffd3 5b c3 e8e9ffffff", find.Live, find.Called}, // je to the call
		{"compared", "48c7c0000460ff 4839f8 7402 ffd0 c3", find.Unknown, find.Used},                                                          // mov $time,%rax; cmp %rdi,%rax; je 1f; call *%rax; 1: ret
		{"arithmetic", "48c7c0000060ff 480500040000 ffd0 c3", find.Unknown, find.Used},                                                       // mov $page,%rax; add $0x400,%rax; call *%rax; ret
		{"read through", "48c7c0000460ff 488b10 ffd0 c3", find.Unknown, find.Used},                                                           // mov $time,%rax; mov (%rax),%rdx; call *%rax; ret
		{"a read by a call", "48c7c3000460ff ff13 c3", find.Unknown, find.Used},                                                              // mov $time,%rbx; call *(%rbx); ret
		{"half of it", "53 48c7c3000460ff ffd3 89d8 5b c3", find.Unknown, find.Used},                                                         // push %rbx; mov $time,%rbx; call *%rbx; mov %ebx,%eax; pop %rbx; ret
		{"compared behind the call", "53 48c7c3000460ff ffd3 4839df 5b c3", find.Unknown, find.Used},                                         // push %rbx; mov $time,%rbx; call *%rbx; cmp %rbx,%rdi; pop %rbx; ret
		{"pushed", "55 4889e5 48c7c3000460ff 53 ffd3 c9 c3", find.Unknown, find.Used},                                                        // push %rbp; mov %rsp,%rbp; mov $time,%rbx; push %rbx; call *%rbx; leave; ret
		{"stored in a variable", "48c7c0000460ff 48890500100000 ffd0 c3", find.Unknown, find.Used},                                           // mov $time,%rax; mov %rax,0x1000(%rip); call *%rax; ret
		{"stored below the stack", "48c7c0000460ff 48894424f8 ff5424f8 c3", find.Unknown, find.Used},                                         // mov $time,%rax; mov %rax,-8(%rsp); call *-8(%rsp); ret
		{"a frame without a prologue", "48c7c0000460ff 488945f8 ff55f8 c3", find.Unknown, find.Stored},                                       // mov $time,%rax; mov %rax,-8(%rbp); call *-8(%rbp); ret
		{"a store without a prologue", "48c745f8000460ff ff55f8 c3", find.Unknown, find.Stored},                                              // movq $time,-8(%rbp); call *-8(%rbp); ret
		{"two words", "55 4889e5 48c745f8000460ff 488b45f8 488945f0 ffd0 c9 c3", find.Unknown, find.TwoSlots},                                // push %rbp; mov %rsp,%rbp; movq $time,-8(%rbp); mov -8(%rbp),%rax; mov %rax,-16(%rbp); call *%rax; leave; ret
		{"the address of the word", "55 4889e5 48c745f8000460ff 488d7df8 ff55f8 c9 c3", find.Unknown, find.Used},                             // push %rbp; mov %rsp,%rbp; movq $time,-8(%rbp); lea -8(%rbp),%rdi; call *-8(%rbp); leave; ret
		{"a part of the word", "55 4889e5 48c745f8000460ff 8b7dfc ff55f8 c9 c3", find.Unknown, find.Used},                                    // push %rbp; mov %rsp,%rbp; movq $time,-8(%rbp); mov -4(%rbp),%edi; call *-8(%rbp); leave; ret
		{"the word through rsp", "55 4889e5 48c745f8000460ff 488b7c2408 ff55f8 c9 c3", find.Unknown, find.Used},                              // push %rbp; mov %rsp,%rbp; movq $time,-8(%rbp); mov 8(%rsp),%rdi; call *-8(%rbp); leave; ret
		{"another frame pointer", "55 4889e5 48c745f8000460ff 4883ed08 ff55f8 c9 c3", find.Unknown, find.Used},                               // push %rbp; mov %rsp,%rbp; movq $time,-8(%rbp); sub $8,%rbp; call *-8(%rbp); leave; ret
		{"returned", "48c7c0000460ff c3", find.Unknown, find.Returned},                                                                       // mov $time,%rax; ret
		{"passed to another file", "48c7c7000460ff e801000000 c3 ff2500100000", find.Unknown, find.Branches},                                 // mov $time,%rdi; call 2f; ret; 2: jmp *0x1000(%rip)
		{"passed through a pointer", "48c7c7000460ff ff1500100000 c3", find.Unknown, find.Passed},                                            // mov $time,%rdi; call *0x1000(%rip); ret
		{"a table of jumps", "53 48c7c3000460ff ffd3 ff24fd00104000", find.Unknown, find.Branches},                                           // push %rbx; mov $time,%rbx; call *%rbx; jmp *0x401000(,%rdi,8)
		{"another register is called", "53 48c7c3000460ff ffd2 5b c3", find.Unknown, find.NoUse},                                             // call *%rdx
		{"never used", "48c7c3000460ff 31db c3", find.Unknown, find.NoUse},                                                                   // mov $time,%rbx; xor %ebx,%ebx; ret
		{"only kept", "53 48c7c3000460ff 5b c3", find.Unknown, find.NoUse},                                                                   // push %rbx; mov $time,%rbx; pop %rbx; ret
		{"not an instruction", "48c7c3000460ff 85ff 7401 06 ffd3 c3", find.Unknown, find.Undecoded},                                          // mov $time,%rbx; test %edi,%edi; je 1f; .byte 0x06; 1: call *%rbx; ret
		{"pushed at once", "68000460ff c3", find.Unknown, find.Pushed},                                                                       // pushq $time; ret
		{"cmov, mangled", "48c7c2000460ff 4885c0 480f45d0 644833142530000000 48c1c211 48891500100000 c3", find.Dormant, find.Mangled},        // mov $time,%rdx; test %rax,%rax; cmovne %rax,%rdx; xor %fs:0x30,%rdx; rol $0x11,%rdx; mov %rdx,0x1000(%rip); ret
		{"mangled, and another register stored", "48c7c2000460ff 4885c0 480f45d0 644833142530000000 48c1c211 48890d00100000 c3", find.Unknown, find.Used},
		{"the guard is added", "48c7c2000460ff 4885c0 480f45d0 644803142530000000 48c1c211 48891500100000 c3", find.Unknown, find.Used},
		{"another register mangled", "48c7c2000460ff 4885c0 480f45d0 6448330c2530000000 48c1c111 48890d00100000 c3", find.Unknown, find.Used}, // xor %fs:0x30,%rcx; rol $0x11,%rcx; mov %rcx,0x1000(%rip)
		{"mangled, and called", "48c7c0000460ff 644833042530000000 ffd0 c3", find.Unknown, find.Used},                                         // mov $time,%rax; xor %fs:0x30,%rax; call *%rax
		{"overwritten, and called", "48c7c0000460ff 4889f8 ffd0 c3", find.Unknown, find.NoUse},                                                // mov $time,%rax; mov %rdi,%rax; call *%rax
		{"mangled without a test", "48c7c2000460ff 644833142530000000 48c1c211 48891500100000 c3", find.Unknown, find.Used},                   // mov $time,%rdx; xor %fs:0x30,%rdx; rol $0x11,%rdx; mov %rdx,0x1000(%rip); ret
		{"cmov, stored", "48c7c2000060ff 4885c0 480f44c2 48890500100000 c3", find.Unknown, find.Used},                                         // mov $page,%rdx; test %rax,%rax; cmove %rdx,%rax; mov %rax,0x1000(%rip); ret
		{"dietlibc", "48c7c2000060ff e80f000000 4885c0 480f44c2 48890500100000 c3 c3", find.Dormant, find.ImageBase},                          // mov $page,%rdx; call 2f; test %rax,%rax; cmove %rdx,%rax; mov %rax,0x1000(%rip); ret; 2: ret
		{"cmov, called", "48c7c0000460ff 4885d2 480f45c2 ffd0 c3", find.Live, find.Called},                                                    // mov $time,%rax; test %rdx,%rdx; cmovne %rdx,%rax; call *%rax; ret
		{"cmov, called in another register", "48c7c1000460ff 4885d2 480f45ca ffd1 c3", find.Unknown, find.Used},                               // mov $time,%rcx; test %rdx,%rdx; cmovne %rdx,%rcx; call *%rcx; ret
		{"a comparison", "4881ff000460ff 0f94c0 c3", find.Benign, find.Compared},                                                              // cmp $time,%rdi; sete %al; ret
		{"a comparison with rax", "483d000460ff 0f94c0 c3", find.Benign, find.Compared},                                                       // cmp $time,%rax; sete %al; ret
		{"half of it stored", "55 4889e5 48c7c0000460ff 8945f8 ffd0 c9 c3", find.Unknown, find.Used},                                          // push %rbp; mov %rsp,%rbp; mov $time,%rax; mov %eax,-8(%rbp); call *%rax; leave; ret
		{"flow, another constant beside it", "53 48c7c0000460ff 85ff 7400 48c7c301000000 ffd0 4839df 5b c3", find.Live, find.Called},          // mov $time,%rax; test %edi,%edi; je 1f; 1: mov $1,%rbx; call *%rax; cmp %rbx,%rdi
		{"flow, another register stored", "55 4889e5 48c7c0000460ff 85ff 7400 48897df8 ffd0 488b7df8 4839f7 c9 c3", find.Live, find.Called},   // mov $time,%rax; je; mov %rdi,-8(%rbp); call *%rax; mov -8(%rbp),%rdi; cmp %rsi,%rdi
		{"flow, another word loaded", "55 4889e5 48c745f8000460ff 488b7df0 4839f7 ff55f8 c9 c3", find.Live, find.Called},                      // movq $time,-8(%rbp); mov -16(%rbp),%rdi; cmp %rsi,%rdi; call *-8(%rbp)
		{"flow, code behind leave", "55 4889e5 48c745f8000460ff ff55f8 c9 488b442408 c3", find.Live, find.Called},                             // call *-8(%rbp); leave; mov 8(%rsp),%rax; ret
		{"flow, pop of the frame pointer", "55 4889e5 48c745f8000460ff ff55f8 5d c3", find.Live, find.Called},                                 // call *-8(%rbp); pop %rbp; ret
		{"a word of the thread", "55 4889e5 48c745f8000460ff 64ff55f8 c9 c3", find.Unknown, find.NoUse},                                       // movq $time,-8(%rbp); call *%fs:-8(%rbp)
		{"the saved frame pointer", "55 4889e5 48c74500000460ff ff5500 c9 c3", find.Unknown, find.Stored},                                     // movq $time,0(%rbp); call *0(%rbp)
		{"a copy kept behind the call", "48c7c0000460ff 4889c3 ffd0 4839df c3", find.Unknown, find.Used},                                      // mov $time,%rax; mov %rax,%rbx; call *%rax; cmp %rbx,%rdi
		{"lost by a call", "48c7c0000460ff e803000000 ffd0 c3 c3", find.Unknown, find.NoUse},                                                  // mov $time,%rax; call 2f; call *%rax; ret; 2: ret
		{"mangled, and a constant stored", "48c7c0000460ff 4885d2 480f45c2 644833042530000000 48c1c011 48c7050010000001000000 c3", find.Unknown, find.Used},
		{"mangled, and rotated the other way", "48c7c2000460ff 4885c0 480f45d0 644833142530000000 48c1ca11 48891500100000 c3", find.Unknown, find.Used},
		{"mangled with another word of the thread", "48c7c2000460ff 4885c0 480f45d0 644833142528000000 48c1c211 48891500100000 c3", find.Unknown, find.Used},
		{"mangled with a word at a fixed address", "48c7c2000460ff 4885c0 480f45d0 4833142530000000 48c1c211 48891500100000 c3", find.Unknown, find.Used},
		{"mangled, and rotated further", "48c7c2000460ff 4885c0 480f45d0 644833142530000000 48c1c212 48891500100000 c3", find.Unknown, find.Used},
		{"mangled, and stored where it points to", "48c7c2000460ff 4885c0 480f45d0 644833142530000000 48c1c211 488912 c3", find.Unknown, find.Used},
		{"cmov of its half, mangled", "48c7c2000460ff 4885c0 0f45d0 644833142530000000 48c1c211 48891500100000 c3", find.Unknown, find.Used},
		{"cmov of other registers, mangled", "48c7c2000460ff 4885c0 480f45d8 644833142530000000 48c1c211 48891500100000 c3", find.Unknown, find.Used},
		{"cmov, called, beside a copy of another register", "48c7c0000460ff 4889fe 4885d2 480f45c2 ffd0 c3", find.Live, find.Called},
		{"as dietlibc, with time", "48c7c2000460ff e80f000000 4885c0 480f44c2 48890500100000 c3 c3", find.Unknown, find.NoUse},
		{"as dietlibc, without a test", "48c7c3000060ff e807000000 48891d00100000 c3 c3", find.Unknown, find.Used},
		{"a far call through the frame", "55 4889e5 48c745f8000460ff ff5df8 c9 c3", find.Unknown, find.NoUse},                                              // movq $time,-8(%rbp); lcall *-8(%rbp)
		{"flow, a constant stored in the frame", "55 4889e5 48c7c0000460ff 85ff 7400 48c745f001000000 ffd0 488b7df0 4839f7 c9 c3", find.Live, find.Called}, // movq $1,-16(%rbp); call *%rax; mov -16(%rbp),%rdi; cmp %rsi,%rdi
		{"flow, stored twice", "55 4889e5 48c7c0000460ff 488945f8 488945f8 ff55f8 c9 c3", find.Live, find.Called},
		{"the lower half of the word", "55 4889e5 48c745f8000460ff 8b7df8 ff55f8 c9 c3", find.Unknown, find.Used},           // mov -8(%rbp),%edi
		{"flow, overwritten behind the call", "53 48c7c3000460ff ffd3 48c7c301000000 4839df 5b c3", find.Live, find.Called}, // call *%rbx; mov $1,%rbx; cmp %rbx,%rdi
		{"flow, another register popped", "55 4889e5 53 48c745f0000460ff 5b ff55f0 c9 c3", find.Live, find.Called},          // push %rbx; movq $time,-16(%rbp); pop %rbx; call *-16(%rbp)
		{"as dietlibc, called", "48c7c2000060ff e80a000000 4885c0 480f44c2 ffd0 c3 c3", find.Unknown, find.NoUse},
		{"a variable of the thread", "64 48c70425f8ffffff000460ff c3", find.Unknown, find.Stored}, // movq $time,%fs:-8
		{"a displacement, and stored", "48c78468000460ff000460ff c3", find.Unknown, find.Stored},  // movq $time,-0x9ffc00(%rax,%rbp,2), which also has the bytes of a push
	} {
		e := testELF{dyn: true, text: asm(t, c.text)}
		e.symbols = []testSym{{"f", e.textVaddr(), uint64(len(e.text)), elf.STTFunc, 0}}
		if strings.Contains(c.name, "at the end") {
			e.symbols = append(e.symbols, testSym{"next", e.textVaddr() + 16, 2, elf.STTFunc, 0})
		}
		r := scanFile(t, e.build())
		if len(r.Sites) == 0 {
			t.Errorf("%s: no site", c.name)
			continue
		}
		s := r.Sites[0]
		patched := c.verdict == find.Live || c.cause == find.Mangled
		if s.Verdict != c.verdict || s.Reason.Cause != c.cause || s.Called != patched || (s.Call != 0) != (c.cause == find.Called) || s.Symbol != "f" {
			t.Errorf("%s: got %+v, %s", c.name, s, s.Reason)
		}
		if (s.Reason.Op != 0) != (c.cause == find.Used) {
			t.Errorf("%s: used by %v", c.name, s.Reason.Op)
		}
		if text := s.Reason.String(); text == "" || strings.Contains(text, "%!") || (s.Reason.At != 0) != strings.Contains(text, "0x") {
			t.Errorf("%s: says %q", c.name, text)
		}
	}
}

// TestJudgeMore: verdicts that depend on more than the code of the function.
func TestJudgeMore(t *testing.T) {
	const at = testBase + testTextOff
	resolver := func(text string) testELF {
		return testELF{text: asm(t, text), symbols: []testSym{{"f", at, 64, elf.STTGNUIfunc, 1}}}
	}
	throws := func(program string) testELF {
		cie := "\x00\x00\x00\x00\x01zLR\x00\x01\x78\x10\x02\x1b\x1b\x0c\x07\x08\x90\x01\x00"
		return testELF{text: asm(t, "53 48c7c3000460ff ffd3 ffd3 5b c3"), fdes: []uint64{at}, frame: testFrame(cie, testFDE{14, program}), tight: true}
	}
	valgrind := func(data string) testELF {
		return testELF{text: asm(t, "4881ff000460ff 48c70424000060ff c3"), data: []byte(data)}
	}
	goData := func(name string) testELF {
		e := testELF{text: []byte{0xc3}, data: asm(t, "000460ffffffffff"), noteSection: ".note.go.buildid"}
		e.symbols = []testSym{{name, e.dataVaddr(), 8, elf.STTObject, 1}}
		return e
	}
	for _, c := range []struct {
		name    string
		e       testELF
		n       int // which site
		verdict find.Verdict
		cause   find.Cause
	}{
		{"chosen and returned by a resolver", resolver("48c7c2000460ff 4885c0 480f45d0 4889d0 c3"), 0, find.Dormant, find.IfuncRet},
		{"kept while a resolver returns another", resolver("48c7c2000460ff 4885c0 480f45d0 c3"), 0, find.Unknown, find.Used},
		{"returned by a resolver", resolver("48c7c0000460ff c3"), 0, find.Unknown, find.Returned},
		{"a resolver by its relocation", testELF{dyn: true, text: asm(t, "48c7c2000460ff 4885c0 480f45d0 4889d0 c3"),
			rela: []testRela{{at: 0x201000, typ: elf.RIrelative, addend: testTextOff}}}, 0, find.Dormant, find.IfuncRet},
		{"chosen and returned", testELF{text: asm(t, "48c7c2000460ff 4885c0 480f45d0 4889d0 c3")}, 0, find.Unknown, find.Used},
		{"a copy, chosen and mangled", testELF{text: asm(t, "48c7c2000460ff 4889d1 4885c0 480f45c8 6448330c2530000000 48c1c111 48890d00100000 c3")}, 0, find.Dormant, find.Mangled},
		{"the last of straight code", testELF{text: asm(t, movRaxTime+"480f45c2"+strings.Repeat("f9", 10)+"ffd0 c3")}, 0, find.Live, find.Called},
		{"behind straight code", testELF{text: asm(t, movRaxTime+"480f45c2"+strings.Repeat("f9", 11)+"ffd0 c3")}, 0, find.Unknown, find.Used},
		{"inside another instruction of a section", testELF{dyn: true, entry: 1, text: asm(t, "48b8"+movRaxTime+"90 ffd0 c3")}, 0, find.Unknown, find.MaybeData},
		{"an exception", throws("\x04"), 0, find.Unknown, find.Thrown},
		{"no table of landing pads", throws(""), 0, find.Live, find.Called},
		{"valgrind's table", valgrind("VALGRIND_LAUNCHER"), 1, find.Benign, find.Valgrind},
		{"another table", valgrind("LAUNCHER"), 1, find.Unknown, find.Stored},
		{"Go's data", testELF{text: []byte{0xc3}, data: asm(t, "000460ffffffffff"), noteSection: ".note.go.buildid"}, 0, find.Dormant, find.GoData},
		{"Go's data, with a name of the runtime", goData("runtime.vdso_time_sym"), 0, find.Dormant, find.GoData},
		{"Go's data, with another name", goData("main.table"), 0, find.Unknown, find.InData},
		{"valgrind's code", testELF{text: asm(t, "4881ff000460ff"+movRaxTime+"ffd0 c3"), data: []byte("VALGRIND_LAUNCHER")}, 1, find.Live, find.Called},
		{"valgrind's name, and no comparison", testELF{text: asm(t, "48c70424000060ff c3"), data: []byte("VALGRIND_LAUNCHER")}, 0, find.Unknown, find.Stored},
		{"another relocation of a function", testELF{dyn: true, text: asm(t, "48c7c2000460ff 4885c0 480f45d0 4889d0 c3"),
			rela: []testRela{{at: 0x201000, typ: elf.RRelative, addend: testTextOff}}}, 0, find.Unknown, find.Used},
		{"without sections, a last call that does not return", testELF{bare: true, text: asm(t, "53 48c7c3000460ff 85ff 7404 ffd3 5b c3 e8e9ffffff")}, 0, find.Live, find.Called},
		{"other data", testELF{text: []byte{0xc3}, data: asm(t, "000460ffffffffff")}, 0, find.Unknown, find.InData},
	} {
		r := scanFile(t, c.e.build())
		if len(r.Sites) <= c.n || r.Sites[c.n].Verdict != c.verdict || r.Sites[c.n].Reason.Cause != c.cause {
			t.Errorf("%s: got %+v", c.name, r.Sites)
		}
	}
}

// TestDataInCode: in a segment that is executable, as old linkers put .rodata into it, only executable sections have
// instructions.
func TestDataInCode(t *testing.T) {
	e := testELF{text: asm(t, movRaxTime+"ffd0 c3")}
	file := e.build()
	const flags = 8
	text := binary.LittleEndian.Uint64(file[40:]) + elf.ShdrSize // the first section behind the null one
	file[text+flags] &^= elf.SHFExecinstr
	if r := scanFile(t, file); !r.Static || len(r.Sites) != 1 || r.Sites[0].Verdict != find.Unknown || r.Sites[0].Reason.Cause != find.MaybeData {
		t.Errorf("got %+v", r.Sites)
	}
}

// TestNames: a site has the best name of the innermost function around it.
func TestNames(t *testing.T) {
	const at = testBase + testTextOff
	for _, c := range []struct {
		symbols []testSym
		want    string
	}{
		{nil, ""},
		{[]testSym{{"a", at, 64, elf.STTFunc, 0}}, "a"},
		{[]testSym{{"a", at, 64, elf.STTFunc, 0}, {"_b", at, 64, elf.STTFunc, 1}}, "_b"},
		{[]testSym{{"_b", at, 64, elf.STTFunc, 1}, {"c", at, 64, elf.STTFunc, 1}}, "c"},
		{[]testSym{{"_b", at, 64, elf.STTFunc, 1}, {"longer", at, 64, elf.STTFunc, 1}}, "longer"},
		{[]testSym{{"longer", at, 64, elf.STTFunc, 1}, {"c", at, 64, elf.STTFunc, 1}}, "c"},
		{[]testSym{{"b", at, 64, elf.STTFunc, 1}, {"a", at, 64, elf.STTFunc, 1}}, "a"},
		{[]testSym{{"a", at, 64, elf.STTFunc, 1}, {"inner", at + 1, 20, elf.STTFunc, 0}}, "inner"},
		{[]testSym{{"before", at, 1, elf.STTFunc, 1}}, ""},
		{[]testSym{{"reaches", at, 2, elf.STTFunc, 1}}, "reaches"},
		{[]testSym{{"label", at, 64, elf.STTNotype, 1}}, ""},
		{[]testSym{{"a@@V1", at, 64, elf.STTFunc, 1}}, "a"},
	} {
		e := testELF{text: asm(t, "90"+movRaxTime+callRax+"c3"), symbols: c.symbols}
		if r := scanFile(t, e.build()); len(r.Sites) != 1 || r.Sites[0].Symbol != c.want {
			t.Errorf("%v: got %+v, want %q", c.symbols, r.Sites, c.want)
		}
	}
}
