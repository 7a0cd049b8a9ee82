package rewriter

import (
	"encoding/binary"
	"fmt"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	subRsp = "4883ec08\n"
	addRsp = "4883c408\n"
	nops16 = "90909090 90909090 90909090 90909090\n"
)

// glibc is text by which a file is known to be, or to contain, a glibc that calls the page.
var glibc = glibcText("2.13")

func glibcText(version string) string {
	return fmt.Sprintf("%x", "\x00stable release version "+version+"\x00")
}

// TestStub is about whole functions that are nothing but a call of the page.
func TestStub(t *testing.T) {
	const at = testBase + testTextOff
	timeStub := subRsp + movRaxTime + callRax + addRsp + "c3"
	fn := func(off uint64) []testSym { return []testSym{{"f", at + off, 300, elf.STTFunc, 0}} }
	for _, c := range []struct {
		name   string
		e      testELF
		text   string
		off    uint64 // of the stub
		len    uint64
		shared bool
	}{
		{"sub, mov, call, add, ret: a symbol", testELF{symbols: fn(1)}, "c3" + timeStub, 1, 18, false},
		{"an unwind entry that does not say where it ends", testELF{fdes: []uint64{at + 1}}, "c3" + timeStub, 0, 0, false},
		{"a direct call: where it ends is not known", testELF{entry: at + 19}, "c3" + timeStub + "e8 e9ffffff c3", 0, 0, false},
		{"aligned behind nops: where it ends is not known", testELF{}, nops16 + timeStub, 0, 0, false},
		{"aligned behind code", testELF{}, "9090909090909090909090 b800010000" + timeStub, 0, 0, false},
		{"mov, call, ret", testELF{symbols: fn(0)}, movRaxTime + callRax + "c3", 0, 10, false},
		{"mov, jmp", testELF{symbols: fn(0)}, movRaxTime + "ffe0", 0, 9, false},
		{"movabs, jmp *%r13", testELF{symbols: fn(0)}, "49bb 000460ffffffffff 41ffe3", 0, 13, false},
		{"another sub", testELF{symbols: fn(0)}, "4883ec18" + movRaxTime + callRax + "4883c418 c3", 0, 0, false},
		{"sub without add", testELF{symbols: fn(0)}, subRsp + movRaxTime + callRax + "58 c3", 0, 0, false},
		{"work after the call", testELF{symbols: fn(0)}, subRsp + movRaxTime + callRax + "31c0" + addRsp + "c3", 0, 0, false},
		{"a call that is not adjacent", testELF{symbols: fn(0)}, movRaxTime + "90" + callRax + "c3", 0, 0, false},
		{"a branch to its start", testELF{symbols: fn(0)}, timeStub + "ebec", 0, 18, false},
		{"a branch to the mov", testELF{symbols: fn(0)}, timeStub + "ebf0", 0, 0, false},
		{"a branch to the call", testELF{symbols: fn(0)}, timeStub + "ebf7", 0, 0, true},
		{"a branch to the add", testELF{symbols: fn(0)}, timeStub + "ebf9", 0, 0, false},
		{"a far branch to the add", testELF{symbols: fn(0)}, timeStub + nops16 + "e9 e6ffffff", 0, 0, false},
		{"a far branch to the call", testELF{symbols: fn(0)}, timeStub + nops16 + "0f84 e3ffffff", 0, 0, true},
		{"a call into the middle of the mov", testELF{symbols: fn(0)}, timeStub + nops16 + "e8 e1ffffff", 0, 0, true},
		{"a jump table to the call", testELF{symbols: fn(0), data: binary.LittleEndian.AppendUint64(nil, at+11)}, timeStub, 0, 0, true},
		{"a jump table to the start", testELF{symbols: fn(0), data: binary.LittleEndian.AppendUint64(nil, at)}, timeStub, 0, 18, false},
		{"a relocation to the call", testELF{symbols: fn(0), rela: []testRela{{at, elf.RRelative, at + 11}}}, timeStub, 0, 0, true},
		{"bytes that only look like a branch", testELF{symbols: []testSym{{"f", at, 18, elf.STTFunc, 0}, {"g", at + 18, 11, elf.STTFunc, 0}}}, timeStub + "48b8 ebf7ebf7ebf7ebf7 c3", 0, 18, false},
		{"a branch where no start is known", testELF{}, nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + timeStub + "ebf7", 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.text = asm(t, c.text)
			r := scanFile(t, c.e.build())
			if len(r.Sites) != 1 {
				t.Fatalf("got %+v", r.Sites)
			}
			want := Extent{at + c.off, c.len}
			if c.len == 0 {
				want = Extent{}
			}
			if s := r.Sites[0]; s.Stub != want || s.Shared != c.shared || s.Verdict != Live {
				t.Errorf("got %v, stub %#x, shared %v; want stub %#x, shared %v", s.Verdict, s.Stub, s.Shared, want, c.shared)
			}
		})
	}
}

