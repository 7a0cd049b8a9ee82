// The caller of the page. The page's functions begin with a system call, so at the fault the stack pointer still
// points to the return address, and the call precedes it.

package diagnose

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/rootpath"
	rewriter "vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Caller is the code that called the page.
type Caller struct {
	Module  string `json:"module"`   // path of the mapped file, "" if no file is mapped there
	Offset  uint64 `json:"offset"`   // of the return address from the start of the module in memory, in bytes
	BuildID string `json:"build_id"` // in hex, "" for none
	// File is the file that was examined, "" for none. The rest is known only with it.
	File   string `json:"file"`
	Symbol string `json:"symbol"` // "" if the function has no name
	Libc   string `json:"libc"`
	Code   string `json:"code"` // the call site: bytes in hex, and instructions
}

// page is how much of the start of a file is examined in memory, in bytes.
const page = 4096

// findCaller fills in c.Caller from the core's stack.
func (c *Crash) findCaller(co *core, f *facts, o Options) {
	var b [8]byte
	n, err := co.mem(b[:], f.rsp)
	switch {
	case errors.Is(err, hinterr.ErrDamaged):
		c.note("the caller is not known: the core file is truncated before the stack")
		return
	case err != nil || n < len(b):
		c.note(fmt.Sprintf("the caller is not known: the core has no memory at the stack pointer %#x", f.rsp))
		return
	}
	ret := le.Uint64(b[:])
	m := co.moduleAt(f, ret)
	if m == nil {
		c.note(fmt.Sprintf("the return address %#x is not in a mapped file that the core lists", ret))
		return
	}
	c.Caller = &Caller{Module: m.path, Offset: ret - m.base, BuildID: m.buildID}
	if why := c.readModule(m, o); why != "" {
		c.note(fmt.Sprintf("the code of %s: %s", m.path, why))
	}
}

// module is a mapped file. The kernel dumps the first page of each mapped ELF file (coredump_filter bit 4, core(5)), so
// the core has the build ID although it does not have the code.
type module struct {
	path    string
	base    uint64 // address of its first byte
	offset  uint64 // in the file, of the requested address
	head    []byte // the first page in memory, nil if the core does not have it
	vaddr   uint64 // the requested address as a vaddr of the file; 0 if head does not have it
	buildID string
}

// moduleAt returns the file that is mapped at addr, nil if no file is.
func (c *core) moduleAt(f *facts, addr uint64) *module {
	for _, m := range f.mappings {
		if addr < m.start || addr >= m.end {
			continue
		}
		mod := &module{path: m.path, base: m.start - m.offset, offset: addr - m.start + m.offset}
		c.readHead(mod, addr)
		return mod
	}
	return nil
}

// readHead sets head, vaddr and buildID from the headers of a module in memory, if the core has its first page.
func (c *core) readHead(m *module, addr uint64) {
	head := make([]byte, page)
	n, err := c.mem(head, m.base)
	if err != nil {
		return
	}
	head = head[:n]
	f, err := elf.NewFile(bytes.NewReader(withoutSections(head)))
	if err != nil {
		return
	}
	m.head = head
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && m.offset >= p.Off && m.offset-p.Off < p.Filesz {
			m.vaddr = p.Vaddr + (m.offset - p.Off)
		}
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || m.vaddr == 0 || m.buildID != "" {
			continue
		}
		b := make([]byte, min(p.Filesz, page))
		if n, err := c.mem(b, addr-m.vaddr+p.Vaddr); err == nil {
			m.buildID = rewriter.BuildID(b[:n])
		}
	}
}

// withoutSections returns the first page of an ELF file as a file without section headers, which are at its end.
func withoutSections(head []byte) []byte {
	const shoff, shnum = 40, 60
	if b := bytes.Clone(head); len(b) > shnum+4 {
		clear(b[shoff : shoff+8])
		clear(b[shnum : shnum+4])
		return b
	}
	return nil
}

// readModule finds the call site in the module's file, if the file is available and the one that crashed; why is the
// reason if not.
func (c *Crash) readModule(m *module, o Options) (why string) {
	where := "this machine"
	if o.RootName != "" {
		where = o.RootName
	}
	if o.Root == nil {
		return "not examined"
	}
	r, size, done, err := rootpath.OpenFile(o.Root, path.Clean("/" + m.path)[1:])
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return where + " does not have this file"
	case err != nil:
		return fmt.Sprintf("%s: %v", where, err)
	}
	defer done()
	head := make([]byte, page)
	n, _ := r.ReadAt(head, 0)
	head = head[:n]
	if len(m.head) > 0 && !bytes.Equal(head[:min(n, len(m.head))], m.head[:min(n, len(m.head))]) {
		return where + " has another file of this name"
	}
	report, err := patch.Scan(r, size)
	if err != nil {
		return fmt.Sprintf("%s: %v", where, err)
	}
	for i := range report.Sites {
		s := &report.Sites[i]
		if !c.madeBy(s, m) && !(s.Tail && s.Function.String() == c.Function) {
			continue
		}
		jump := "call"
		if s.Tail { // the return address is in the caller of the function that jumps
			jump = "jmp"
		}
		c.Caller.File, c.Caller.Symbol, c.Caller.Libc = m.path, s.Symbol, report.Libc
		c.Caller.Code = fmt.Sprintf("%#x: mov $%#x,%%rax; %s *%%rax", s.Vaddr, s.Function.Vaddr(), jump)
		return ""
	}
	return "no call of the page precedes the return address"
}

// madeBy reports whether a call site made the call that returns to the address of the module.
func (c *Crash) madeBy(s *find.Site, m *module) bool {
	end := s.Call + uint64(s.CallLen)
	if m.vaddr == 0 { // without the first page, the file's offset has to do: it differs from the vaddr by whole pages
		return s.Function.String() == c.Function && s.Call != 0 && end%page == m.offset%page
	}
	return s.Function.String() == c.Function && s.Call != 0 && end == m.vaddr
}
