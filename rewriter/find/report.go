// The report of a scan: sites, their kinds and their verdicts.

package find

import (
	"vfix.dev/vfix/rewriter/elf"
)

// Verdict says what a reference to the vsyscall page is.
type Verdict uint8

const (
	// Unknown: could not be proved to be anything else; left, reported, a finding.
	Unknown Verdict = iota
	// Live: the register reaches a call or jmp through it. Patched.
	Live
	// DormantCall: a call target that is chosen only without a vDSO
	// (the fallbacks of glibc 2.7 to 2.21). Patched, in the lea form.
	DormantCall
	// Dormant: used only without a vDSO, and not provably only called
	// (Go's data words, dietlibc's image base). Left, reported, not a finding.
	Dormant
	// Benign: compared with, or one entry of a table of addresses. Left, counted.
	Benign
)

var verdictNames = [...]string{"unknown", "live", "dormant-call", "dormant", "benign"}

func (v Verdict) String() string { return verdictNames[v] }

// MarshalText gives the word for the verdict, for JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Patchable reports whether a site with this verdict is rewritten.
func (v Verdict) Patchable() bool { return v == Live || v == DormantCall }

// Kind is how a reference to the page is written down.
type Kind uint8

const (
	// MovImm32 is REX.W C7 /0 id with a register operand, 7 bytes.
	MovImm32 Kind = iota
	// MovImm64 is REX.W B8+r io, 10 bytes.
	MovImm64
	// PushImm32 is 68 id, 5 bytes.
	PushImm32
	// CallRel32 is E8 or E9 rel32 into the page, 5 bytes; found in ET_EXEC only.
	CallRel32
	// DataWord is an aligned 8-byte word outside instructions.
	DataWord
	// CmpImm32 is REX.W 81 /7 id or REX.W 3D id, a comparison with the address.
	CmpImm32
	// StoreImm32 is REX.W C7 /0 id with a memory operand.
	StoreImm32
	// LeaDisp32 is REX.W 8D with the address as its displacement and no register, 8 bytes, or,
	// in ET_EXEC only, relative to rip, 7 bytes.
	LeaDisp32
	// JccRel32 is 0F 8x rel32 into the page, 6 bytes; found in ET_EXEC only.
	JccRel32
	// HalfImm32 is a mov of 32 bits, or lea, of the lower half of the address, whose sign is
	// extended later.
	HalfImm32
	// ArithImm32 is another instruction with the lower half of the address in it, with whose
	// result an address is computed.
	ArithImm32
	// HalfLoad is a load of the lower half of the address from data, whose sign is extended.
	HalfLoad
)

var kindNames = [...]string{"mov-imm32", "mov-imm64", "push-imm32", "call-rel32", "data-word", "cmp-imm32", "store-imm32", "lea-disp32", "jcc-rel32", "half-imm32", "arith-imm32", "half-load"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText gives the word for the kind, for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Site is one reference to the vsyscall page.
type Site struct {
	Vaddr    uint64   // of the first byte of the reference; in an object, its offset there
	Offset   uint64   // of the same byte in the file
	Len      uint8    // bytes of the instruction (8 for a DataWord)
	Kind     Kind     //
	Function Function // which entry of the page
	Reg      uint8    // the register loaded, 0 to 15 in x86 encoding order (rax = 0); only where Loads

	Verdict Verdict
	Reason  string // one clause: the evidence for the verdict
	Symbol  string // name of the enclosing function, "" if no symbol covers it

	// Member is the name of the member of an archive that it is in, "" outside of archives.
	Member string

	// Call is the first call or jmp through the register, in vaddr order; 0 if there is none.
	Call uint64
	// CallLen is the length in bytes of the instruction at Call.
	CallLen uint8
	// Tail says that the instruction at Call is a jmp: a tail jump.
	Tail bool
	// Calls is how many distinct calls and jumps the value reaches.
	Calls int
	// Stub is the extent of the whole function if it is nothing but a call of the page through
	// rax ([sub] mov call [add] ret, or mov jmp) and nothing enters its first instructions but at
	// the start; else Len is 0.
	Stub Extent
	// Named says that the stub is a function of libc.so.6 that other objects call by its name, so
	// that no caller counts on more than the C convention.
	Named bool
	// Alone says that the value reaches the call behind the reference and no other, and that
	// nothing enters between the two.
	Alone bool
	// Free says that a system call may take the place of the reference and its call, or of the
	// stub: rcx and r11 are proved to be overwritten before they are read, or there is room to
	// save them.
	Free bool

	// Reads says that the address is used as one of memory: what a fallback cannot serve.
	Reads bool

	Object *File // the object that it is in, nil outside of objects

	entry  bool // it is copied on with what is beside it
	paired bool // half an address, stored beside the other half
}

// Loads reports whether the reference loads its address into Reg.
func (s *Site) Loads() bool {
	return s.Kind == MovImm32 || s.Kind == MovImm64 || s.Kind == LeaDisp32
}

// direct reports whether the reference is itself a call or jump.
func (s *Site) Direct() bool { return s.Kind == CallRel32 || s.Kind == JccRel32 }

// Remains reports whether the address would stay in place behind a jump over the start of the stub, and look like
// data with the address in it: behind sub, in a mov of 10 bytes.
func (s *Site) Remains() bool { return s.Kind == MovImm64 && s.Stub.Vaddr != s.Vaddr }

// Adjacent reports whether the call follows the reference without a gap.
func (s *Site) Adjacent() bool { return s.Call != 0 && s.Call == s.Vaddr+uint64(s.Len) }

// Extent is a range of bytes in memory.
type Extent struct {
	Vaddr uint64
	Len   uint64
}

// Skip is why a file is passed over.
type Skip = elf.Skip

// Kinds of reasons that callers ask for.
const (
	SkipNotELF = elf.KindNotELF
	SkipBroken = elf.KindBroken
)

// Report is what Scan found in one file.
type Report struct {
	// Skipped is why the file was not examined; nil for a 64-bit x86-64 ELF file.
	Skipped *Skip
	// Sites in vaddr order.
	Sites []Site
	// ExecBytes is how many bytes of executable segments were searched.
	ExecBytes int64
	// Libc is the libc the file contains or was linked with statically, as a name and a
	// version ("glibc 2.13"), "" if nothing in the file says so.
	Libc string
	// Object says that the file is a relocatable object, or an archive of some: nothing runs
	// it, and nothing in it is patched.
	Object bool
	// Static says that the file is a program without an interpreter.
	Static bool
	// Go says that the file was made by Go's own linker.
	Go bool
	// Interp is the loader that the file names (PT_INTERP), "" for none; Needed the libraries
	// that it names (DT_NEEDED).
	Interp string
	Needed []string
	// RawSignals says that the file is a dynamic program that sets up signals by system
	// calls of its own.
	RawSignals bool
	// Injected is the version of the format of the vfix segment that the file already has, "" for none.
	Injected string
	// Fixed is the fix that the file has already, "" for none.
	Fixed Fix
	// Redirect is what needs a fix besides the sites; nil if nothing does. The plan proves it.
	Redirect *Redirect

	File  *File    // what was searched; nil where the file was skipped, and of an Object
	Size  int64    // of an Object, in bytes
	Notes []string // warnings about an Object
}

// Count returns how many sites have the verdict v.
func (r *Report) Count(v Verdict) int {
	n := 0
	for i := range r.Sites {
		if r.Sites[i].Verdict == v {
			n++
		}
	}
	return n
}
