package rewriter

import (
	"fmt"
	"sort"
)

// From what a reference is used for to a verdict on it.

// judge fills in the verdict of a site, and the calls it reaches.
func judge(c *code, fn *functions, isGo bool, s *Site) {
	switch s.Kind {
	case MovImm32, MovImm64:
		judgeMov(c, fn, s)
	case PushImm32:
		s.Verdict, s.Reason = Unknown, "pushed on the stack"
		if c.has(s.Vaddr+uint64(s.Len), 0xc3) {
			s.Reason = "pushed on the stack and returned to: no register to load"
		}
	case CallRel32:
		// Five bytes hit one of the three entries by chance once in 2^37: where no function
		// is known to begin before them they are believed.
		if c.inside(s.Vaddr) {
			s.Verdict, s.Reason = Unknown, "looks like a direct call, in the middle of another instruction"
			return
		}
		s.Verdict, s.Reason = Live, "a direct call into the page"
		s.Call, s.CallLen, s.Calls = s.Vaddr, s.Len, 1
		if s.Tail = c.has(s.Vaddr, 0xe9); s.Tail {
			s.Reason = "a direct jump into the page"
		}
	case DataWord:
		s.Verdict, s.Reason = Unknown, "the address is in data"
		if isGo {
			s.Verdict, s.Reason = Dormant, "in the data of a Go program, whose runtime calls it only where it found no vDSO"
		}
	case CmpImm32:
		s.Verdict, s.Reason = Benign, "compared with"
	case StoreImm32:
		s.Verdict, s.Reason = Benign, "an entry of a table that is being filled in"
		if i, ok := c.at(s.Vaddr); ok {
			if _, fixed := i.memVaddr(); fixed {
				s.Verdict, s.Reason = Unknown, "stored in a variable"
			}
		}
	}
}

// judgeMov follows the register that a mov loads.
func judgeMov(c *code, fn *functions, s *Site) {
	next := s.Vaddr + uint64(s.Len)
	f := follow(c, s.Vaddr, next, int(s.Reg), s.Function)
	f.fillCalls(s)
	s.Verdict, s.Reason = f.verdict(fn.isIfunc(c, s.Vaddr))
}

// fillCalls sets the fields of s that name the calls the value reaches.
func (f *flow) fillCalls(s *Site) {
	addrs := make([]uint64, 0, len(f.calls))
	for a := range f.calls {
		addrs = append(addrs, a)
	}
	if s.Calls = len(addrs); s.Calls == 0 {
		return
	}
	sort.Slice(addrs, func(i, j int) bool { return addrs[i] < addrs[j] })
	first := f.calls[addrs[0]]
	s.Call, s.CallLen, s.Tail = first.addr, uint8(first.Len), first.flow == flowIndirect
}

// verdict weighs the uses. ifunc says that the enclosing function is the resolver of an
// STT_GNU_IFUNC symbol: what it returns is an address that is only ever called.
func (f *flow) verdict(ifunc bool) (Verdict, string) {
	if !ifunc {
		f.escapes = append(f.escapes, f.returns...)
		f.returns = nil
	}
	at := func(u use, more string) string { return fmt.Sprintf("%s at %#x%s", u.what, u.addr, more) }
	dormant := len(f.stored)+len(f.returns) > 0
	switch {
	case len(f.escapes) > 0:
		return Unknown, at(f.escapes[0], "")
	case len(f.derefs) > 0:
		return Unknown, at(f.derefs[0], "")
	case len(f.slots) > 0:
		return f.slotVerdict()
	case len(f.compares) > 0 && (len(f.calls) > 0 || dormant):
		return Unknown, at(f.compares[0], ", and called or stored as well")
	case len(f.compares) > 0:
		return Benign, at(f.compares[0], ", and nothing else")
	case len(f.calls) > 0 && f.exact:
		return Live, "the register is called, and used for nothing else"
	case len(f.calls) > 0:
		return DormantCall, "chosen by a conditional move, then called"
	case len(f.stored) > 0:
		return DormantCall, at(f.stored[0], ": a pointer that is only called")
	case len(f.returns) > 0:
		return DormantCall, at(f.returns[0], " by the resolver of an IFUNC symbol")
	}
	return Benign, "overwritten before any use"
}

// isIfunc reports whether vaddr is in the resolver of an IFUNC symbol: whether the code
// that begins at the nearest resolver before it gets there.
func (fn *functions) isIfunc(c *code, vaddr uint64) bool {
	start, ok := fn.starts.enclosing(vaddr)
	return ok && fn.ifuncs[start] && c.reaches(start, vaddr)
}

// reaches reports whether some path from the first to the second address stays within the
// few hundred instructions that a resolver has.
func (c *code) reaches(from, to uint64) bool {
	const most = 1000
	seen := map[uint64]bool{}
	work := []uint64{from}
	for n := 0; len(work) > 0 && n < most; n++ {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if at == to {
			return true
		}
		i, ok := c.at(at)
		if seen[at] || !ok {
			continue
		}
		seen[at] = true
		switch i.flow {
		case flowNext, flowCall, flowCallInd:
			work = append(work, i.next())
		case flowCond:
			work = append(work, i.target, i.next())
		case flowJump:
			work = append(work, i.target)
		}
	}
	return false
}
