// Tables of offsets: what a jump through a register may add to a base. Tables of addresses are found
// wherever they stand; an offset is any number, and says something only with its base. A compiler's
// tables lead into their own function; one in assembly may lead into the middle of another.

package rewriter

import (
	"encoding/binary"
	"slices"
	"sort"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// nameReach is how far before and behind a jump its table and its base may be named, addReach
	// how far before it the two are added, and loadReach how far the offset may be loaded, in bytes.
	nameReach = 4 << 10
	addReach  = 48
	loadReach = 128
	// maxNarrow is how many offsets of one or two bytes are tried: nothing says where they end.
	maxNarrow = 256
	// maxMisses is how many entries that lead nowhere end a table.
	maxMisses = 4
	// maxNamed bounds the addresses that code names, maxThrough the jumps, and maxOffsets what is
	// looked at for all of them. glibc 2.13 has 3,876, 1,125 and 443,089.
	maxNamed, maxThrough, maxOffsets = 1 << 20, 1 << 14, 1 << 21
)

// anyReg are all registers.
const anyReg = ^x86.Regs(0)

// named is an address that the bytes at at name, and load into a register.
type named struct {
	at, vaddr uint64
	reg       int
}

// offsets are the jumps through registers in a file, and what the code names, in ascending order.
type offsets struct {
	*targets
	c      *code
	names  []named
	ends   []uint64 // the addresses among them
	jumps  []uint64
	lo, hi uint64 // of code
	tried  map[load]bool
	left   int // of maxOffsets
}

// load is a table of offsets of size bytes from a base, with a sign or without, counted in units.
type load struct {
	table, base uint64
	size        int
	signed      bool
	unit        uint64
}

// offsets adds what tables of offsets lead to.
func (t *targets) offsets(c *code) error {
	o := &offsets{targets: t, c: c, lo: ^uint64(0), tried: make(map[load]bool), left: maxOffsets}
	for i := range c.f.Progs {
		p := &c.f.Progs[i]
		if p.Type != elf.PTLoad || p.Flags&elf.PFX == 0 || p.Filesz == 0 {
			continue
		}
		o.lo, o.hi = min(o.lo, p.Vaddr), max(o.hi, p.Vaddr+p.Filesz)
		if err := c.f.Chunks(p, o.collect); err != nil {
			return err
		}
	}
	if t.blind = len(o.names) >= maxNamed || len(o.jumps) >= maxThrough; t.blind {
		return nil
	}
	for _, n := range o.names {
		o.ends = append(o.ends, n.vaddr)
	}
	slices.Sort(o.ends)
	for _, at := range o.jumps {
		o.loadsBefore(at)
	}
	t.blind = o.left < 0
	return nil
}

// collect finds jumps through registers, a push and a return among them, and named addresses.
func (o *offsets) collect(b []byte, vaddr uint64, lo, hi int) {
	le := binary.LittleEndian
	for i := lo; i < hi && i+6 <= len(b) && len(o.names) < maxNamed && len(o.jumps) < maxThrough; i++ {
		at := vaddr + uint64(i)
		rex := byte(0)
		if i > 0 && b[i-1]&0xf0 == 0x40 {
			rex = b[i-1]
		}
		switch {
		case b[i] == 0xff && b[i+1]&0xf8 == 0xe0, b[i]&0xf8 == 0x50 && b[i+1] == opRet:
			if rex != 0 {
				at--
			}
			o.jumps = append(o.jumps, at)
		case b[i] == 0x8d && b[i+1]&0xc7 == 5: // lea off rip
			o.name(at, at+6+uint64(int64(int32(le.Uint32(b[i+2:])))), b[i+1]>>3&7|rex&4<<1)
		case !o.fixed:
		case b[i]&0xf8 == 0xb8: // mov
			o.name(at, uint64(le.Uint32(b[i+1:])), b[i]&7|rex&1<<3)
		case b[i] == 0xc7 && b[i+1]&0xf8 == 0xc0 || b[i] == 0x81 && b[i+1]&0xf8 == 0xc0: // mov, add
			o.name(at, uint64(le.Uint32(b[i+2:])), b[i+1]&7|rex&1<<3)
		}
	}
}

func (o *offsets) name(at, v uint64, reg byte) {
	if o.c.f.Load(v) != nil {
		o.names = append(o.names, named{at, v, int(reg)})
	}
}

