// From the uses of a reference to a verdict on it.

package find

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"vfix.dev/vfix/rewriter/x86"
)

// judge sets the verdict of a site, and the calls it reaches. b is the code that reaches it, nil if it is not
// known; isGo reports that Go's linker made the file, keeps that its runtime may keep the page's addresses in
// variables.
func judge(c *code, isGo, keeps bool, b *body, s *Site) {
	if s.Kind != DataWord && !c.f.ExecLoad(s.Vaddr) {
		s.Verdict, s.Reason = Unknown, "machine code in data, which a program may execute"
		return
	}
	switch s.Kind {
	case MovImm32, MovImm64, LeaDisp32, PushImm32, StoreImm32:
		f, why := c.follow(b, s, false)
		if s.Verdict, s.Reason = Unknown, why; f != nil {
			f.conclude(s)
			used := slices.ContainsFunc(f.uses, func(u use) bool { return u.how >= firstEscape && u.how != usedInMemory })
			s.entry = f.copied && !used && !s.Reads && s.Calls == 0
		}
	case HalfImm32, ArithImm32, HalfLoad:
		if !judgeHalf(c, b, s) {
			s.Verdict, s.Reason = Unknown, "half the address, which nothing is seen to make whole"
		}
	case CallRel32, JccRel32:
		s.Verdict, s.Reason = Live, "a direct call into the page"
		s.Call, s.CallLen, s.Calls = s.Vaddr, s.Len, 1
		if s.Tail = s.Kind == JccRel32 || c.has(s.Vaddr, 0xe9); s.Tail {
			s.Reason = "a direct jump into the page"
		}
	case DataWord:
		name := c.fn.names[s.Vaddr].text
		switch {
		case isGo && s.Vaddr%x86.WordSize != 0:
			s.Verdict, s.Reason = Benign, "in the data of a Go program, not aligned as a variable is"
		// This applies to the runtime's own variables; in a stripped program the variables have no names.
		case keeps && (name == "" || strings.HasPrefix(name, "runtime.")):
			s.Verdict, s.Reason = Dormant, "in the data of a Go program, whose runtime calls it only without a vDSO"
		default:
			s.Verdict, s.Reason = Unknown, "the address is in data"
		}
	case CmpImm32:
		s.Verdict, s.Reason = Benign, "compared with"
	}
	// Some comparisons of programs without symbols are not reached by known code: they call nothing either way.
	if s.Verdict != Unknown && s.Kind != DataWord && (s.Kind != CmpImm32 || b != nil) {
		if why := c.unproved(b, s); why != "" {
			s.Verdict, s.Reason = Unknown, why
		}
	}
}

// unproved returns why the bytes of a site in b may not be an instruction, "" if it is proved.
func (c *code) unproved(b *body, s *Site) string {
	switch {
	case b == nil:
		return "no known code reaches it: it may be data"
	case c.f.Mappings(s.Offset) > 1:
		return "its bytes are mapped at two addresses"
	case !b.begins(s.Vaddr, uint64(s.Len)):
		return "another instruction lies over it"
	}
	return ""
}

// follow follows the value of a site that loads the address or stores it, with whole on the paths without the value
// as well. If it cannot, f is nil, and why is the reason.
func (c *code) follow(b *body, s *Site, whole bool) (f *flow, why string) {
	f = newFlow(c, s.Vaddr, s.Function, b)
	if f.paths = whole; whole {
		f.to(b.Start, unknownValue())
	}
	if s.Loads() {
		return f.from(s.Vaddr+uint64(s.Len), exact, x86.RegsOf(int(s.Reg))), ""
	}
	why = "stored in memory"
	i, ok := c.at(s.Vaddr)
	if s.Kind == PushImm32 {
		why = "pushed on the stack"
	} else if _, fixed := i.MemVaddr(); fixed {
		why = "stored in a variable"
	}
	d, known := f.frame[s.Vaddr]
	off := d.SP - x86.WordSize
	if s.Kind == StoreImm32 {
		p := d.Place(&i)
		off, known = p.Off, known && p.Exact
	}
	switch {
	case !ok || !known || !d.HasSP:
		return nil, why
	case off > 0: // 0: the return address
		return nil, "stored in the frame of a caller"
	}
	return f.stored(&i, exact, off), ""
}