// TestShared is about calls that must stay although the mov is rewritten.
func TestShared(t *testing.T) {
	for _, c := range []struct {
		name, text string
		shared     bool
	}{
		{"adjacent", subRsp + movRaxTime + callRax + "90" + addRsp + "c3", false},
		{"straight to the call", movRaxTime + "31ff" + callRax + "31c0 c3", false},
		{"a branch between", movRaxTime + "85ff 7402 31ff" + callRax + "31c0 c3", true},
		{"another value joins", "85ff 7407 4889f0 eb09 9090" + movRaxTime + callRax + "31c0 c3", true},
		{"two calls", "4155" + movR13Time + "41ffd5 41ffd5 415d c3", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testELF{text: asm(t, c.text)}
			e.symbols = []testSym{{"f", e.textVaddr(), 100, elf.STTFunc, 0}}
			r := scanFile(t, e.build())
			if len(r.Sites) != 1 || r.Sites[0].Shared != c.shared || r.Sites[0].Verdict != Live {
				t.Errorf("got %+v, want shared %v", r.Sites, c.shared)
			}
		})
	}
}

// TestDead walks from the call to where the caller would see the registers.
func TestDead(t *testing.T) {
	all := deadCandidates
	set := func(r ...int) x86.Regs { return x86.RegsOf(r...) }
	for _, c := range []struct {
		name, after string
		abi, not    x86.Regs // dead in a C function, and in another
	}{
		{"ret", "c3", all, 0},
		{"overwritten", "31d2 be01000000 488d7c2408 c3", all, set(x86.Rdx, x86.Rsi, x86.Rdi)},
		{"read", "4889d0 4d89c8 c3", all &^ set(x86.Rdx, x86.R9), set(x86.R8)},
		{"read as an address", "488b06 c3", all &^ set(x86.Rsi), 0},
		{"overwritten in part", "b201 c3", all, 0},
		{"compared", "4c39c7 c3", all &^ set(x86.Rdi, x86.R8), 0},
		{"read on one path", "85c0 7403 4889d0 31d2 c3", all &^ set(x86.Rdx), 0},
		{"overwritten on both paths", "85c0 7404 31d2 eb02 89c2 c3", all, set(x86.Rdx)},
		{"overwritten on one path", "85c0 7402 31d2 c3", all, 0},
		{"a loop", "31d2 85c0 75fa c3", all, set(x86.Rdx)},
		{"a multiplication", "bfe8030000 48f7e7 c3", all, set(x86.Rdx, x86.Rdi)},
		{"a system call", "b8ca000000 0f05 c3", set(x86.Rcx, x86.R11), set(x86.Rcx, x86.R11)},
		{"a system call with its arguments set", "31ff 31f6 31d2 4d31d2 4d31c0 4d31c9 0f05 c3", all, all},
		{"a call that reads its arguments", "e801000000 c3 4889f8 c3", all &^ set(x86.Rdi), 0},
		{"a call that overwrites them", "e801000000 c3 31d2 31f6 c3", all, set(x86.Rdx, x86.Rsi)},
		{"a call through a pointer", "ff15 00000000 c3", set(x86.R10, x86.R11), 0},
		{"an indirect jump", "ffe1", 0, 0},
		{"a jump to the end", "eb01 90 c3", all, 0},
		{"ud2", "0f0b", all, all},
		{"no instruction", "06", 0, 0},
		{"an instruction without a rule", "d7 c3", 0, 0},
		{"saved", "52 c3", all &^ set(x86.Rdx), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testELF{dyn: true, dynamic: true, soname: "libc.so.6", comment: gcc4, text: asm(t, "90"+movRaxTime+callRax+c.after+glibc)}
			for _, abi := range []bool{true, false} {
				want := c.not
				e.symbols = nil
				if abi {
					want = c.abi
					e.symbols = []testSym{{"time", e.textVaddr(), 100, elf.STTFunc, 1}}
				}
				r := scanFile(t, e.build())
				if len(r.Sites) != 1 || r.Sites[0].ABI != abi || x86.Regs(r.Sites[0].Dead) != want {
					t.Errorf("C function %v: got %+v, want dead %#x", abi, r.Sites, uint16(want))
				}
			}
		})
	}
}

