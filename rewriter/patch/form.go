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
func choose(s *find.Site, goMade bool, allowed []Form) (Form, Reason) {
	may := func(f Form) bool { return len(allowed) == 0 || slices.Contains(allowed, f) }
	switch {
	case !s.Called:
		return Left, Reason{Cause: ByVerdict, Evidence: s.Reason}
	case !s.Loads():
		return Left, Reason{Cause: Unencodable}
	case goMade && s.Alone && may(Syscall):
		// time.now of Go 1.0 is NOSPLIT: it has 128 bytes of stack, of which the vDSO needs some. It preserves no
		// register over a call.
		return Syscall, Reason{Cause: SmallStack}
	case goMade:
		return Left, Reason{Cause: NotForGo}
	case s.Stub.Len != 0 && may(Entry):
		return Entry, Reason{Cause: WholeStub}
	case may(Lea):
		return Lea, Reason{Cause: OnlyCalled}
	case s.Free && may(Syscall):
		return Syscall, Reason{Cause: LastForm}
	}
	return Left, Reason{Cause: NoForm}
}

// withoutRoom returns the form of a site in a file without room for trampolines.
func withoutRoom(s *find.Site, f Form, allowed []Form, was Reason, detail string) (Form, Reason) {
	if f == Left || f == Syscall {
		return f, was
	}
	if s.Free && (len(allowed) == 0 || slices.Contains(allowed, Syscall)) {
		return Syscall, Reason{Cause: NoRoomStub, Detail: detail}
	}
	return Left, Reason{Cause: NoRoom, Detail: detail}
}

// encode returns the bytes that replace the site in the form, and the vaddr of the first. segment is the vaddr of
// the injected segment, An error means that the trampoline is out of reach of a
// rel32.
func encode(s *find.Site, form Form, segment uint64) (vaddr uint64, code []byte, err error) {
	if form == Syscall {
		if code := exactSyscall(s.Function); s.Stub.Len >= uint64(len(code)) {
			return s.Stub.Vaddr, code, nil
		}
		return s.Vaddr, encodeSyscall(s), nil
	}
	target := segment + trampoline(s, form)
	rel := func(next uint64) ([]byte, error) {
		if !inReach(next, target) {
			return nil, fmt.Errorf("the trampoline at vaddr %#x is out of reach", target)
		}
		return binary.LittleEndian.AppendUint32(nil, uint32(target-next)), nil
	}
	var op []byte
	pad := 0
	vaddr = s.Vaddr
	switch form {
	case Entry:
		vaddr, op = s.Stub.Vaddr, []byte{0xe9}
	case Lea:
		// REX.W, with REX.R for r8 to r15; ModRM: mod 0, the register, rm 5 (rip-relative).
		op = []byte{0x48 | s.Reg>>3<<2, 0x8d, s.Reg&7<<3 | 5}
		pad = int(s.Len) - 7
	}
	// The nop comes first, so that the next instruction is at an address that unwind tables have.
	code = append(code, x86.Nops[pad]...)
	code = append(code, op...)
	next := vaddr + uint64(len(code)) + 4
	d, err := rel(next)
	code = append(code, d...)
	if form == Entry { // nothing of the address stays, which never runs but looks like a call site
		n := int(max(s.Vaddr+uint64(s.Len), next) - next)
		first := min(n, len(x86.Nops)-1)
		code = slices.Concat(code, x86.Nops[first], x86.Nops[n-first])
	}
	return vaddr, code, err
}

// encodeSyscall returns the system call that replaces an adjacent mov and call, padded to their length. It
// replaces a jmp by a ret; its mov is then of eax, which is two bytes shorter and equivalent.
func encodeSyscall(s *find.Site) []byte {
	var code []byte
	if s.Tail {
		code = binary.LittleEndian.AppendUint32([]byte{0xb8}, s.Function.Syscall())
		code = append(code, 0x0f, 0x05, 0xc3)
	} else {
		code = binary.LittleEndian.AppendUint32([]byte{0x48, 0xc7, 0xc0}, s.Function.Syscall())
		code = append(code, 0x0f, 0x05)
	}
	return append(code, x86.Nops[int(s.Len)+int(s.CallLen)-len(code)]...)
}

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
