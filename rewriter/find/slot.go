// dietlibc keeps the address of the vDSO image in a variable, with the vsyscall page as its
// fallback (lib/start and x86_64/ of dietlibc 0.34: cmove of the page's address into what
// AT_SYSINFO_EHDR gave). It is read as an ELF image, not called, and must stay as it is.

package find

import (
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
)

// slotVerdict judges a value that was picked by a conditional move and stored, as it is,
// in variables: it is an image base if it is the address of the page itself and all
// that is loaded from the variables is used as the address of data.
func (f *flow) slotVerdict() (Verdict, string) {
	first, _ := f.first(kept)
	only := !slices.ContainsFunc(f.uses, func(u use) bool { return u.how != kept && u.how != left })
	if f.fn.Vaddr() != PageVaddr || len(f.calls) > 0 || !only || f.c.f.Type != elf.TypeExec {
		return Unknown, fmt.Sprintf("stored in the variable at %#x", first.slot)
	}
	for _, u := range f.uses {
		if at, ok := f.c.slotCalled(u.slot, f.fn); ok && u.how == kept {
			return Unknown, fmt.Sprintf("stored in the variable at %#x, which is not only an image base at %#x", u.slot, at)
		}
	}
	return Dormant, fmt.Sprintf("an image base in the variable at %#x, used where the kernel offers no vDSO", first.slot)
}

// slotCalled looks for a load from the variable whose value is called, or goes where it
// cannot be followed, and returns where.
func (c *code) slotCalled(slot uint64, fn Function) (at uint64, found bool) {
	refs, _, err := c.f.References(slot)
	if err != nil {
		return 0, true // Scan reports it
	}
	i := slices.IndexFunc(refs, func(at uint64) bool { return c.loadEscapes(at, slot, fn) })
	if i < 0 {
		return 0, false
	}
	return refs[i], true
}

// loadEscapes judges the instruction whose displacement is at disp and names the variable.
func (c *code) loadEscapes(disp, slot uint64, fn Function) bool {
	// REX, opcode, ModRM and perhaps SIB come before the displacement.
	for _, back := range [...]uint64{3, 4} {
		i, ok := c.at(disp - back)
		if !ok || !i.Known || i.Next() < disp+4 {
			continue
		}
		v, fixed := i.MemVaddr()
		if !fixed || v != slot {
			continue
		}
		dst, width, isReg := i.ArgGPR(0)
		switch {
		case i.Op == x86asm.CMP || i.Op == x86asm.MOV && !isReg:
			return false // a test for 0, or the store itself
		case i.Op != x86asm.MOV || width != 64:
			return true
		}
		f := follow(c, i.Addr, i.Next(), dst, fn, nil)
		harmless := func(u use) bool { return u.how == compared || u.how == based || u.how == left }
		return len(f.calls) > 0 || slices.ContainsFunc(f.uses, func(u use) bool { return !harmless(u) })
	}
	return true
}
