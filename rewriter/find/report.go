// The report of a scan: sites, their kinds and their verdicts.

package find

import (
	"vfix.dev/vfix/rewriter/elf"
)

// Verdict is the kind of use of a reference to the vsyscall page.
type Verdict uint8

const (
	// Unknown: not proved to be anything else. Not patched, reported, a finding.
	Unknown Verdict = iota
	// Live: the address reaches a call or jmp through a register. Patched, a finding.
	Live
	// Dormant: used only without a vDSO: the fallbacks of glibc 2.7 to 2.22, Go's data words, dietlibc's image base.
	// Not a finding. Patched if Site.Called and the file is patched anyway.
	Dormant
	// Benign: compared with, or one entry of a table of addresses. Not patched, counted.
	Benign
)

var verdictNames = [...]string{"unknown", "live", "dormant", "benign"}

func (v Verdict) String() string { return verdictNames[v] }

// MarshalText returns the word for the verdict in JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Finding reports whether a site with this verdict is a finding if it remains: it calls the page, or may call it.
func (v Verdict) Finding() bool { return v == Live || v == Unknown }

// Kind is the encoding of a reference to the page.
type Kind uint8

const (
	// MovImm32 is REX.W C7 /0 id with a register operand, 7 bytes.
	MovImm32 Kind = iota
	// MovImm64 is REX.W B8+r io, 10 bytes.
	MovImm64
	// PushImm32 is 68 id, 5 bytes.
	PushImm32
	// DataWord is an aligned 8-byte word outside instructions.
	DataWord
	// CmpImm32 is REX.W 81 /7 id or REX.W 3D id, a comparison with the address.
	CmpImm32
	// StoreImm32 is REX.W C7 /0 id with a memory operand.
	StoreImm32
)

var kindNames = [...]string{"mov-imm32", "mov-imm64", "push-imm32", "data-word", "cmp-imm32", "store-imm32"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText returns the word for the kind in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Site is one reference to the vsyscall page.
type Site struct {
	Vaddr    uint64   // of the first byte of the reference; in an object, its offset there
	Offset   uint64   // of the same byte in the file
	Len      uint8    // bytes of the instruction (8 for a DataWord)
	Kind     Kind     //
	Function Function // the function of the page
	Reg      uint8    // the register loaded, 0 to 15 in x86 encoding order (rax = 0); only if Loads

	Verdict Verdict
	Reason  Reason // the evidence for the verdict
	Symbol  string // name of the enclosing function, "" if no symbol covers it

	// Called reports that the address is only called, so that another function may take its place: every Live site,
	// and the Dormant ones of glibc.
	Called bool

	// Call is the first call or jmp through the register, in vaddr order; 0 if there is none.
	Call uint64
	// CallLen is the length in bytes of the instruction at Call.
	CallLen uint8
	// Tail reports that the instruction at Call is a jmp: a tail jump.
	Tail bool
	// Stub is the extent of the whole function if it is only a call of the page through rax ([sub] mov call [add]
	// ret, or mov jmp) and nothing enters its first instructions except at the start; else Len is 0.
	Stub Extent
	// Named reports that the stub is a function of libc.so.6 that other objects call by its name, so that its
	// callers rely only on the C convention.
	Named bool
	// Alone reports that the value reaches only the call behind the reference, and that nothing enters between the
	// two.
	Alone bool
}

// Loads reports whether the reference loads its address into Reg.
func (s *Site) Loads() bool {
	return s.Kind == MovImm32 || s.Kind == MovImm64
}

// Extent is a range of bytes in memory.
type Extent struct {
	Vaddr uint64
	Len   uint64
}

// End returns the address behind the range.
func (e Extent) End() uint64 { return e.Vaddr + e.Len }

// Skip is why a file is skipped.
type Skip = elf.Skip

// Report is the result of Scan for one file.
type Report struct {
	// Skipped is why the file was not examined; nil for a 64-bit x86-64 ELF file.
	Skipped *Skip
	// Sites in vaddr order.
	Sites []Site
	// ExecBytes is the size of the executable segments that were searched.
	ExecBytes int64
	// Packed is why the file is not all of the code that it runs, "" if nothing shows that.
	Packed string
	// Libc is the libc in the file, or with which it was linked statically, as a name and a version ("glibc
	// 2.13"), "" if it is not known.
	Libc string
	// Static reports that the file is a program without an interpreter.
	Static bool
	// Go reports that Go's own linker made the file.
	Go bool
	// Interp is the loader of the file (PT_INTERP), "" for none.
	Interp string
	// RawSignals reports that the file is a dynamic program that sets up signals by its own system calls.
	RawSignals bool
	// Injected is the version of the format of an existing vfix segment, "" for none.
	Injected string
	// Fixed is the fix that the file has already, "" for none.
	Fixed Fix
	// Redirect is a reference besides the sites that needs a fix; nil if there is none. The plan proves it.
	Redirect *Redirect

	File *File // the searched file; nil if it was skipped
}

// Count returns the number of sites with the verdict v.
func (r *Report) Count(v Verdict) int {
	n := 0
	for i := range r.Sites {
		if r.Sites[i].Verdict == v {
			n++
		}
	}
	return n
}
