// dietlibc keeps the address of the vDSO image in a variable, with the vsyscall page as its fallback (lib/start
// and x86_64/ of dietlibc 0.34: cmove of the page's address into the value of AT_SYSINFO_EHDR). It reads the
// variable as an ELF image and does not call it, so the address must not change.

package find

import (
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

// slotVerdict judges a value that a conditional move chose and that was stored unchanged in variables: it is an
// image base if it is the address of the page itself and all loads from the variables are used as the address of
// data.
func (f *flow) slotVerdict() (Verdict, string) {
	first, _ := f.first(kept)
	only := !slices.ContainsFunc(f.uses, func(u use) bool { return u.how != kept && u.how != left })
	if f.fn.Vaddr() != PageVaddr || len(f.calls) > 0 || !only || f.c.f.Type != elf.TypeExec {
		return Unknown, fmt.Sprintf("stored in the variable at %#x", first.slot)
	}
	image := f.asksForVDSO()
	for _, u := range f.uses {
		if u.how != kept {
			continue
		}
		at, read, escapes := f.c.slotUses(u.slot, f.fn)
		if escapes {
			return Unknown, fmt.Sprintf("stored in the variable at %#x, which is not only an image base at %#x", u.slot, at)
		}
		image = image || read
	}
	if !image { // code may load it by the address of data beside it
		return Unknown, fmt.Sprintf("stored in the variable at %#x", first.slot)
	}
	return Dormant, fmt.Sprintf("an image base in the variable at %#x, used where the kernel offers no vDSO", first.slot)
}

// asksForVDSO reports whether the code shortly before the address loads the number of the auxiliary vector's entry
// for the vDSO's image base, which is then the alternative to the address.
func (f *flow) asksForVDSO() bool {
	const entry, most = 33, 48 // AT_SYSINFO_EHDR; bytes
	for at := f.origin - most; at < f.origin && f.body != nil; at++ {
		if f.body.lens[at] == 0 {
			continue
		}
		if i, _ := f.c.at(at); i.Op == x86asm.MOV && i.Args[1] == x86asm.Imm(entry) {
			return true
		}
	}
	return false
}

// slotUses examines the loads from the variable: whether memory is read at a loaded value, and whether one is
// called, or cannot be followed, and where.
func (c *code) slotUses(slot uint64, fn Function) (at uint64, read, escapes bool) {
	refs, _ := c.f.References(slot)
	for _, at := range refs {
		based, escapes := c.loadUses(at, slot, fn)
		if escapes {
			return at, read, true
		}
		read = read || based
	}
	return 0, read, false
}

// loadUses judges the instruction whose displacement is at disp and refers to the variable.
func (c *code) loadUses(disp, slot uint64, fn Function) (read, escapes bool) {
	// REX, opcode, ModRM and perhaps SIB come before the displacement.
	for _, back := range [...]uint64{3, 4} {
		i, ok := c.at(disp - back)
		if !ok || !i.Known || i.Next() < disp+4 {
			continue
		}
		if v, _ := i.MemVaddr(); v != slot {
			continue
		}
		dst, width, isReg := i.ArgGPR(0)
		switch {
		case i.Op == x86asm.CMP || i.Op == x86asm.MOV && !isReg:
			return false, false // a test for 0, or the store itself
		case i.Op != x86asm.MOV || width != 64:
			return false, true
		}
		f := newFlow(c, i.Addr, fn, nil).from(i.Next(), exact, x86.RegsOf(dst))
		harmless := func(u use) bool { return u.how == compared || u.how == based || u.how == left }
		return f.has(based), len(f.calls) > 0 || slices.ContainsFunc(f.uses, func(u use) bool { return !harmless(u) })
	}
	return false, true
}
