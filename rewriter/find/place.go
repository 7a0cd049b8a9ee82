// The facts about one address in a file, for crashes of which only the return address on the stack is known.

package find

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// placeBefore is how far before a return address its listing begins if the function does not begin nearer, in
	// bytes: a mov and a call, and the bytes before them.
	placeBefore = 24
	// maxCallLen is the longest call instruction, in bytes: ff /2 with a SIB byte, a displacement of four and two
	// prefixes (SDM vol. 2, CALL).
	maxCallLen = 9
	// placeStart is the distance up to which the listing begins at the function's start, and placeAfter how far
	// behind the address the listing continues, both in bytes.
	placeStart = 64
	placeAfter = 16
)

// Place is the code before a return address.
type Place struct {
	// Skipped is why the file was not examined, as in Report.Skipped; the other fields are then empty.
	Skipped *Skip
	Vaddr   uint64 // of the return address
	BuildID string // in hex, "" for none
	Symbol  string // of the function with the call, "" if it has no name
	Start   uint64 // vaddr of that function, 0 if not known
	// Call is the call instruction that ends at Vaddr; nil if there is none. Target is the target of a call of a
	// fixed address, 0 for others.
	Call   *x86.Line
	Target uint64
	Lines  []x86.Line // the code up to a few bytes behind Vaddr
}

// Look returns the code before the return address at an offset of the file in r, which has size bytes. Like Scan,
// it returns an error only if a read fails.
func Look(r io.ReaderAt, size int64, offset uint64) (*Place, error) {
	f, err := Parse(r, size)
	if skip, err := elf.AsSkip(err); skip != nil || err != nil {
		return &Place{Skipped: skip}, err
	}
	p := &Place{BuildID: f.BuildID()}
	code := f.CodeAt(offset)
	if code == nil {
		p.Skipped = elf.NewSkip(elf.KindNoCode, "no code at that offset of the file")
		return p, nil
	}
	p.Vaddr = code.Vaddr + (offset - code.Off)
	fn := findFunctions(f, []Site{{Vaddr: p.Vaddr - 1}})
	if n, ok := fn.names[p.Vaddr-1]; ok {
		p.Symbol, p.Start = n.text, n.start
	} else if at, ok := fn.starts.enclosing(p.Vaddr - 1); ok {
		p.Start = at
	}
	p.disassemble(f, code)
	if f.Err() != nil {
		return nil, f.Err()
	}
	return p, nil
}

// disassemble finds the call before the return address, and lists the code around it.
func (p *Place) disassemble(f *File, code *elf.Prog) {
	start := p.Vaddr - min(placeBefore, p.Vaddr-code.Vaddr)
	known := p.Start != 0 && p.Start >= code.Vaddr && p.Vaddr-p.Start <= nearSite
	if known {
		start = p.Start
	}
	b := f.Mem(start, p.Vaddr-start+placeAfter)
	if uint64(len(b)) < p.Vaddr-start {
		return
	}
	from := start // of the listing
	var call x86.Instr
	if known {
		from = p.Vaddr
		for at := start; at < p.Vaddr; {
			in, ok := x86.Decode(b[at-start:], at)
			if !ok {
				break
			}
			if in.Next() == p.Vaddr {
				call = in
			}
			if p.Vaddr-at <= placeBefore && from == p.Vaddr {
				from = at
			}
			at = in.Next()
		}
		if p.Vaddr-p.Start <= placeStart {
			from = p.Start
		}
	}
	if !call.Calls() {
		if call = callBefore(b[:p.Vaddr-start], start); !call.Calls() {
			return
		}
		from = call.Addr
	}
	l := call.Line(b[call.Addr-start : p.Vaddr-start])
	p.Call, p.Target = &l, call.Target
	p.Lines, _ = x86.Listing(b[from-start:], b[from-start:], from)
}

// callBefore finds the shortest call that ends at the end of b: the opcode of the register forms is the least
// likely to occur by chance.
func callBefore(b []byte, vaddr uint64) x86.Instr {
	for n := 2; n <= min(maxCallLen, len(b)); n++ {
		at := len(b) - n
		if n == 2 && at > 0 && b[at-1]&0xf8 == 0x40 { // a REX prefix: call *%r8 and above
			continue
		}
		in, ok := x86.Decode(b[at:], vaddr+uint64(at))
		if ok && in.Len == n && in.Calls() {
			return in
		}
	}
	return x86.Instr{}
}
