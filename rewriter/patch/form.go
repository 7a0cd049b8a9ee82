// The form in which a site is rewritten, and the encoding of its bytes.

package patch

import (
	"encoding/binary"
	"fmt"
	"slices"

	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/x86"
	"vfix.dev/vfix/shim"
)

// choose returns the form of a site if there is room for trampolines, and the reason for that form, or for none.
func choose(s *find.Site, goMade bool) (Form, Reason) {
	switch {
	case !s.Called:
		return Left, Reason{Cause: ByVerdict, Evidence: s.Reason}
	case s.Kind == find.StoreImm32 && !goMade:
		return Imm, Reason{Cause: FrameWord}
	case s.Kind == find.DataWord:
		return Imm, Reason{Cause: GoWord}
	case goMade && s.Alone:
		// time.now of Go 1.0 is NOSPLIT: it has 128 bytes of stack, of which the vDSO needs some. It preserves no
		// register over a call.
		return Syscall, Reason{Cause: SmallStack}
	case goMade:
		return Left, Reason{Cause: NotForGo}
	case s.Stub.Len != 0:
		return Entry, Reason{Cause: WholeStub}
	}
	return Lea, Reason{Cause: OnlyCalled}
}

// withoutRoom returns the form of a site in a file without room for trampolines.
func withoutRoom(s *find.Site, f Form, was Reason, detail string) (Form, Reason) {
	if f == Left || f == Syscall {
		return f, was
	}
	if int(s.Stub.Len) >= exactLen {
		return Syscall, Reason{Cause: NoRoomStub, Detail: detail}
	}
	return Left, Reason{Cause: NoRoom, Detail: detail}
}

// encode returns the bytes that replace the site in the form, and the vaddr of the first. segment is the vaddr of the
// injected segment. An error means that it is out of reach.
func (p *Plan) encode(s *find.Site, form Form, segment uint64) (vaddr uint64, code []byte, err error) {
	target := segment + trampoline(s, form)
	switch form {
	case Entry:
		return s.Stub.Vaddr, encodeEntry(s, target), reach(s.Stub.Vaddr, target)
	case Lea:
		return s.Vaddr, encodeLea(s, target), reach(s.Vaddr, target)
	case Imm:
		code, err = p.imm(s, segment, p.file.Bytes(s.Offset, uint64(s.Len)))
		return s.Vaddr, code, err
	}
	if int(s.Stub.Len) >= exactLen {
		return s.Stub.Vaddr, exactSyscall(s.Function), nil
	}
	return s.Vaddr, encodeSyscall(s), nil
}

// reach returns an error if a rel32 of an instruction at from cannot lead to target.
func reach(from, target uint64) error {
	if !inReach(from, target) || !inReach(from+2*x86.MaxLen, target) {
		return fmt.Errorf("the trampoline at vaddr %#x is out of reach", target)
	}
	return nil
}

// encodeEntry returns a jump at the start of a stub, and nops up to the end of the reference: nothing of the address
// stays, which would never run but look like a call site.
func encodeEntry(s *find.Site, target uint64) []byte {
	code := jump(s.Stub.Vaddr, target)
	for n := int(s.Vaddr+uint64(s.Len)-s.Stub.Vaddr) - jumpLen; n > 0; {
		pad := min(n, len(x86.Nops)-1)
		code, n = append(code, x86.Nops[pad]...), n-pad
	}
	return code
}

// encodeLea returns lea target(%rip) of the reference's register. The nop comes first, so that the next instruction is
// at an address that unwind tables have.
func encodeLea(s *find.Site, target uint64) []byte {
	const length = 7
	code := slices.Clone(x86.Nops[s.Len-length])
	// REX.W, with REX.R for r8 to r15; ModRM: mod 0, the register, rm 5 (rip-relative).
	code = append(code, 0x48|s.Reg>>3<<2, 0x8d, s.Reg&7<<3|5)
	return binary.LittleEndian.AppendUint32(code, uint32(target-(s.Vaddr+uint64(s.Len))))
}

// encodeSyscall returns the system call that replaces an adjacent mov and call, padded to their length. It
// replaces a jmp by a ret; its mov is then of eax, which is two bytes shorter and equivalent.
func encodeSyscall(s *find.Site) []byte {
	code := bareSyscall(s.Function)
	if !s.Tail {
		code = binary.LittleEndian.AppendUint32([]byte{0x48, 0xc7, 0xc0}, s.Function.Syscall())
		code = append(code, 0x0f, 0x05)
	}
	return append(code, x86.Nops[int(s.Len)+int(s.CallLen)-len(code)]...)
}

// exactLen is the length of such a function, in bytes.
const exactLen = 14

// exactSyscall returns the function as a system call that changes only rax, for a stub of glibc, which is longer.
func exactSyscall(f find.Function) []byte {
	code := binary.LittleEndian.AppendUint32([]byte{
		0x51,       // push %rcx
		0x41, 0x53, // push %r11
		0xb8, // mov $nr,%eax
	}, f.Syscall())
	return append(code,
		0x0f, 0x05, // syscall
		0x41, 0x5b, // pop %r11
		0x59, // pop %rcx
		0xc3) // ret
}

// trampolineName returns the name of the site's trampoline in listings: vfix_NAME, or keep_NAME for vfix_keep_NAME
// of shim/src/trampolines.S, as two sides must fit into 80 columns.
func trampolineName(s *find.Site, form Form) string {
	if keeps(s, form) {
		return "keep_" + s.Function.String()
	}
	return "vfix_" + s.Function.String()
}

// keeps reports whether the site gets the exact trampoline, which changes only rax: all sites do except in
// functions that other objects call by name.
func keeps(s *find.Site, form Form) bool { return form != Entry || !s.Named }

// trampoline returns the offset in the segment of the trampoline for the site.
func trampoline(s *find.Site, form Form) uint64 {
	layout := shim.Injected()
	t := [...]shim.Trampoline{find.Gettimeofday: layout.Gettimeofday, find.Time: layout.Time, find.Getcpu: layout.Getcpu}[s.Function]
	if keeps(s, form) {
		return uint64(t.Keep)
	}
	return uint64(t.Plain)
}
