// How a file enters the load-time hook: by its entry point, and by an initialiser.

package rewriter

import (
	"encoding/binary"
	"math"

	"vfix.dev/vfix/shim"
)

// hooks is where the load-time hook is entered, and what it goes on to.
type hooks struct {
	entry uint64 // e_entry of the original, 0: not hooked
	init  uint64 // the original initialiser, 0: there was none
	edits []Edit
	found bool // some hook runs before the file's own code
}

// planHooks retargets e_entry and an initialiser to the hooks of a segment at vaddr.
// Both where both exist: libc.so.6 has both and can be executed. What is hooked as an
// initialiser, in this order: DT_INIT; the RELATIVE relocation of init_array[0]; an unused
// dynamic entry, which becomes a DT_INIT (ld leaves some, --spare-dynamic-tags). A hook goes
// on by a jmp rel32: what is out of its reach is not hooked.
func (f *file) planHooks(vaddr uint64, layout shim.Layout) (hooks, error) {
	var h hooks
	entryHook, initHook := vaddr+uint64(layout.EntryHook), vaddr+uint64(layout.InitHook)
	reach := func(target uint64) bool {
		p := f.load(target)
		return p != nil && p.flags&pfX != 0 && inReach(vaddr, target) && inReach(vaddr+shim.SegmentSize, target)
	}
	if f.entry != 0 && reach(f.entry) {
		// ld gives a library an e_entry too; nothing ever enters there.
		h.entry, h.found = f.entry, f.isProgram()
		h.edits = append(h.edits, wordEdit(24, f.entry, entryHook, "e_entry"))
	}
	if len(f.dynamic) == 0 || f.typ == etExec {
		return h, nil // a program's entry runs before any code of its own
	}
	if d := f.dyn(dtInit); d != nil && reach(d.val) {
		h.init, h.found = d.val, true
		h.edits = append(h.edits, wordEdit(d.off+8, d.val, initHook, "DT_INIT"))
		return h, nil
	}
	edits, target, err := f.retargetInitArray(initHook)
	if err != nil {
		return h, err
	}
	if len(edits) > 0 && reach(target) {
		h.init, h.found = target, true
		h.edits = append(h.edits, edits...)
		return h, nil
	}
	// The second spare entry stays DT_NULL: the table must end.
	if f.dyn(dtInit) == nil && len(f.dynSpare) >= 2 {
		h.found = true
		h.edits = append(h.edits,
			wordEdit(f.dynSpare[0], dtNull, dtInit, "DT_INIT"),
			wordEdit(f.dynSpare[0]+8, f.spareValue(), initHook, "DT_INIT"))
	}
	return h, nil
}

// spareValue is d_val of the first DT_NULL, which nothing obliges to be zero.
func (f *file) spareValue() uint64 {
	b, err := f.bytes(f.dynSpare[0]+8, 8)
	if err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// inReach reports whether a rel32 behind vaddr from reaches vaddr to.
func inReach(from, to uint64) bool {
	d := int64(to - from)
	return d >= math.MinInt32 && d <= math.MaxInt32
}

func wordEdit(off, old, new uint64, why string) Edit {
	le := binary.LittleEndian
	return Edit{Offset: off, Old: le.AppendUint64(nil, old), New: le.AppendUint64(nil, new), Why: why}
}

// retargetInitArray changes the relocation that fills init_array[0], and the word itself
// where it holds the same value: prelink skips relocations and uses the word, and a RELR
// relocation has its addend there. No edits: there is no such relocation.
func (f *file) retargetInitArray(hook uint64) (edits []Edit, target uint64, err error) {
	array, size := f.dyn(dtInitArray), f.dyn(dtInitArraysz)
	if array == nil || size == nil || size.val < 8 {
		return nil, 0, nil
	}
	wordOff, ok := f.offset(array.val, 8)
	if !ok {
		return nil, 0, nil
	}
	word, ok := f.word(array.val)
	if !ok {
		return nil, 0, nil
	}
	addendOff, addend, err := f.relativeAddend(array.val)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case addendOff != 0:
		target = addend
		edits = append(edits, wordEdit(addendOff, addend, hook, "init_array[0]"))
		if word == addend {
			edits = append(edits, wordEdit(wordOff, word, hook, "init_array[0]"))
		}
	case f.inRelr(array.val):
		target = word
		edits = append(edits, wordEdit(wordOff, word, hook, "init_array[0]"))
	}
	return edits, target, nil
}

// relativeAddend finds the R_X86_64_RELATIVE relocation of the word at vaddr in DT_RELA and
// returns where in the file its addend is; offset 0: there is none.
func (f *elfFile) relativeAddend(vaddr uint64) (off, addend uint64, err error) {
	rela, size := f.dyn(dtRela), f.dyn(dtRelasz)
	if rela == nil || size == nil {
		return 0, 0, nil
	}
	start, ok := f.offset(rela.val, size.val)
	if !ok {
		return 0, 0, nil
	}
	le := binary.LittleEndian
	const batch = 1 << 12 // entries read at once
	for n := size.val / relaSize; n > 0; {
		k := min(n, batch)
		b, err := f.bytes(start, k*relaSize)
		if err != nil {
			return 0, 0, err
		}
		for i := uint64(0); i < k; i++ {
			e := b[i*relaSize:]
			if le.Uint64(e) == vaddr && le.Uint64(e[8:]) == rRelative {
				return start + i*relaSize + 16, le.Uint64(e[16:]), nil
			}
		}
		start, n = start+k*relaSize, n-k
	}
	return 0, 0, nil
}

// maxRelr bounds the bytes of DT_RELR that are read; it encodes up to 64 times as many words.
const maxRelr = 1 << 24

// inRelr reports whether DT_RELR relocates the word at vaddr. Source: gABI proposal
// "Relative relocations" (DT_RELR): an even entry is an address, an odd one a bitmap of the
// 63 words behind it.
func (f *elfFile) inRelr(vaddr uint64) bool {
	relr, size := f.dyn(dtRelr), f.dyn(dtRelrsz)
	if relr == nil || size == nil {
		return false
	}
	start, ok := f.offset(relr.val, size.val)
	if !ok {
		return false
	}
	b, err := f.bytes(start, min(size.val, maxRelr))
	if err != nil {
		return false
	}
	var next uint64
	for ; len(b) >= 8; b = b[8:] {
		e := binary.LittleEndian.Uint64(b)
		if e&1 == 0 {
			if e == vaddr {
				return true
			}
			next = e + 8
			continue
		}
		if d := vaddr - next; vaddr >= next && d%8 == 0 && d/8 < 63 && e>>(1+d/8)&1 == 1 {
			return true
		}
		next += 63 * 8
	}
	return false
}
