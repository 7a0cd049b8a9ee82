// The instructions of one function: what is reached from its start, along every path whose
// target the file tells. Bytes that no path reaches are not known to be code: data in
// executable segments exists, and may look like a call.

package rewriter

import (
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// maxBody bounds the instructions of one function.
	maxBody = 1 << 16
	// maxTable bounds the entries read of one jump table, and maxBases the addresses in a
	// function that may be a table's.
	maxTable = 1 << 12
	maxBases = 64
)

// body is the code of a function.
type body struct {
	elf.Func
	lens map[uint64]uint8 // of each instruction reached, by its address
	// away are the addresses outside of the function that it jumps to, calls its callees.
	away, calls []uint64
	// jumps are the indirect jumps through a register or a table.
	jumps []uint64
	pads  []uint64 // landing pads of exceptions
	// damaged is why the code is not known whole: "" where it is.
	damaged string

	frame  frame
	framed bool // frame was computed

	bases, labels []uint64 // addresses that its instructions name: of data, of its own code
}

// bodyOf follows the code of fn from its start.
func (c *code) bodyOf(fn elf.Func) *body {
	if b, ok := c.bodies[fn.Start]; ok {
		return b
	}
	b := &body{Func: fn, lens: make(map[uint64]uint8)}
	c.bodies[fn.Start] = b
	var ok bool
	if b.pads, ok = c.f.LandingPads(fn); !ok {
		b.damaged = "its table of landing pads is not understood"
	}
	work := append([]uint64{fn.Start}, b.pads...)
	b.walk(c, work)
	tried := make(map[uint64]bool)
	for len(b.jumps) > 0 {
		if work = b.tables(c, tried); len(work) == 0 {
			break
		}
		b.walk(c, work)
	}
	return b
}

func (b *body) fail(why string) {
	if b.damaged == "" {
		b.damaged = why
	}
}

// walk follows the code from the addresses of work.
func (b *body) walk(c *code, work []uint64) {
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if b.lens[at] != 0 {
			continue
		}
		if !b.Holds(at) {
			b.away = append(b.away, at)
			continue
		}
		i, ok := c.at(at)
		if !ok || !c.holds(at) || len(b.lens) >= maxBody {
			b.fail("it reaches bytes that are no known instruction")
			continue
		}
		b.lens[at] = uint8(i.Len)
		b.names(c, &i)
		switch i.Flow {
		case x86.FlowNext:
			work = append(work, i.Next())
		case x86.FlowCond:
			work = append(work, i.Target, i.Next())
		case x86.FlowJump:
			work = append(work, i.Target)
		case x86.FlowCall, x86.FlowCallInd:
			if i.Flow == x86.FlowCall {
				b.calls = append(b.calls, i.Target)
			}
			// A callee that does not return stands last in its caller.
			if b.Holds(i.Next()) && (b.End != 0 || !c.starts.has(i.Next())) {
				work = append(work, i.Next())
			}
		case x86.FlowIndirect:
			if _, fixed := i.MemVaddr(); !fixed {
				b.jumps = append(b.jumps, at)
			}
		}
	}
}

// names notes the addresses that an instruction has in it.
func (b *body) names(c *code, i *x86.Instr) {
	if len(b.bases)+len(b.labels) >= maxBases {
		return
	}
	note := func(v uint64) {
		switch p := c.f.Load(v); {
		case p == nil:
		case b.End != 0 && b.Holds(v):
			b.labels = append(b.labels, v)
		default:
			b.bases = append(b.bases, v)
		}
	}
	if m, ok := i.Mem(); ok {
		switch v, fixed := i.MemVaddr(); {
		case fixed && i.Op == x86asm.LEA:
			note(v)
		case m.Base == 0 || m.Index != 0: // table(,%reg,8)
			note(uint64(m.Disp))
		}
	}
	if n, ok := i.Args[1].(x86asm.Imm); ok && i.Op == x86asm.MOV && c.f.Type == elf.TypeExec {
		note(uint64(n))
	}
}

// tables returns the addresses in the function, not reached so far, that its indirect jumps
// may go to: the entries of tables whose address the function names, which are addresses of 8
// bytes or offsets of 4, from the table itself or from a label. A table ends where an entry
// leaves the function. Where no table is found, the labels are what a computed goto uses.
func (b *body) tables(c *code, tried map[uint64]bool) []uint64 {
	if b.End == 0 {
		return nil
	}
	var found []uint64
	inside := func(v uint64) bool { return v >= b.Start && v < b.End }
	entry := func(v uint64) {
		if b.lens[v] == 0 && !tried[v] {
			tried[v] = true
			found = append(found, v)
		}
	}
	regular := false
	for _, t := range append(b.bases[:len(b.bases):len(b.bases)], b.labels...) {
		for n := range uint64(maxTable) {
			w, ok := c.pointer(t + 8*n)
			if !ok || !inside(w) {
				break
			}
			regular = true
			entry(w)
		}
		for _, base := range append([]uint64{t}, b.labels...) {
			for n := range uint64(maxTable) {
				w, err := c.f.Mem(t+4*n, 4)
				if err != nil || len(w) < 4 {
					break
				}
				v := base + uint64(int64(int32(binary.LittleEndian.Uint32(w))))
				if !inside(v) || v == base && base == t {
					break
				}
				regular = regular || base == t
				entry(v)
			}
		}
	}
	if !regular {
		for _, l := range b.labels {
			entry(l)
		}
	}
	return found
}

// pointer returns the address in the word at vaddr, as it is once the file is relocated.
func (c *code) pointer(vaddr uint64) (uint64, bool) {
	if c.relative == nil {
		c.relative = make(map[uint64]uint64)
		n := 0
		_ = c.f.RelaWords(func(at, addend uint64) { // Scan reports what cannot be read
			if n++; n <= maxRelative && c.f.ExecLoad(addend) {
				c.relative[at] = addend
			}
		})
	}
	if v, ok := c.relative[vaddr]; ok {
		return v, true
	}
	return c.f.Word(vaddr)
}

// maxRelative bounds the relocations that are looked at.
const maxRelative = 1 << 20

// runsOver reports whether vaddr is in the middle of an instruction that is reached.
func (b *body) runsOver(vaddr uint64) bool {
	for n := uint64(1); n < x86.MaxLen; n++ {
		if l := b.lens[vaddr-n]; uint64(l) > n {
			return true
		}
	}
	return false
}

// begins reports whether an instruction is known to begin at vaddr, and no other known one
// lies over its n bytes.
func (b *body) begins(vaddr, n uint64) bool {
	if uint64(b.lens[vaddr]) == 0 || b.runsOver(vaddr) {
		return false
	}
	for at := vaddr + 1; at < vaddr+n; at++ {
		if b.lens[at] != 0 && b.runsOver(at) {
			return false
		}
	}
	return true
}