// around returns the addresses that the code around vaddr names, those for the registers.
func (o *offsets) around(vaddr uint64, regs x86.Regs) []uint64 {
	index := func(v uint64) int {
		return sort.Search(len(o.names), func(i int) bool { return o.names[i].at >= v })
	}
	var all []uint64
	near := o.names[index(vaddr-min(vaddr, nameReach)):index(vaddr+nameReach)]
	o.left -= len(near)
	for _, n := range near {
		if regs.Has(n.reg) {
			all = append(all, n.vaddr)
		}
	}
	if len(all) == 0 && regs != anyReg {
		return o.around(vaddr, anyReg) // copied
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// loadsBefore tries what may be loaded as an offset before the jump at vaddr, whose register is
// computed: by any instruction from which the code runs straight to it, wherever instructions begin.
func (o *offsets) loadsBefore(vaddr uint64) {
	jump, ok := x86.Decode(o.c.bytes(vaddr), vaddr)
	to, _, isReg := jump.ArgGPR(0)
	if !ok || !isReg {
		return
	}
	var straight [loadReach + x86.MaxLen + 1]bool // by the distance to the jump
	straight[0] = true
	var operands, written x86.Regs // of the computation; otherwise
	units := []uint64{1}
	for back := uint64(1); back <= min(vaddr, loadReach) && (back <= addReach || operands != 0) && o.left >= 0; back++ {
		i, ok := x86.Decode(o.c.bytes(vaddr-back), vaddr-back)
		if !ok || uint64(i.Len) > back || !straight[back-uint64(i.Len)] || i.Flow != x86.FlowNext && i.Flow != x86.FlowCond {
			continue
		}
		straight[back] = true
		if computes(&i) && i.Writes.Has(to) && !o.wider(&i) {
			operands |= i.Operands
		}
		units = append(units, multiplies(&i)...)
		size := offsetSize(&i)
		if !computes(&i) && size == 0 {
			written |= i.Writes
		}
		if operands == 0 || size == 0 || o.wider(&i) {
			continue
		}
		slices.Sort(units)
		units = slices.Compact(units)
		base := operands
		if dst, _, _ := i.ArgGPR(0); !written.Has(dst) {
			base &^= 1 << dst // the offset
		}
		bases := o.around(vaddr, base)
		for _, table := range o.tables(vaddr, &i) {
			for _, base := range bases {
				if base != table && !o.c.holds(base) {
					continue // that of another table
				}
				for _, unit := range units {
					o.try(load{table, base, size, i.Op != x86asm.MOVZX, unit})
				}
			}
		}
	}
}

// wider reports whether i is a mov, movslq or add to 8 bytes without the prefix that makes it one:
// compilers' instructions, taken from their second byte.
func (o *offsets) wider(i *x86.Instr) bool {
	b := o.c.bytes(i.Addr - 1)
	return (i.Op == x86asm.MOV || i.Op == x86asm.MOVSXD || i.Op == x86asm.ADD) && len(b) > 0 && b[0]&0xf8 == 0x48
}

// tables returns where the table is that i loads from.
func (o *offsets) tables(jump uint64, i *x86.Instr) []uint64 {
	if v, fixed := i.MemVaddr(); fixed {
		return []uint64{v}
	}
	if m, _ := i.Mem(); o.fixed && o.c.f.Load(uint64(m.Disp)) != nil {
		return []uint64{uint64(m.Disp)}
	}
	return o.around(jump, i.AddressRegs())
}

// multiplies returns the factors by which i multiplies an offset.
func multiplies(i *x86.Instr) []uint64 {
	if m, ok := i.Mem(); ok && i.Op == x86asm.LEA && m.Index != 0 {
		return []uint64{uint64(m.Scale), uint64(m.Scale) + 1}
	}
	n, ok := i.Args[1].(x86asm.Imm)
	switch {
	case i.Op == x86asm.SHL && ok && n < 8:
		return []uint64{1 << n}
	case i.Op == x86asm.ADD && i.Args[0] == i.Args[1]:
		return []uint64{2}
	}
	return nil
}

// computes reports whether i makes an address of two numbers.
func computes(i *x86.Instr) bool {
	if m, ok := i.Mem(); ok && i.Op == x86asm.LEA {
		return m.Base != 0 && m.Base != x86asm.RIP
	}
	return arithmetic[i.Op]
}

// try reads a table.
func (o *offsets) try(l load) {
	if o.left--; o.left < 0 || o.tried[l] {
		return
	}
	o.tried[l] = true
	if d := o.c.f.Prog(elf.PTDynamic); d != nil && l.table >= d.Vaddr && l.table-d.Vaddr < d.Memsz {
		return // the loader's
	}
	end := l.table + maxTable*uint64(l.size)
	if n, _ := slices.BinarySearch(o.ends, l.table+1); n < len(o.ends) {
		end = min(end, o.ends[n])
	}
	b, err := o.c.f.Mem(l.table, end-l.table)
	if err != nil {
		return
	}
	le := binary.LittleEndian
	misses := 0
	for n := 0; len(b) >= l.size && misses < maxMisses && (l.size == 4 || n < maxNarrow); n++ {
		o.left--
		var offset int64
		switch {
		case l.size == 4:
			offset = int64(int32(le.Uint32(b)))
		case l.size == 2 && l.signed:
			offset = int64(int16(le.Uint16(b)))
		case l.size == 2:
			offset = int64(le.Uint16(b))
		case l.signed:
			offset = int64(int8(b[0]))
		default:
			offset = int64(b[0])
		}
		v := l.base + l.unit*uint64(offset)
		if v < o.lo || v >= o.hi {
			misses++
		}
		o.add(v)
		b = b[l.size:]
	}
}

// offsetSize is how many bytes i loads from memory into a register that is longer, or as long as
// half an address; 0 for none.
func offsetSize(i *x86.Instr) int {
	_, _, isReg := i.ArgGPR(0)
	if _, isMem := i.Args[1].(x86asm.Mem); !isReg || !isMem {
		return 0
	}
	switch {
	case i.Op == x86asm.MOVZX || i.Op == x86asm.MOVSX, (i.Op == x86asm.MOVSXD || i.Op == x86asm.MOV || i.Op == x86asm.ADD) && i.MemBytes == halfSize:
		return i.MemBytes
	}
	return 0
}