// findPageCalls sets the calls of a function that are calls of the page on all paths, if the words of its stack that it
// sets as well have no other values than those that the function itself stores there.
func (c *code) findPageCalls(b *body) {
	if b.pageCalls != nil || len(b.sites) < 2 || len(b.sites)*len(b.lens) > maxFlow {
		return
	}
	b.pageCalls = []uint64{}
	for i := range b.sites {
		f, _ := c.follow(b, &b.sites[i], true)
		if f == nil || f.has(tooMuch) {
			continue
		}
		for at := range f.calls {
			if !f.mixed[at] {
				b.pageCalls = append(b.pageCalls, at)
			}
		}
		b.pageWords = append(b.pageWords, f.words...)
	}
}

// single keeps words in the data of a Go program dormant only if each address occurs once, as in its runtime.
func single(sites []Site) {
	count := make(map[Function]int)
	words := func(visit func(s *Site)) {
		for i := range sites {
			if s := &sites[i]; s.Kind == DataWord && s.Verdict == Dormant {
				visit(s)
			}
		}
	}
	words(func(s *Site) { count[s.Function]++ })
	words(func(s *Site) {
		if count[s.Function] > 1 {
			s.Verdict, s.Reason = Unknown, "the address is in data"
		}
	})
}

// valgrindName is the environment variable of valgrind's launcher, which all of its tools have (m_main.c).
const valgrindName = "VALGRIND_LAUNCHER"

// tables finds the entries of valgrind's table of redirections, which only distinguishes addresses: a pair with
// the address is copied into memory, in a file that also compares with the page. In other programs, a table may be
// one of functions.
func (c *code) tables(sites []Site) {
	entry := func(s Site) bool { return s.entry && s.Verdict == Unknown }
	if !slices.ContainsFunc(sites, func(s Site) bool { return s.Kind == CmpImm32 }) {
		return
	}
	if c.f.budget == nil && len(c.f.FindText(valgrindName)) == 0 { // otherwise an object of an archive
		return
	}
	for i := range sites {
		if s := &sites[i]; entry(*s) {
			s.Verdict, s.Reason = Benign, "an entry of valgrind's table, which compares with it"
		}
	}
}

// conclude sets the results of the flow.
func (f *flow) conclude(s *Site) {
	f.fillCalls(s)
	f.settle()
	s.Reads = f.has(based)
	s.Verdict, s.Reason = f.verdict(f.c.fn.isIfunc(f.c, s.Vaddr))
}

// fillCalls sets the fields of s about the calls that the value reaches.
func (f *flow) fillCalls(s *Site) {
	addrs := slices.Sorted(maps.Keys(f.calls))
	if s.Calls = len(addrs); s.Calls == 0 {
		return
	}
	first := f.calls[addrs[0]]
	s.Call, s.CallLen, s.Tail = first.Addr, uint8(first.Len), first.Flow != x86.FlowCallInd
}

// verdict judges the uses. ifunc reports that the enclosing function is the resolver of an STT_GNU_IFUNC symbol,
// which returns an address that is only called.
func (f *flow) verdict(ifunc bool) (Verdict, string) {
	at := func(h how, more string) string {
		u, _ := f.first(h)
		return fmt.Sprintf("%v at %#x%s", u, u.addr, more)
	}
	switch {
	case f.has(based):
		return Unknown, at(based, "")
	case f.has(firstEscape):
		return Unknown, at(firstEscape, "")
	case f.has(returned) && !ifunc:
		return Unknown, at(returned, "")
	case f.has(kept):
		return f.slotVerdict()
	case f.has(compared) && (len(f.calls) > 0 || f.has(returned) || f.shown):
		return Unknown, at(compared, ", and called, stored or in a register at a call or a fault")
	case f.has(compared) && f.has(left):
		return Unknown, at(left, ", and compared as well")
	case f.has(compared):
		return Benign, at(compared, ", and nothing else")
	case f.exact && f.onStack:
		return Live, "stored on the stack, and only called from there"
	case f.exact:
		return Live, "the register is called, and used for nothing else"
	case len(f.calls) > 0:
		return DormantCall, "chosen by a conditional move, then called"
	case f.has(hidden):
		return DormantCall, at(hidden, ": a pointer that is only called")
	case f.has(returned):
		return DormantCall, at(returned, " by the resolver of an IFUNC symbol")
	case f.has(left):
		return Unknown, at(left, "")
	}
	return Unknown, "loaded, and nothing is seen to use it"
}
