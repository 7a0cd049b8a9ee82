// The caller of the page. The page's functions begin with a system call, so at the fault the stack pointer still
// points to the return address, and the call precedes it.

package diagnose

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/rootpath"
	rewriter "vfix.dev/vfix/rewriter/elf"
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
	c.Caller = &Caller{Module: m.path, Offset: ret - m.base, BuildID: buildID(m.head)}
	if why := c.readModule(m, o); why != "" {
		c.note(fmt.Sprintf("the code of %s: %s", m.path, why))
	}
}

// module is a mapped file. The kernel dumps the first page of each mapped ELF file (coredump_filter bit 4, core(5)), so
// the core has the build ID although it does not have the code.
type module struct {
	path   string
	base   uint64 // address of its first byte
	offset uint64 // in the file, of the requested address
	head   []byte // the first page in memory, empty if the core does not have it
}

// moduleAt returns the file that is mapped at addr, nil if no file is.
func (c *core) moduleAt(f *facts, addr uint64) *module {
	for _, m := range f.mappings {
		if addr < m.start || addr >= m.end {
			continue
		}
		mod := &module{path: m.path, base: m.start - m.offset, offset: addr - m.start + m.offset, head: make([]byte, page)}
		n, _ := c.mem(mod.head, mod.base)
		mod.head = mod.head[:n]
		return mod
	}
	return nil
}

// buildIDNote is the type and name of the note with the build ID; the lengths of its name and content precede it.
var buildIDNote = []byte("\x03\x00\x00\x00GNU\x00")

// buildID returns the build ID in the first page of a file, in hex, "" for none.
func buildID(head []byte) string {
	const lengths = 8
	if i := bytes.Index(head, buildIDNote); i >= lengths {
		return rewriter.BuildID(head[i-lengths:])
	}
	return ""
}

// readModule finds the call site in the module's file, if the file is available and the one that crashed; why is the
// reason if not.
func (c *Crash) readModule(m *module, o Options) (why string) {
	where := cmp.Or(o.RootName, "this machine")
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
	head := make([]byte, len(m.head))
	if n, _ := r.ReadAt(head, 0); !bytes.Equal(head[:n], m.head[:n]) {
		return where + " has another file of this name"
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return fmt.Sprintf("%s: %v", where, err)
	}
	report, err := patch.Scan(r, size)
	if err != nil {
		return fmt.Sprintf("%s: %v", where, err)
	}
	ret := vaddrAt(f, m.offset)
	for i := range report.Sites {
		s := &report.Sites[i]
		jump := "call"
		if s.Tail { // the return address is in the caller of the function that jumps
			jump = "jmp"
		}
		if s.Function.String() != c.Function || !s.Tail && (s.Call == 0 || s.Call+uint64(s.CallLen) != ret) {
			continue
		}
		c.Caller.File, c.Caller.Symbol, c.Caller.Libc = m.path, s.Symbol, report.Libc
		c.Caller.Code = fmt.Sprintf("%#x: mov $%#x,%%rax; %s *%%rax", s.Vaddr, s.Function.Vaddr(), jump)
		return ""
	}
	return "no call of the page precedes the return address"
}

// vaddrAt returns the vaddr at which an offset of a file is mapped, 0 for none.
func vaddrAt(f *elf.File, offset uint64) uint64 {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset-p.Off < p.Filesz {
			return p.Vaddr + (offset - p.Off)
		}
	}
	return 0
}
