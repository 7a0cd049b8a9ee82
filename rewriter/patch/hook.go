// The entries of a file's load-time hook: its entry point and an initializer.

package patch

import (
	"encoding/binary"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/shim"
)

// hooks are the entries of the load-time hook, and their continuations.
type hooks struct {
	entry uint64 // e_entry of the original, 0: not hooked
	init  uint64 // the original initialiser, 0: there was none
	edits []Edit
	found bool // some hook runs before the file's own code
}

// planHooks redirects e_entry and an initializer to the hooks of a segment at vaddr. It hooks both if both exist:
// libc.so.6 has both and can be executed. The initializer is DT_INIT, else init_array[0]. A hook continues with a jmp rel32, so addresses out of its reach are not
// hooked.
func (f *file) planHooks(vaddr uint64, layout shim.Layout) hooks {
	var h hooks
	entryHook, initHook := vaddr+uint64(layout.EntryHook), vaddr+uint64(layout.InitHook)
	reach := func(target uint64) bool {
		p := f.Load(target)
		return p != nil && p.Flags&elf.PFX != 0 && inReach(vaddr, target) && inReach(vaddr+shim.SegmentSize, target)
	}
	if f.Entry != 0 && reach(f.Entry) {
		// ld also sets e_entry in a library, but nothing enters it there.
		h.entry, h.found = f.Entry, f.IsProgram()
		h.edits = append(h.edits, wordEdit(24, f.Entry, entryHook, "e_entry"))
	}
	if len(f.Dynamic) == 0 || f.Type == elf.TypeExec {
		return h // a program's entry runs before any code of its own
	}
	if d := f.Dyn(elf.DTInit); d != nil && reach(d.Val) {
		h.init, h.found = d.Val, true
		h.edits = append(h.edits, wordEdit(d.Off+8, d.Val, initHook, "DT_INIT"))
		return h
	}
	if edits, target := f.retargetInitArray(initHook); len(edits) > 0 && reach(target) {
		h.init, h.found = target, true
		h.edits = append(h.edits, edits...)
	}
	return h
}

// retargetInitArray changes the RELATIVE relocation of init_array[0], and the word itself if it has the same value:
// prelink skips relocations and uses the word. A packed relocation (DT_RELR, as in a libc of today) has its addend in
// the word. Without such a relocation, edits is empty.
func (f *file) retargetInitArray(hook uint64) (edits []Edit, target uint64) {
	array, size := f.Range(elf.DTInitArray, elf.DTInitArraysz)
	off, _ := f.Offset(array, 8)
	word, ok := f.Word(array)
	if size < 8 || !ok {
		return edits, target
	}
	var addendOff uint64
	f.EachRela(func(r elf.Rela) {
		if r.Type == elf.RRelative && r.At == array { // the last one counts
			addendOff, target = r.Off+elf.AddendOff, r.Addend
		}
	})
	packed := addendOff == 0 && f.Dyn(elf.DTRelr) != nil
	if addendOff == 0 && !packed {
		return edits, target
	}
	if packed {
		target = word
	} else {
		edits = append(edits, wordEdit(addendOff, target, hook, "init_array[0]"))
	}
	if word == target {
		edits = append(edits, wordEdit(off, word, hook, "init_array[0]"))
	}
	return edits, target
}

// inReach reports whether a rel32 at from can reach to.
func inReach(from, to uint64) bool {
	d := int64(to - from)
	return d == int64(int32(d))
}

func wordEdit(off, old, new uint64, why string) Edit {
	le := binary.LittleEndian
	return Edit{Offset: off, Old: le.AppendUint64(nil, old), New: le.AppendUint64(nil, new), Why: why}
}