// TestABI is about which functions are taken to follow the C convention.
func TestABI(t *testing.T) {
	plain := "90" + movRaxTime + callRax + "31d2 c3"
	stub := movRaxTime + callRax + "c3"
	libc := func(comment string) testELF {
		return testELF{dyn: true, dynamic: true, soname: "libc.so.6", comment: comment}
	}
	for _, c := range []struct {
		name string
		e    testELF
		text string
		sym  testSym
		want bool
	}{
		{"exported, by a newer compiler", libc(gcc5), plain, testSym{"sched_getcpu", 0, 50, elf.STTFunc, 1}, false},
		{"exported, by nobody knows what", libc(""), plain, testSym{"sched_getcpu", 0, 50, elf.STTFunc, 1}, false},
		{"exported, by one of each", libc(gcc4 + "\x00" + gcc5), plain, testSym{"sched_getcpu", 0, 50, elf.STTFunc, 1}, false},
		{"exported", libc(gcc4), plain, testSym{"sched_getcpu", 0, 50, elf.STTFunc, 1}, true},
		{"exported, weak", libc(gcc4), plain, testSym{"x", 0, 50, elf.STTFunc, 2}, true},
		{"exported by another library: assembly may call it", testELF{dyn: true, dynamic: true, soname: "libx.so.1", comment: gcc4}, plain, testSym{"sched_getcpu", 0, 50, elf.STTFunc, 1}, false},
		{"local", libc(gcc4), plain, testSym{"sched_getcpu", 0, 50, elf.STTFunc, 0}, false},
		{"a lock function, were it exported", libc(gcc4), plain, testSym{"__lll_timedlock_wait", 0, 50, elf.STTFunc, 1}, false},
		{"exported, but it ends before", libc(""), plain, testSym{"time", 0, 1, elf.STTFunc, 1}, false},
		{"global in a static program, a public name", testELF{comment: gcc4}, plain, testSym{"__gettimeofday", 0, 50, elf.STTFunc, 1}, false},
		{"global in a static program, another name", testELF{}, plain, testSym{"__lll_timedlock_wait", 0, 50, elf.STTFunc, 1}, false},
		{"a stub without a name: assembly may call it", testELF{comment: gcc4}, stub, testSym{"", 0, 50, elf.STTFunc, 0}, false},
		{"a stub under a private name", testELF{comment: gcc4}, stub, testSym{"helper", 0, 50, elf.STTFunc, 0}, false},
		{"glibc's time, known by its bytes", testELF{}, timeStubText + glibc, testSym{"", 0, 18, elf.STTFunc, 0}, true},
		{"the same in a newer glibc", testELF{}, timeStubText + glibcText("2.36"), testSym{"", 0, 18, elf.STTFunc, 0}, false},
		{"the same with objects of a newer compiler", testELF{comment: gcc5}, timeStubText + glibc, testSym{"", 0, 18, elf.STTFunc, 0}, false},
		{"a caller that reads a register", testELF{comment: gcc4, entry: testBase + testTextOff + 18}, timeStubText + "e8 e9ffffff 4889d0 c3" + glibc, testSym{"", 0, 18, elf.STTFunc, 0}, false},
		{"no stub, without a name", testELF{fdes: []uint64{0}}, plain, testSym{}, false},
		{"Go", testELF{noteSection: ".gosymtab"}, stub, testSym{"time", 0, 50, elf.STTFunc, 1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.e.text = asm(t, c.text); c.e.soname != "" {
				c.e.text = append(c.e.text, asm(t, glibc)...)
			}
			if c.sym.size != 0 {
				c.sym.value = c.e.textVaddr()
				c.e.symbols = []testSym{c.sym}
			}
			if len(c.e.fdes) > 0 {
				c.e.fdes[0] = c.e.textVaddr()
			}
			r := scanFile(t, c.e.build())
			if len(r.Sites) != 1 || r.Sites[0].ABI != c.want {
				t.Errorf("got %+v, want ABI %v", r.Sites, c.want)
			}
		})
	}
}

