package rewriter

// Which registers still matter: after a call site, so that a trampoline need not preserve
// the others; and at the entry of a callee.

const (
	// calleeDepth is how many calls deep a callee is looked into.
	calleeDepth = 4
	// maxLiveness bounds the instructions looked at for one question.
	maxLiveness = 4000
)

// deadCandidates are the registers that Site.Dead may name: those that a C function may
// change, but for rax, rcx and r11, which the kernel's own entry changes.
var deadCandidates = regsOf(rdx, rsi, rdi, r8, r9, r10)

// dead returns those of deadCandidates that no path from vaddr on reads before it
// overwrites them. At a return they count as dead only where abi says that the function
// is a C function. rdx counts then too: of the functions that reach the page none returns
// 128 bits. Whatever is not known counts as read.
func (c *code) dead(vaddr uint64, abi bool) uint16 {
	live := regs(0)
	pending := map[uint64]regs{}
	work := []uint64{}
	push := func(at uint64, s regs) {
		if s &^= live; s&^pending[at] != 0 {
			pending[at] |= s
			work = append(work, at)
		}
	}
	push(vaddr, deadCandidates)
	for n := 0; len(work) > 0 && live != deadCandidates; n++ {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		s := pending[at] &^ live
		i, ok := c.at(at)
		if !ok || !i.known || n >= maxLiveness {
			live |= s
			continue
		}
		live |= i.reads & s
		s &^= i.reads | i.writes
		switch i.flow {
		case flowNext:
			push(i.next(), s)
		case flowCond:
			push(i.target, s)
			push(i.next(), s)
		case flowJump:
			push(i.target, s)
		case flowCall:
			read, gone := c.calleeSet(i.target, s)
			live |= read
			push(i.next(), s&^(read|gone))
		case flowCallInd:
			live |= s & argRegs
			push(i.next(), s&^argRegs)
		case flowRet:
			if !abi {
				live |= s
			}
		case flowIndirect:
			live |= s
		case flowStop:
		}
	}
	return uint16(deadCandidates &^ live)
}

// calleeSet asks callee about each register of s.
func (c *code) calleeSet(target uint64, s regs) (read, gone regs) {
	for r := range numRegs {
		if !s.has(r) {
			continue
		}
		reads, survives := c.callee(target, r, calleeDepth)
		if reads {
			read |= 1 << r
		}
		if !survives {
			gone |= 1 << r
		}
	}
	return read, gone
}

// callee looks into the function at target: whether it may read what register r holds at
// its entry, and whether that may still be in r when it returns. Registers that a callee
// must preserve are no arguments; of them only that they survive is said.
func (c *code) callee(target uint64, r, depth int) (reads, survives bool) {
	if !callerSaved.has(r) {
		return false, true
	}
	if depth == 0 {
		return true, true
	}
	seen := map[uint64]bool{}
	work := []uint64{target}
	for n := 0; len(work) > 0 && !(reads && survives); n++ {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		i, ok := c.at(at)
		if !ok || !i.known || n >= maxLiveness {
			return true, true
		}
		if i.reads.has(r) || i.partial.has(r) {
			reads = true
			if i.flow == flowNext && i.operands.has(r) && !i.writes.has(r) {
				survives = true // perhaps saved, to be restored later
			}
		}
		if i.writes.has(r) {
			continue
		}
		switch i.flow {
		case flowNext:
			work = append(work, i.next())
		case flowCond:
			work = append(work, i.target, i.next())
		case flowJump:
			work = append(work, i.target)
		case flowCall:
			in, out := c.callee(i.target, r, depth-1)
			reads = reads || in
			if out && !c.starts.has(i.next()) {
				work = append(work, i.next())
			}
		case flowCallInd:
			reads = reads || argRegs.has(r)
		case flowIndirect:
			if _, fixed := i.memVaddr(); !fixed {
				return true, true
			}
			reads = reads || argRegs.has(r)
		case flowRet:
			survives = true
		case flowStop:
		}
	}
	return reads, survives
}
