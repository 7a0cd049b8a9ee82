// The program header that the injected segment takes.

package patch

import (
	"vfix.dev/vfix/rewriter/elf"
)

// spare chooses the program header to replace, by the cost of its loss:
//
//   - PT_NULL, which is never read (gABI, "Program Header").
//   - a PT_NOTE without a build ID: the ABI tag, or properties that PT_GNU_PROPERTY also has.
//   - PT_PHDR of a dynamic ET_EXEC: loaders subtract its p_vaddr from AT_PHDR to compute the load address (glibc,
//     elf/rtld.c; musl, ldso/dynlink.c), which is 0, their initial value.
//   - a PT_NOTE with the build ID.
//
// The error is a roomError.
func (f *file) spare() (int, error) {
	const none = 5
	best, bestCost := 0, none
	for i := range f.Progs {
		cost := none
		switch p := &f.Progs[i]; {
		case p.Type == elf.PTNull:
			cost = 1
		case p.Type == elf.PTNote && !f.HasBuildID(p):
			cost = 2
		case p.Type == elf.PTPhdr && f.Type == elf.TypeExec:
			cost = 3
		case p.Type == elf.PTNote:
			cost = 4
		}
		if cost < bestCost {
			best, bestCost = i, cost
		}
	}
	if bestCost == none {
		return 0, roomError("no program header to spend on a segment: no PT_NOTE")
	}
	return best, nil
}

// editProgs changes the program headers.
func (p *Plan) editProgs(place room, off uint64) {
	f := p.file
	table := f.progTable(place, off)
	old := f.Bytes(f.PhOff, uint64(len(table)))
	p.Edits = append(p.Edits, Edit{Offset: f.PhOff, Old: old, New: table, Why: "program headers"})
	if f.HasBuildID(&f.Progs[place.spent]) {
		p.Notes = append(p.Notes, "the build ID is no longer in a program header, only in its section: the file has no other header to spare")
	}
}