// TestManyCallers is about a program that calls time() in many places, and behind each of them
// functions that call others: what is asked about those again and again is worked out once, or
// the program's one site would be given up as too much work.
func TestManyCallers(t *testing.T) {
	text := asm(t, timeStubText)
	call := func(to int) { // at the end of text
		text = binary.LittleEndian.AppendUint32(append(text, 0xe8), uint32(to-len(text)-jumpLen))
	}
	// Each of these functions calls the one before it ten times, and leaves all registers alone.
	callee := len(text)
	text = append(text, 0xc3)
	for range calleeDepth - 1 {
		at := len(text)
		for range 10 {
			call(callee)
		}
		text = append(text, 0xc3)
		callee = at
	}
	for range 100 {
		call(0)
		call(callee)
		text = append(text, 0xc3)
	}
	e := testELF{text: append(text, asm(t, glibc)...)}
	e.symbols = []testSym{{"time", e.textVaddr(), 18, elf.STTFunc, 1}}
	p := planFile(t, e.build(), Options{})
	if len(p.Patches) != 1 || p.Patches[0].Form != Entry {
		t.Errorf("got %d patches, want one in the entry form: %v", len(p.Patches), p.Patches[0].Reason)
	}
}

func TestSymbol(t *testing.T) {
	const at = testTextOff
	for _, c := range []struct {
		name    string
		symbols []testSym
		want    string
	}{
		{"none", nil, ""},
		{"one", []testSym{{"time", at, 20, elf.STTFunc, 1}}, "time"},
		{"public before private", []testSym{{"__gettimeofday", at, 20, elf.STTFunc, 1}, {"gettimeofday", at, 20, elf.STTFunc, 2}, {"gtod", at, 20, elf.STTFunc, 0}}, "gettimeofday"},
		{"with a version", []testSym{{"time@@GLIBC_2.2.5", at, 20, elf.STTFunc, 1}}, "time"},
		{"too short", []testSym{{"time", at, 1, elf.STTFunc, 1}}, ""},
		{"without a size", []testSym{{"time", at, 0, elf.STTFunc, 1}}, ""},
		{"an object", []testSym{{"time", at, 20, 1, 1}}, ""},
		{"the inner one", []testSym{{"all", at, 20, elf.STTFunc, 1}, {"part", at + 1, 10, elf.STTFunc, 0}}, "part"},
		{"not fit to print", []testSym{{"a\x1b[2J\xff", at, 20, elf.STTFunc, 1}}, "a?[2J?"},
		{"a size that overflows", []testSym{{"time", at, ^uint64(0), elf.STTFunc, 1}}, "time"},
		{"a value that overflows", []testSym{{"time", ^uint64(0), 20, elf.STTFunc, 1}}, ""},
	} {
		for _, bare := range []bool{false, true} {
			name := fmt.Sprintf("%s, section headers %v", c.name, !bare)
			t.Run(name, func(t *testing.T) {
				e := testELF{dyn: true, dynamic: true, bare: bare, text: asm(t, "90"+movRaxTime+callRax+"c3"), symbols: c.symbols}
				want := c.want
				if bare && c.name == "the inner one" {
					want = "all" // the other is local, and only .symtab has it
				}
				if r := scanFile(t, e.build()); len(r.Sites) != 1 || r.Sites[0].Symbol != want {
					t.Errorf("got %+v, want %q", r.Sites, want)
				}
			})
		}
	}
}
